"""Functions of autograd whose backward is told which gradients there are: `ctx.set_materialize_grads(False)`."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import capture


class Two(torch.autograd.Function):
    """Its gradient shows which of its own were there."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, k: float) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        ctx.k = k
        return x * k, x.sin()

    @staticmethod
    def backward(ctx: Any, first: torch.Tensor | None, second: torch.Tensor | None) -> Any:
        (x,) = ctx.saved_tensors
        made = x * 0 + 100 if first is None else first * ctx.k
        return (made + 10 if second is None else made + second * x.cos()), None


class Largest(torch.autograd.Function):
    """One of its results has no gradient, which is never there."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        value, place = x.max(-1)
        ctx.mark_non_differentiable(place)
        ctx.place, ctx.size = place, x.shape
        return value, place

    @staticmethod
    def backward(ctx: Any, value: torch.Tensor, place: torch.Tensor | None) -> torch.Tensor:
        made = torch.zeros(ctx.size).scatter(-1, ctx.place[..., None], value[..., None])
        return made if place is None else made * 3


def both(x: torch.Tensor, which: int) -> torch.Tensor:
    first, second = Two.apply(x * 2, 2.5)
    found = x.sum()
    if which & 1:
        found = found + (first * first).sum()
    if which & 2:
        found = found + (second * second).sum()
    return found


@pytest.mark.parametrize("which", range(4))
def test_gradients_that_are_not_there(which: int) -> None:
    compiled = capture.compile(both, fullgraph=True)
    for _ in range(2):
        x = torch.randn(3, 4, requires_grad=True)
        wanted, found = (torch.autograd.grad(fn(x, which), x, create_graph=True)[0] for fn in (both, compiled))
        torch.testing.assert_close(found, wanted)
        if which:
            wanted, found = (torch.autograd.grad(each.square().sum(), x)[0] for each in (wanted, found))
            torch.testing.assert_close(found, wanted)


def test_which_there_are_is_known_at_the_backward() -> None:
    """Results of one graph, of which one is used, or the other, or both."""
    compiled = capture.compile(lambda x: Two.apply(x * 2, 2.5), fullgraph=True)
    for which in ([0], [1], [0, 1], [0]):
        x = torch.randn(3, 4, requires_grad=True)
        wanted, found = (
            torch.autograd.grad([results[i].sum() for i in which], x)[0]
            for results in (Two.apply(x * 2, 2.5), compiled(x))
        )
        torch.testing.assert_close(found, wanted)
    assert compiled.session.report.graph_count == 1


def test_a_result_without_a_gradient() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        value, place = Largest.apply(x * 2)
        return value.square().sum(), place

    compiled = capture.compile(fn, fullgraph=True)
    x = torch.randn(3, 4, requires_grad=True)
    wanted, found = (torch.autograd.grad(each(x)[0], x)[0] for each in (fn, compiled))
    torch.testing.assert_close(found, wanted)
    assert not compiled(x)[1].requires_grad
