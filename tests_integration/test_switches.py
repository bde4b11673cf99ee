"""Torch's own switches in a compiled graph: what runs between two settings runs, and is compiled, with what is in force there."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.backends import cudnn

import meta


@torch.library.custom_op("test_switches::told", mutates_args=())
def told(x: Tensor) -> Tensor:
    """What eager kernels find."""
    return x * (1 if cudnn.enabled else 2) + (10 if cudnn.benchmark else 0)


@told.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def within_a_block(x: Tensor, weight: Tensor) -> Tensor:
    with torch.no_grad(), cudnn.flags(enabled=False, benchmark=True):
        y = told(x.sin() * weight)
    z = told(y.detach()) * weight
    with cudnn.flags(enabled=False):
        return told(z.detach()) + (z * weight).relu()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_kernels_find_what_is_in_force(backend: str) -> None:
    compiled = meta.compile(within_a_block, backend=backend, fullgraph=True)
    for _ in range(2):
        results = []
        for run in (compiled, within_a_block):
            x, weight = torch.linspace(-1, 1, 5), torch.linspace(1, 2, 5).requires_grad_()
            y = run(x, weight)
            y.sum().backward()
            results.append((y.detach(), weight.grad))
        torch.testing.assert_close(*results)
        assert cudnn.enabled and not cudnn.benchmark


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_an_operation_that_raises(backend: str) -> None:
    def program(x: Tensor, at: Tensor) -> Tensor:
        with cudnn.flags(enabled=False):
            return x.sin()[at] * 2

    compiled = meta.compile(program, backend=backend, fullgraph=True)
    x = torch.rand(3)
    torch.testing.assert_close(compiled(x, torch.tensor([1])), program(x, torch.tensor([1])))
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([7]))
    assert cudnn.enabled
