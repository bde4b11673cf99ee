"""Code of the program that runs in a backward and reads what may be another by then: facts that are known again as it starts.

In: objects that it read, as they were; the graph that it was evaluated to. Out: an operation that runs that graph while all facts hold,
and else the code itself, as it is.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from symshapes import ControlFlow, dataclass

from .custom_gradients import CustomGradient, refuse_again

#: What nothing has: the content of an empty cell, an attribute that is not there, an object that is gone.
_NOTHING = object()
_NUMBERS = (float, complex)
_PLAIN = (int, bool, str, bytes, *_NUMBERS)


def held(value: Any) -> Callable[[], Any]:
    """What gives an object, and keeps it alive only where Python has no other way."""
    try:
        reference = weakref.ref(value)
    except TypeError:
        return lambda: value

    def look() -> Any:
        found = reference()
        return _NOTHING if found is None else found

    return look


def _same(one: Any, other: Any) -> bool:
    """Whether it is that object, or a plain value like it: numbers to the bit."""
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is tuple:
        return len(one) == len(other) and all(map(_same, one, other))
    return kind in _PLAIN and bool(one == other) and (kind not in _NUMBERS or repr(one) == repr(other))


@dataclass(frozen=True, eq=False)
class Fact:
    """`look` found this in an object."""

    owner: Callable[[], Any]
    look: Callable[[Any], Sequence[Any]]
    found: tuple[Callable[[], Any], ...]

    @staticmethod
    def of(owner: Any, look: Callable[[Any], Sequence[Any]]) -> Fact:
        """What it finds now."""
        return Fact(held(owner), look, tuple(map(held, look(owner))))

    def holds(self) -> bool:
        """Whether it finds the same again."""
        owner = self.owner()
        if owner is _NOTHING:
            return False
        now = self.look(owner)
        return len(now) == len(self.found) and all(
            _same(one, other()) for one, other in zip(now, self.found, strict=True)
        )


def cell_content(cell: Any) -> Sequence[Any]:
    """What a cell holds."""
    try:
        return (cell.cell_contents,)
    except ValueError:
        return (_NOTHING,)


def entry(name: str) -> Callable[[Any], Sequence[Any]]:
    """What a namespace has under a name."""
    return lambda namespace: (namespace.get(name, _NOTHING),)


def attribute(name: str) -> Callable[[Any], Sequence[Any]]:
    """What an object itself has under a name, in its dictionary or a slot: no code of the program runs."""

    def look(owner: Any) -> Sequence[Any]:
        try:
            own = object.__getattribute__(owner, "__dict__")
        except AttributeError:
            own = {}
        if name in own:
            return (own[name],)
        for cls in type(owner).__mro__:
            slot = vars(cls).get(name)
            if isinstance(slot, types.MemberDescriptorType):
                try:
                    return (slot.__get__(owner),)
                except AttributeError:
                    break
        return (_NOTHING,)

    return look


def content(container: Any) -> Sequence[Any]:
    """Whatever is in a list, a dictionary, a set or the like, in its order, whatever its class says."""
    if isinstance(container, dict):
        return [part for item in dict.items(container) for part in item]
    base = next(base for base in type(container).__mro__ if base.__module__ in ("builtins", "collections"))
    return list(base.__iter__(container))  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class Recipe:
    """How values are made again: each step of those before it, of values of the graph, and of objects from outside.

    The values at `wanted` are what is asked for.
    """

    steps: tuple[Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Any], ...]
    objects: tuple[Callable[[], Any], ...]
    wanted: tuple[int, ...]

    def made(self, free: Sequence[Any], objects: Sequence[Any]) -> list[Any]:
        """The values."""
        values: list[Any] = []
        for step in self.steps:
            values.append(step(values, free, objects))
        return [values[place] for place in self.wanted]


class PlainContext:
    """The ``ctx`` of a backward that runs as it is; of what the program did not put there it is asked of autograd's node."""

    def __init__(self, node: Any, attributes: dict[str, Any], saved: tuple[Any, ...]) -> None:
        vars(self).update(attributes)
        self.saved_tensors = saved
        self._node = node

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_node"], name)


@dataclass(frozen=True, eq=False)
class PlainBackward:
    """The backward of a function of autograd, as it is. `recipe` gives the attributes `names` of its context, then what was saved.

    `outputs`: which of the forward's results are tensors; `inputs`: which of its arguments are; `boxed`: it takes the gradients as a list.
    """

    cls: Callable[[], Any]
    recipe: Recipe
    names: tuple[str, ...]
    outputs: tuple[bool, ...]
    inputs: tuple[bool, ...]
    boxed: bool

    def gradients(self, node: Any, gradients: Sequence[Any], free: Sequence[Any]) -> list[Any]:
        """The gradients of the arguments that are tensors. Raises what autograd raises where it gives another number of them."""
        made = self.recipe.made(free, node.objects)
        attributes = dict(zip(self.names, made, strict=False))
        left = iter(gradients)
        given = [next(left) if is_tensor else None for is_tensor in self.outputs]
        context = PlainContext(node, attributes, tuple(made[len(self.names) :]))
        found = node.cls.backward(context, given) if self.boxed else node.cls.backward(context, *given)
        all_found = list(found) if isinstance(found, tuple) else [found]
        count = len(self.inputs)
        if len(all_found) < count or any(each is not None for each in all_found[count:]):
            name = f"{node.cls.__name__}Backward"
            raise RuntimeError(
                f"function {name} returned an incorrect number of gradients (expected {count}, got {len(all_found)})"
            )
        return [each for each, is_tensor in zip(all_found, self.inputs, strict=False) if is_tensor]


class LateGradient(ControlFlow):
    """`operation(*outputs, *inputs, *free)`: what a `CustomGradient` gives, whose backward looks at the facts first.

    Where they do not hold any more, or its gradients are to be differentiated, the backward runs as it is. So it does where it
    is `told` which gradients there are, and some are not.
    """

    def __init__(
        self,
        gradient: CustomGradient,
        counts: tuple[int, int],
        facts: tuple[Fact, ...],
        plain: PlainBackward,
        told: bool,
    ) -> None:
        super().__init__([gradient.graph])
        self.gradient, self.counts, self.facts, self.plain, self.told = gradient, counts, facts, plain, told

    def over(self, graphs: Sequence[Callable[..., Any]]) -> LateGradient:
        return LateGradient(replace(self.gradient, graph=graphs[0]), self.counts, self.facts, self.plain, self.told)

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        outputs, inputs = self.counts
        function = _LateOnce if self.gradient.once else _Late
        given = values[outputs : outputs + inputs]
        found: tuple[Any, ...] = function.apply(self, values[:outputs], values[outputs + inputs :], *given)  # type: ignore[no-untyped-call]
        return found

    def gradients(self, node: Any, gradients: Sequence[torch.Tensor | None]) -> tuple[Any, ...]:
        """Those of `apply`'s arguments."""
        gradient, free = self.gradient, list(node.free)
        if gradient.clears:
            refuse_again(node)
        for place, value in zip(sorted(gradient.kept), node.saved_tensors, strict=True):
            free[place] = value
        missing = any(each is None for each in gradients)
        if missing or torch.is_grad_enabled() or not all(fact.holds() for fact in self.facts):
            return None, None, None, *self.plain.gradients(node, gradients, free)
        there = [each.contiguous() for each in gradients if each is not None]
        made = iter(gradient.graph(*there, *free))
        return None, None, None, *(next(made) if place in gradient.given else None for place in range(self.counts[1]))


class _Late(torch.autograd.Function):
    """Outputs with a backward that looks first."""

    @staticmethod
    def forward(ctx: Any, operation: LateGradient, outputs: Any, free: Any, *inputs: torch.Tensor) -> Any:
        gradient, plain = operation.gradient, operation.plain
        ctx.operation = operation
        # What the program's own context would keep alive.
        ctx.cls, ctx.objects = plain.cls(), [each() for each in plain.recipe.objects]
        ctx.free = [None if place in gradient.kept else value for place, value in enumerate(free)]
        ctx.save_for_backward(*(free[place] for place in sorted(gradient.kept)))
        ctx.mark_non_differentiable(*(outputs[place] for place in gradient.apart))
        ctx.set_materialize_grads(not operation.told)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return ctx.operation.gradients(ctx, gradients)


class _LateOnce(_Late):
    """The same, of which no gradient can be differentiated."""

    backward = staticmethod(once_differentiable(lambda ctx, *gradients: ctx.operation.gradients(ctx, gradients)))  # type: ignore[assignment]
