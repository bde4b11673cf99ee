"""`torch.autograd.Function`: its forward is evaluated like any other code, its backward into a graph of its own.

In: a call of ``apply``. Out: what the forward gives, whose gradients the backward makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

import torch
from torch import fx
from torch.autograd.function import FunctionCtx, once_differentiable

from capture.errors import Unsupported
from capture.late_code import PlainBackward, held

from .autograd_state import set_gradients
from .base import Args, Interpreter, Kwargs, Variable
from .constants import BoundBuiltin, Constant
from .functions import Function
from .handlers import handles
from .lookups import MISSING, class_lookup, is_among
from .made_again import MadeAgain
from .sequences import List, Tuple
from .tensors import Tensor

_ONCE = once_differentiable(lambda ctx: None).__code__


class Context(Variable):
    """The ``ctx`` of one call."""

    def __init__(self, needed: Sequence[bool]) -> None:
        self.attrs: dict[str, Variable] = {"needs_input_grad": Tuple([Constant(need) for need in needed])}
        self.saved: list[Variable] = []
        self.dirty: list[Variable] = []
        self.apart: list[Variable] = []
        self.materializes = True
        # Whether what was saved may be read but once, and was.
        self.read_once = self.was_read = False

    def python_type(self) -> type:
        return FunctionCtx

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name in self.attrs:
            m.effects.later.kept(m, self.attrs[name], f"ctx.{name}")
            return self.attrs[name]
        if name in ("saved_tensors", "saved_variables"):
            if self.read_once and self.was_read:
                raise Unsupported(f"ctx.{name} of a function of autograd that is read again, where the first clears it")
            self.was_read = True
            found: Variable = m.builder.new_tuple(list(self.saved))
            return found
        if name in _METHODS:
            return BoundBuiltin(self, name)
        if hasattr(torch.autograd.Function, name):
            raise Unsupported(f"ctx.{name} of a function of autograd")
        m.errors.throw(AttributeError, f"object has no attribute {name!r}")

    def set_attribute(self, m: Interpreter, name: str, value: Variable) -> None:
        if hasattr(torch.autograd.Function, name):
            raise Unsupported(f"setting ctx.{name} of a function of autograd")
        self.attrs[name] = value
        m.effects.mutated(self)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name not in _METHODS or kwargs:
            return m.calls.call(self.attribute(m, name), args, kwargs)
        given = [arg.realize(m) for arg in args]
        if name == "set_materialize_grads":
            self.materializes = m.operators.truth(given[0])
        else:
            if not all(isinstance(each, Tensor) or m.builder.is_none(each) for each in given):
                raise Unsupported(f"ctx.{name} of what is no tensor")
            setattr(self, _METHODS[name], given)
        m.effects.mutated(self)
        return Constant(None)

    def held(self) -> Iterable[Variable]:
        """The tensors that were saved."""
        return (each for each in self.saved if isinstance(each, Tensor))


_METHODS = {
    "save_for_backward": "saved",
    "mark_dirty": "dirty",
    "mark_non_differentiable": "apart",
    "set_materialize_grads": "materializes",
}


@handles("torch.autograd.function.Function.apply")
def _apply(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if m.levels.inside:
        raise Unsupported("a function of autograd within a function transform")
    cls, given = args[0].realize(m), [arg.realize(m) for arg in args[1:]]
    real = m.builder.to_python(cls)
    if real.__module__ == "torch.nn.modules._functions":  # full backward hooks look for its node by name
        raise Unsupported("a hook that waits for a module's gradients")
    apart = not is_among(class_lookup(m, real, "setup_context")[1], torch.autograd.Function.__mro__)
    if m.levels.inside:
        raise Unsupported("a function of autograd within a function transform")
    if kwargs:
        raise Unsupported("a function of autograd with arguments by name")
    needed = [isinstance(arg, Tensor) and arg.fake.requires_grad for arg in given]
    differentiates = torch.is_grad_enabled() and any(needed)
    context: Context = m.effects.created(Context(needed if torch.is_grad_enabled() else [False] * len(given)))
    before = torch.is_grad_enabled()
    forward = cls.attribute(m, "forward")
    set_gradients(m, False)
    try:
        if apart:
            result = m.calls.call(forward, list(given), {}).realize(m)
            inputs = m.builder.new_tuple(list(given))
            m.calls.call(cls.attribute(m, "setup_context"), [context, inputs, result], {})
        else:
            result = m.calls.call(forward, [context, *given], {}).realize(m)
    finally:
        set_gradients(m, before)
    if not differentiates and not context.dirty and not _gives(result, given):
        return result
    if class_lookup(m, real, "backward")[0] is MISSING or class_lookup(m, real, "vjp")[1] is real:
        raise Unsupported("a function of autograd without a backward")
    return _connected(m, cls, context, given, result)


def _gives(result: Variable, given: Sequence[Variable]) -> bool:
    """Whether it gives what it was given, which becomes a view."""
    items = result.items if isinstance(result, Tuple) else [result]
    return any(item is each for item in items for each in given if isinstance(each, Tensor))


def _in_graph(argument: Variable) -> TypeGuard[Tensor]:
    """Whether an argument is a tensor that the graph has: of those that only their class knows, none differentiates."""
    return isinstance(argument, Tensor) and argument.node is not None


def _connected(m: Interpreter, cls: Variable, context: Context, given: Args, result: Variable) -> Variable:
    several = isinstance(result, Tuple)
    if several and result.python_type() is not tuple:
        raise Unsupported("a function of autograd that gives no plain tuple")
    items = [item.realize(m) for item in (result.items if isinstance(result, Tuple) else [result])]
    outputs = [item for item in items if isinstance(item, Tensor)]
    if any(
        isinstance(each, Tensor) and each.node is None and (each.fake.requires_grad or each in items)
        for each in (*given, *items)
    ):
        raise Unsupported("a function of autograd that gives a tensor subclass, or differentiates one")
    inputs = [arg for arg in given if _in_graph(arg)]
    if not outputs or len({id(each) for each in outputs}) < len(outputs):
        raise Unsupported("a function of autograd that gives no tensor, or one twice")
    if any(each.source is not None and each not in inputs for each in outputs):
        raise Unsupported("a function of autograd that gives a tensor it was not given")
    # Of what has no gradient it is told that there is none.
    told = not context.materializes and len([each for each in outputs if each not in context.apart]) > 1
    if told and context.apart:
        raise Unsupported(
            "a function of autograd whose backward is told which gradients there are, and never gets some"
        )
    if any(each not in outputs for each in (*context.dirty, *context.apart)):
        raise Unsupported("a function of autograd that marks what it does not give")
    backward, once = _backward(m, cls)
    boxed = _flag(m, cls, "boxed_grads_call")
    context.read_once = _flag(m, cls, "clear_saved_tensors_on_access")
    places = [place for place, arg in enumerate(given) if _in_graph(arg)]

    def gradients(by: list[Variable]) -> tuple[Variable, Sequence[int]]:
        of_outputs: dict[Variable, Variable] = dict(zip(outputs, by, strict=True))
        if not context.materializes:
            for each in context.apart:
                of_outputs.pop(each, None)
        all_given = [of_outputs.get(item, Constant(None)) for item in items]
        if boxed:
            all_given = [m.effects.created(List(all_given))]
        context.was_read = False
        made = m.calls.call(backward, [context, *all_given], {}).realize(m)
        found = [each.realize(m) for each in made.items] if isinstance(made, Tuple) else [made]
        if len(found) < len(given) or not all(m.builder.is_none(each) for each in found[len(given) :]):
            raise Unsupported("a backward that gives another number of gradients")
        kept: list[Variable] = []
        which: list[int] = []
        for place, each in enumerate(found[: len(given)]):
            if m.builder.is_none(each):
                continue
            if place not in places or not isinstance(each, Tensor):
                raise Unsupported("a backward that gives a gradient of what has none")
            kept.append(each)
            which.append(places.index(place))
        tuple_of: Variable = m.builder.new_tuple(kept)
        return tuple_of, which

    def plain(free: list[fx.Node]) -> PlainBackward:
        made_again = MadeAgain(m, free)
        wanted = [made_again.step_of(each) for each in (*context.attrs.values(), *context.saved)]
        return PlainBackward(
            held(m.builder.to_python(cls)),
            made_again.recipe(wanted),
            tuple(context.attrs),
            tuple(isinstance(item, Tensor) for item in items),
            tuple(_in_graph(arg) for arg in given),
            boxed,
        )

    made = m.custom_gradients.function(
        outputs,
        inputs,
        gradients,
        saved=list(context.held()),
        dirty=[outputs.index(each) for each in context.dirty if isinstance(each, Tensor)],
        apart=[outputs.index(each) for each in context.apart if isinstance(each, Tensor)],
        once=once,
        told=told,
        clears=lambda: context.read_once and context.was_read,
        plain=plain,
    )
    left = iter(made)
    all_items = [next(left) if isinstance(item, Tensor) else item for item in items]
    found: Variable = m.builder.new_tuple(all_items) if several else all_items[0]
    return found


def _flag(m: Interpreter, cls: Variable, name: str) -> bool:
    """What a class says about its backward; torch before the flag knows of none."""
    return hasattr(torch.autograd.Function, name) and m.operators.truth(cls.attribute(m, name).realize(m))


def _backward(m: Interpreter, cls: Variable) -> tuple[Variable, bool]:
    """A function's backward, and whether it is one that cannot be differentiated."""
    found = cls.attribute(m, "backward").realize(m)
    real: Any = found.real if isinstance(found, Function) else None
    if real is None or real.__code__ is not _ONCE:
        return found, False
    m.guards.note_code(found)
    return found.held(m, "fn"), True  # type: ignore[attr-defined]
