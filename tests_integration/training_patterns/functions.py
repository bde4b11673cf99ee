"""Training patterns with functions of the user's own, and compiled functions within each other."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests_integration.training_patterns.registry import Net, Wrap, data, grads, pattern


class Scaled(torch.autograd.Function):
    """x * w with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, power: int) -> torch.Tensor:
        ctx.save_for_backward(x, w)
        ctx.power = power
        return (x * w) ** power

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        x, w = ctx.saved_tensors
        inner = g * ctx.power * (x * w) ** (ctx.power - 1)
        return inner * w * 2, inner * x, None  # twice the truth: to be seen


class ThroughRounding(torch.autograd.Function):
    """A straight-through estimator."""

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.round()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor | None) -> Any:
        return None if g is None else g * 0.5


class ToldWhich(torch.autograd.Function):
    """Two results; its gradient shows which of theirs were there."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x * 2, x.sin()

    @staticmethod
    def backward(ctx: Any, double: torch.Tensor | None, sine: torch.Tensor | None) -> Any:
        (x,) = ctx.saved_tensors
        made = torch.full_like(x, 5.0) if double is None else double * 2
        return made if sine is None else made + sine * x.cos()


@pattern
def told_which_gradients_there_are(compiled: Wrap) -> Any:
    net = Net()
    run = compiled(lambda x: ToldWhich.apply(net(x)))
    for used in ([0], [1], [0, 1]):
        results = run(data(0))
        sum(results[i].square().sum() for i in used).backward()
    return results, grads(net)


@pattern
def own_functions(compiled: Wrap) -> Any:
    net, w = Net(), nn.Parameter(data(5, 3))

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = ThroughRounding.apply(Scaled.apply(net(x), w, 3) * 4).square().sum()
        loss.backward()
        return loss

    run = compiled(step)
    return [run(data(i)) for i in range(2)], grads(net), w.grad


@pattern
def compiled_inside_own_function(compiled: Wrap) -> Any:
    forward = compiled(lambda x, w: torch.tanh(x @ w))
    backward = compiled(lambda g, x, w, y: ((g * (1 - y * y)) @ w.t(), x.t() @ (g * (1 - y * y))))

    class Mine(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            y = forward(x, w)
            ctx.save_for_backward(x, w, y)
            return y

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> Any:
            return backward(g, *ctx.saved_tensors)

    x, w = data(0).requires_grad_(), data(1, 4, 3).requires_grad_()

    def step(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        loss = Mine.apply(x, w).sum()
        loss.backward()
        return loss

    return step(x, w), x.grad.clone(), w.grad.clone(), compiled(step)(x, w), x.grad, w.grad


@pattern
def compiled_calls_compiled(compiled: Wrap) -> Any:
    net = Net()
    inner = compiled(net)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = inner(x * 2).square().sum() + inner(x).sum()
        loss.backward()
        return loss

    run = compiled(step)
    return [run(data(i)) for i in range(2)], grads(net)
