"""Functions of autograd that run for real, since their forward breaks: frames within are given autograd's own ``ctx``."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import capture


def apart() -> None:
    """Ends the graph."""
    open("/dev/null").close()


class Saves(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        wanted = ctx.needs_input_grad
        y = x.sin() * w
        apart()
        z = y * 2 if wanted[1] else y * 2 + 0
        ctx.save_for_backward(z, x, w)
        ctx.factor = 3
        return z

    @staticmethod
    def backward(ctx: Any, by: Any) -> Any:
        z, x, _ = ctx.saved_tensors
        return (
            by * z * x.cos() * ctx.factor,
            (by * x.sin()).sum(0) if ctx.needs_input_grad[1] else None,
        )


class Writes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        apart()
        x.mul_(2)
        ctx.mark_dirty(x)
        ctx.save_for_backward(w)
        return x

    @staticmethod
    def backward(ctx: Any, by: Any) -> Any:
        (w,) = ctx.saved_tensors
        return by * 2 * w, None


class Marks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        apart()
        order = x.argsort(-1)
        y, z = x * w, x * 2
        ctx.mark_non_differentiable(order)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(w)
        return y, order, z

    @staticmethod
    def backward(ctx: Any, by: Any, _: Any, other: Any) -> Any:
        (w,) = ctx.saved_tensors
        return by * w if other is None else by * w + other, None


class SetUp(torch.autograd.Function):
    @staticmethod
    def forward(x: Any, w: Any) -> Any:
        apart()
        return x * w

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, w = inputs
        ctx.save_for_backward(x.detach() * 2, w)

    @staticmethod
    def backward(ctx: Any, by: Any) -> Any:
        x, w = ctx.saved_tensors
        return by * w + x, by.sum() * w


def program(function: Any, x: Any, w: Any) -> Any:
    made = function.apply(x * 1, w)
    return sum(each.sum() for each in made[:1]) if isinstance(made, tuple) else made.sum()


@pytest.mark.parametrize("function", [Saves, Writes, Marks, SetUp], ids=lambda each: each.__name__)
def test_what_a_forward_tells_its_context(function: Any) -> None:
    compiled = capture.compile(program)
    for needs in (True, True, False):
        results = []
        for run in (program, compiled):
            x = torch.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
            w = torch.linspace(1, 2, 3).requires_grad_(needs)
            made = run(function, x, w)
            made.backward()
            results.append((made.detach(), x.grad, w.grad))
        torch.testing.assert_close(results[1], results[0])


def test_contexts_end_no_graph_of_the_frames_within() -> None:
    compiled = capture.compile(program)
    compiled(Saves, torch.ones(2, 3, requires_grad=True), torch.ones(3))
    assert not any("descriptor" in each.reason for each in capture.report(compiled).breaks)
