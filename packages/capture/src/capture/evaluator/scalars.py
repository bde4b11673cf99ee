"""Decisions by numbers in scalar tensors on the CPU (an optimizer's count of steps): told where one tensor that a call brings tells them.

In: calls as they are recorded, and decisions by numbers found in data. Out: what the decision is now, guarded to be the same at other calls.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from capture._torch import add_to_each, held_alone, inside, is_wrapped
from capture.variables.assumptions import Guards
from capture.variables.tensors import Tensor
from symshapes import is_unbacked, print_expr

#: Calls that make a tensor of numbers alone.
_MAKERS = frozenset({torch.tensor, torch.scalar_tensor, torch.zeros, torch.ones, torch.full})
#: Calls that add to their first argument in place, each tensor of it if it is a list.
_ADDING = frozenset({operator.iadd, "add_", add_to_each})
_NUMBERS = (int, float)
_NAMES = {"math": math, "operator": operator}


@dataclass(frozen=True)
class Held:
    """What a tensor holds: what `origin` held when the frame began (or, made in the frame, since), and what was added to that."""

    origin: Tensor | None
    made: torch.Tensor | None
    added: tuple[tuple[Any, Any], ...] = ()

    def number(self, tensor: torch.Tensor | None) -> Any:
        """The number, where the origin is `tensor`."""
        value = self.made if tensor is None else tensor
        assert value is not None
        if self.added:
            value = value.detach().clone()
            for other, alpha in self.added:
                value.add_(other, alpha=alpha)
        return value.item()


class ScalarTensors:
    """What of one attempt's scalar tensors is known."""

    def __init__(self, guards: Guards) -> None:
        self._guards = guards
        self._variables: Mapping[int, Tensor] = {}
        #: By the storage, the last of which is known what they hold; None for what is not known.
        self._held: dict[object, Held | None] = {}
        self._numbers: dict[Any, Held] = {}
        self._lost = False

    def recorded(
        self,
        target: Any,
        args: list[Any],
        kwargs: dict[str, Any],
        result: Any,
        wrote: bool,
        variables: Mapping[int, Tensor],
    ) -> None:
        """A call was recorded; ``variables`` are those of tensors by the identity of their fakes."""
        self._variables = variables
        if wrote:
            self._write(target, args, kwargs)
        elif target in _MAKERS and isinstance(result, torch.Tensor) and _is_scalar(result) and not is_wrapped(result):
            self._make(target, args, kwargs, result)
        elif target == "item" and is_unbacked(result):
            held = self._of(args[0])
            if held is not None and result.node.expr.is_Symbol:
                self._numbers.setdefault(result.node.expr, held)

    def forget(self) -> None:
        """Calls are taken out of the graph again."""
        self._lost = True

    def decide(self, value: Any) -> bool | None:
        """What a condition on numbers found in data is, and stays by a guard; None where only the run can tell."""
        symbols = sorted(value.node.expr.free_symbols, key=str)
        held = [self._numbers.get(symbol) for symbol in symbols]
        known = [each for each in held if each is not None]
        origins = {id(each.origin): each.origin for each in known if each.origin is not None}
        if self._lost or len(known) < len(held) or len(origins) > 1:
            return None
        names = {symbol: f"n{place}" for place, symbol in enumerate(symbols)}
        text = print_expr(value.node.expr, "python", names=names)
        condition = eval(f"lambda {', '.join(names.values())}: {text}", dict(_NAMES))

        brought = [(each.origin is not None, replace(each, origin=None)) for each in known]

        def now(tensor: torch.Tensor | None) -> bool:
            return bool(condition(*[each.number(tensor if outside else None) for outside, each in brought]))

        (origin,) = origins.values() if origins else (None,)
        if origin is None:
            return now(None)
        assert origin.value is not None
        decided = now(origin.value)

        def same(tensor: Any) -> bool:
            alone = isinstance(tensor, torch.Tensor) and _is_scalar(tensor) and held_alone(tensor)
            return alone and now(tensor) is decided

        told = print_expr(value.node.expr, "python")
        self._guards.predicate(origin, same, f"what {{}} holds decides the same: {told} is {decided}")
        return decided

    def _of(self, fake: Any) -> Held | None:
        if not (isinstance(fake, torch.Tensor) and _is_scalar(fake)):
            return None
        if is_wrapped(fake):
            return None
        key = fake.storage_key  # type: ignore[attr-defined]
        if key in self._held:
            return self._held[key]
        variable = self._variables.get(id(fake))
        if variable is None or variable.value is None or variable.source is None or not held_alone(variable.value):
            return None
        return Held(variable, None)

    def _make(self, target: Any, args: list[Any], kwargs: dict[str, Any], result: Any) -> None:
        leaves = tree_leaves([args, kwargs])
        if not any(isinstance(leaf, torch.Tensor | torch.SymInt | torch.SymFloat | torch.SymBool) for leaf in leaves):
            made = target(*args, **kwargs)
            if made.device.type == "cpu" and made.dtype is result.dtype:
                self._held[result.storage_key] = Held(None, made.detach())

    def _write(self, target: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        amount = self._amount(args[1]) if target in _ADDING and len(args) == 2 and set(kwargs) <= {"alpha"} else None
        alpha = kwargs.get("alpha", 1)
        if amount is None or type(alpha) not in _NUMBERS:
            self._lose(tree_leaves([args, kwargs]))
            return
        for target_tensor in tree_leaves(args[0]):
            held = self._of(target_tensor)
            self._held[inside(target_tensor).storage_key] = held and replace(held, added=(*held.added, (amount, alpha)))

    def _amount(self, other: Any) -> Any:
        """The number that is added, the same at each call."""
        if type(other) in _NUMBERS:
            return other
        held = self._of(other)
        return None if held is None or held.made is None else held.number(None)

    def _lose(self, values: Iterable[Any]) -> None:
        for value in values:
            if isinstance(value, torch.Tensor):
                self._held[inside(value).storage_key] = None


def _is_scalar(tensor: torch.Tensor) -> bool:
    """Whether it is one plain number on the CPU."""
    return tensor.dim() == 0 and tensor.device.type == "cpu" and not tensor.dtype.is_complex
