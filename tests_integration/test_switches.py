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


def a_backward_over_a_switch(x: Tensor, weight: Tensor) -> Any:
    with cudnn.flags(enabled=False):
        y = (weight * x).sum()
    y.backward()  # type: ignore[no-untyped-call]
    return y.detach()


def gradients_over_a_switch(x: Tensor, weight: Tensor) -> Any:
    y = weight * x
    with cudnn.flags(enabled=False):
        z = y * 3
    return z.detach(), torch.autograd.grad(z.sum(), [weight])


def a_hook_over_a_switch(x: Tensor, weight: Tensor) -> Any:
    y = weight * x
    with cudnn.flags(enabled=False):
        z = y * 3
    y.register_hook(lambda gradient: gradient * 10)
    return z.sum()


def a_hook_over_control_flow(x: Tensor, weight: Tensor) -> Any:
    y = weight * x
    z = torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y * 3, (y,))
    y.register_hook(lambda gradient: gradient * 10)
    return z.sum()


def a_hook_on_an_input_before_one(x: Tensor, weight: Tensor) -> Any:
    weight.register_hook(lambda gradient: gradient * 10)
    y = weight * x
    with cudnn.flags(enabled=False):
        return (y * weight).sum()


def a_hook_taken_away_after_one(x: Tensor, weight: Tensor) -> Any:
    y = weight * x
    handle = y.register_hook(lambda gradient: gradient * 10)
    with cudnn.flags(enabled=False):
        z = y * weight
    handle.remove()
    return z.sum()


def a_kept_gradient_over_a_switch(x: Tensor, weight: Tensor) -> Any:
    y = weight * x
    with cudnn.flags(enabled=False):
        z = y * 3
    y.retain_grad()
    (z + y).sum().backward()  # type: ignore[no-untyped-call]
    return y.grad


OVER_SWITCHES = [
    a_backward_over_a_switch,
    gradients_over_a_switch,
    a_hook_over_a_switch,
    a_hook_over_control_flow,
    a_hook_on_an_input_before_one,
    a_hook_taken_away_after_one,
    a_kept_gradient_over_a_switch,
]


@pytest.mark.parametrize("program", OVER_SWITCHES, ids=lambda each: each.__name__)
def test_what_asks_autograd_sees_beyond_a_switch(program: Any) -> None:
    results = []
    for run in (program, meta.compile(program)):
        weight = torch.linspace(1, 2, 5).requires_grad_()
        found = run(torch.linspace(-1, 3, 5), weight)
        if isinstance(found, Tensor) and found.requires_grad:
            found.backward()
        results.append((found, weight.grad))
    torch.testing.assert_close(results[1], results[0])


def by_default_dtypes(x: Tensor, weight: Tensor) -> Any:
    before = torch.get_default_dtype()
    counted = torch.arange(3)
    torch.set_default_dtype(torch.float64)
    try:
        y = counted * 1.5, counted / 2, torch.tensor([1.0, 2.0]), torch.full((2,), 0.5), torch.where(x > 0, 1.0, 2.0)
        torch.set_default_dtype(torch.float16)
        z = counted * 0.5, (weight * counted.sum() / 3).sum(), torch.get_default_dtype()
    finally:
        torch.set_default_dtype(before)
    return *y, *z, counted * 1.5, torch.linspace(0, 1, 3), torch.get_default_dtype()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_numbers_become_tensors_of_the_default_dtype_in_force(backend: str) -> None:
    compiled = meta.compile(by_default_dtypes, backend=backend, fullgraph=True)
    for _ in range(2):
        results = []
        for run in (compiled, by_default_dtypes):
            weight = torch.linspace(1, 2, 5).requires_grad_()
            found = run(torch.linspace(-1, 3, 5), weight)
            found[6].backward()
            results.append((found, weight.grad))
        assert [getattr(each, "dtype", each) for each in results[0][0]] == [
            getattr(each, "dtype", each) for each in results[1][0]
        ]
        torch.testing.assert_close(results[0][1], results[1][1])
        torch.testing.assert_close(*([each for each in found if isinstance(each, Tensor)] for found, _ in results))
    assert torch.get_default_dtype() == torch.float32
