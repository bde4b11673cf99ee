"""Functions of autograd that say how their backward is called: with its gradients in a list (from torch 2.13 on), with what was saved once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import capture

BOXES = hasattr(torch.autograd.Function, "boxed_grads_call")


class Rows(torch.autograd.Function):
    """A backward that would give other numbers for a tensor than for a list with it; torch before the flag gives the tensor."""

    boxed_grads_call = True

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.save_for_backward(x)
        return x * 2, x.sin()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        if BOXES:
            (given,) = gradients
            assert type(given) is list
            first = given.pop(0)
            second = given.pop()
            assert not given
        else:
            first, second = gradients
        return first * 2 + second * x.cos()


class Told(torch.autograd.Function):
    """Which gradients there are decides what it gives."""

    boxed_grads_call = True

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx: Any, gradients: list[torch.Tensor | None]) -> Any:
        return sum(10**at * each for at, each in enumerate(gradients) if each is not None)


class Read(torch.autograd.Function):
    """A backward that reads what was saved as often as it is asked to."""

    clear_saved_tensors_on_access = True

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, times: int) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.times = times
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        made = gradient
        for _ in range(ctx.times):
            made = made * ctx.saved_tensors[0]
        return made, None


def gradient_of(fn: Any, *args: Any) -> torch.Tensor:
    x = torch.arange(6.0).reshape(3, 2).requires_grad_()
    fn(x, *args).sum().backward()
    assert x.grad is not None
    return x.grad


def test_gradients_in_a_list() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        first, second = Rows.apply(x + 1)
        return first * second

    compiled = capture.compile(program, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(gradient_of(compiled), gradient_of(program))


@pytest.mark.skipif(not BOXES, reason="before torch 2.13 no backward is given a list")
def test_gradients_in_a_list_of_a_backward_that_runs_as_it_is() -> None:
    def program(x: torch.Tensor, which: int) -> torch.Tensor:
        return torch.stack([Told.apply(x + 1)[at] for at in range(2) if which >> at & 1]).sum(0)

    compiled = capture.compile(program, fullgraph=True)
    for which in (1, 2, 3):
        torch.testing.assert_close(gradient_of(compiled, which), gradient_of(program, which))
    x = torch.arange(6.0).requires_grad_()
    first, second = capture.compile(lambda x: Told.apply(x + 1), fullgraph=True)(x)
    for result, scale in ((first, 1), (second, 10)):
        (found,) = torch.autograd.grad((result * x.detach()).sum(), x, retain_graph=True)
        torch.testing.assert_close(found, scale * x.detach())


def test_what_was_saved_is_read_once() -> None:
    def program(x: torch.Tensor, times: int) -> torch.Tensor:
        return Read.apply(x + 1, times)

    compiled = capture.compile(program)
    for _ in range(2):
        torch.testing.assert_close(gradient_of(compiled, 1), gradient_of(program, 1))
        with pytest.raises(RuntimeError, match="can only be accessed once"):
            gradient_of(program, 2)
        with pytest.raises(RuntimeError, match="can only be accessed once"):
            gradient_of(compiled, 2)


@pytest.mark.skipif(not BOXES, reason="before torch 2.13 what was saved stays")
def test_a_second_backward_finds_nothing_saved() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return Read.apply(x + 1, 1).sum()

    def within(x: torch.Tensor) -> torch.Tensor:
        y = Read.apply(x + 1, 1).sum()
        y.backward(retain_graph=True)
        y.backward()
        return y

    for fn in (within, capture.compile(within)):
        with pytest.raises(RuntimeError, match="can only be accessed once"):
            fn(torch.ones(3, requires_grad=True))
    for fn in (forward, capture.compile(forward, fullgraph=True)):
        y = fn(torch.ones(3, requires_grad=True))
        y.backward(retain_graph=True)
        with pytest.raises(RuntimeError, match="can only be accessed once"):
            y.backward()
