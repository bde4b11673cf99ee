"""Gradients that the program gives itself, in a captured graph: calls of operations that hold the graph of a backward.

In: what a `torch.autograd.Function` computed, and from what; a tensor with a hook. Out: the same, with the program's backward behind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from symshapes import dataclass


@dataclass(frozen=True)
class CustomGradient:
    """`operation(outputs, inputs, free)`: the outputs, which autograd connects to the inputs by the program's own backward.

    `graph` takes a gradient of each output, and `free`; it gives gradients of the inputs at the places `given`. `kept`: those of
    `free` that were saved for the backward, which nobody may write to before. `dirty`: outputs that are inputs, written to;
    `apart`: outputs without a gradient. `once`: the backward cannot be differentiated. `clears`: it lets go of what was saved.
    """

    graph: Callable[..., Any]
    given: tuple[int, ...]
    kept: frozenset[int]
    dirty: frozenset[int]
    apart: frozenset[int]
    once: bool
    clears: bool = False

    __name__ = __qualname__ = "custom_gradient"

    def __call__(self, outputs: Sequence[Any], inputs: Sequence[Any], free: Sequence[Any]) -> tuple[Any, ...]:
        function = _CustomOnce if self.once else _Custom
        found: tuple[Any, ...] = function.apply(self, outputs, free, *inputs)  # type: ignore[no-untyped-call]
        return found


class _Custom(torch.autograd.Function):
    """Outputs with a backward of the program's."""

    @staticmethod
    def forward(ctx: Any, operation: CustomGradient, outputs: Any, free: Any, *inputs: torch.Tensor) -> Any:
        ctx.operation = operation
        ctx.free = [None if place in operation.kept else value for place, value in enumerate(free)]
        ctx.save_for_backward(*(free[place] for place in sorted(operation.kept)))
        ctx.mark_dirty(*(outputs[place] for place in operation.dirty))
        ctx.mark_non_differentiable(*(outputs[place] for place in operation.apart))
        ctx.count = len(inputs)
        if operation.clears:
            ctx.refuse_again = refuse_again  # for whoever traces the backward
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return _gradients(ctx, gradients)


class _CustomOnce(_Custom):
    """The same, of which no gradient can be differentiated."""

    backward = staticmethod(once_differentiable(lambda ctx, *gradients: _gradients(ctx, gradients)))  # type: ignore[assignment]


def _gradients(ctx: Any, gradients: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    operation, free = ctx.operation, list(ctx.free)
    if operation.clears:
        refuse_again(ctx)
    for place, value in zip(sorted(operation.kept), ctx.saved_tensors, strict=True):
        free[place] = value
    # The graph was recorded of such.
    made = iter(operation.graph(*(gradient.contiguous() for gradient in gradients), *free))
    return None, None, None, *(next(made) if place in operation.given else None for place in range(ctx.count))


def refuse_again(ran: Any) -> None:
    """Raise what torch raises where a backward that let go of what was saved runs again; `ran` is told that it does."""
    if getattr(ran, "was_read", False):
        raise RuntimeError(
            "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set on the autograd.Function. "
            "Either access saved_tensors only once, or set clear_saved_tensors_on_access=False."
        )
    ran.was_read = True


@dataclass(frozen=True)
class Hook:
    """`operation(tensor, free)`: have gradients of a tensor replaced by what `graph` makes of each of them, and of `free`.

    It gives the handle, which `remove_hook` takes.
    """

    graph: Callable[..., Any]

    __name__ = __qualname__ = "hook"

    def __call__(self, tensor: torch.Tensor, free: Sequence[Any]) -> Any:
        return tensor.register_hook(lambda gradient: self.graph(gradient.contiguous(), *free)[0])


def remove_hook(handle: Any) -> None:
    """Take a hook away."""
    handle.remove()


def grad_without_hooks(outputs: Any, inputs: Any, by: Any, hooked: Sequence[torch.Tensor], **flags: bool) -> Any:
    """`torch.autograd.grad`, which does not call the hooks that hang on `hooked`: the program calls them."""
    held = [tensor._backward_hooks for tensor in hooked]
    for tensor in hooked:
        tensor._backward_hooks = None
    try:
        return torch.autograd.grad(outputs, inputs, by, **flags)
    finally:
        for tensor, hooks in zip(hooked, held, strict=True):
            tensor._backward_hooks = hooks


def replacing(gradient: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor]:
    """The graph of a hook that gives another gradient."""
    return (other,)


def saved_places(free: Sequence[Any], saved: Collection[Any]) -> frozenset[int]:
    """The places of what was saved among all that a backward uses."""
    return frozenset(place for place, value in enumerate(free) if value in saved)
