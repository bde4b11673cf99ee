"""Torch's own switches in a compiled graph: what runs between two settings runs, and is compiled, with what is in force there."""

from __future__ import annotations

from typing import Any

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


def autocast_beside(x: Tensor, weight: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        y = (x @ weight).float()
        with torch.autocast("cpu", enabled=False):
            y = y @ weight
    with cudnn.flags(enabled=False):
        return told(y.detach()) + y


def autocast_over(x: Tensor, weight: Tensor) -> Tensor:
    y = x @ weight
    with torch.autocast("cpu", torch.bfloat16):
        y = y @ weight
        with cudnn.flags(enabled=False):
            z = told(y.detach()) + y @ weight
            with torch.autocast("cpu", enabled=False):
                z = z.float() @ weight
        z = z @ weight
    return z.float() @ weight


def autocast_within(x: Tensor, weight: Tensor) -> Tensor:
    with cudnn.flags(enabled=False):
        y = x @ weight
        with torch.autocast("cpu", torch.bfloat16):
            y = y @ weight
    with torch.autocast("cpu", torch.bfloat16):
        return told(y.detach()) + y @ weight


@pytest.mark.parametrize("around", [False, True])
@pytest.mark.parametrize("program", [autocast_beside, autocast_over, autocast_within])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_pieces_are_under_the_autocast_that_they_stand_in(backend: str, program: Any, around: bool) -> None:
    compiled = meta.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        results = []
        for run in (compiled, program):
            weight = torch.eye(4).mul_(1.01).requires_grad_()
            with torch.autocast("cpu", torch.bfloat16, enabled=around):
                y = run(torch.linspace(-1, 1, 16).view(4, 4), weight)
                assert torch.is_autocast_enabled("cpu") == around
            y.float().sum().backward()
            results.append((y.detach(), weight.grad))
        torch.testing.assert_close(*results, rtol=2e-2, atol=2e-2)
        assert not torch.is_autocast_enabled("cpu")


def test_control_flow_under_autocast_is_left_to_the_interpreter() -> None:
    def program(x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return torch.cond(x.sum() > 0, lambda x: x @ x, lambda x: x @ x * 2, (x,))

    x = torch.eye(3)
    with pytest.raises(Exception, match="control flow under state"):
        meta.compile(program, fullgraph=True)(x)
    torch.testing.assert_close(meta.compile(program)(x), program(x))
