"""`Tensor._version` of what a frame computes, and of what `Tensor.data` gives: how often it was written to."""

from __future__ import annotations

import pytest
import torch

import capture


def computed(x):
    y = x + 1
    before = y._version
    y.mul_(2)
    y[0].zero_()
    y.t_()
    return before, y._version, y.detach()._version


def data(x):
    y = x.data
    y.t_()
    y.mul_(2)
    return y._version, y


def of_views(x):
    with torch.no_grad():
        y = x.exp()
        z = y.view(-1)[1:]
        z.add_(1)
        return y._version, z._version, y


def of_lists(x):
    y, z = x + 1, x + 2
    torch._foreach_add_([y, z, y], 1)
    torch._foreach_copy_([y[0]], [z[1]])
    with torch.no_grad():
        torch._foreach_zero_([z])
    return y._version, z._version, y


@pytest.mark.parametrize("program", [computed, data, of_views, of_lists], ids=lambda program: program.__name__)
def test_it_is_known(program):
    x = torch.arange(6.0).view(2, 3)
    compiled = capture.compile(program, fullgraph=True)
    for _ in range(2):
        (*wanted, one), (*found, other) = program(x.clone()), compiled(x.clone())
        assert found == wanted
        torch.testing.assert_close(torch.as_tensor(other), torch.as_tensor(one))


def test_of_an_argument_it_is_asked():
    def program(x):
        x.add_(1)
        return x._version, x.detach()._version

    x = torch.zeros(2)
    compiled = capture.compile(program)
    assert [compiled(x) for _ in range(3)] == [(1, 1), (2, 2), (3, 3)]
