"""Hooks that the program has hung on inputs, before and after their gradient is accumulated: a backward within the frame calls them.

In: the leaves of a backward. Out: their hooks, and the order in which autograd comes to the leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from capture.errors import Unsupported
from symshapes import dataclass

from .autograd_state import set_gradients
from .base import Interpreter, Variable
from .mappings import Dict
from .tensors import Tensor


@dataclass(frozen=True)
class LeafHooks:
    """The hooks of one leaf: those that get the gradient, and those that get the leaf once it is accumulated."""

    before: tuple[Variable, ...] = ()
    after: tuple[Variable, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.before or self.after)

    def gradient(self, m: Interpreter, gradient: Variable) -> Variable:
        """What the hooks make of a gradient."""
        for hook in self.before:
            made = m.calls.call(hook, [gradient], {}).realize(m)
            if not (isinstance(made, Tensor) or m.builder.is_none(made)):
                raise Unsupported("a hook that gives no gradient")
            gradient = made if isinstance(made, Tensor) else gradient
        return gradient

    def accumulated(self, m: Interpreter, leaf: Tensor) -> None:
        """Tell the hooks that a leaf's gradient is there."""
        for hook in self.after:
            if not m.builder.is_none(m.calls.call(hook, [leaf], {}).realize(m)):
                raise Unsupported("a hook after accumulation that gives something")


def hooks_of(m: Interpreter, tensor: Tensor, *, accumulated: bool) -> LeafHooks:
    """The hooks of an input, guarded."""
    if tensor.value is None:
        return LeafHooks()
    found = [
        _functions(m, tensor, name)
        for name in ("_backward_hooks", *(["_post_accumulate_grad_hooks"] if accumulated else ()))
    ]
    return LeafHooks(*found)


def _functions(m: Interpreter, tensor: Tensor, name: str) -> tuple[Variable, ...]:
    hooks = m.builder.wrap(tensor.real(name), tensor.place_of(name)).realize(m)
    if m.builder.is_none(hooks):
        return ()
    if not isinstance(hooks, Dict):
        raise Unsupported("Tensor.backward() to a tensor with hooks")
    return tuple(content for _, content in hooks.whole(m).values())


def order_of(m: Interpreter, outputs: Sequence[Tensor], leaves: Sequence[Tensor]) -> list[Tensor]:
    """The leaves in the order in which a backward comes to them, as one of the fakes shows; last those without a gradient."""
    order: list[Tensor] = []
    handles = [leaf.fake.register_hook(_noting(order, leaf)) for leaf in leaves]
    try:
        with m.recorder.fake_mode:
            by = [torch.empty_like(output.fake) for output in outputs]
            fakes = [leaf.fake for leaf in leaves]
            torch.autograd.grad([o.fake for o in outputs], fakes, by, retain_graph=True, allow_unused=True)
    finally:
        for handle in handles:
            handle.remove()
    return [*order, *(leaf for leaf in leaves if leaf not in order)]


def _noting(order: list[Tensor], leaf: Tensor) -> Callable[[torch.Tensor], None]:
    return lambda _: order.append(leaf)


class quiet:
    """The grad mode in which autograd calls hooks."""

    def __init__(self, m: Interpreter, enabled: bool) -> None:
        self._m = m
        self._enabled = enabled
        self._before = torch.is_grad_enabled()

    def __enter__(self) -> None:
        set_gradients(self._m, self._enabled)

    def __exit__(self, *error: object) -> None:
        set_gradients(self._m, self._before)
