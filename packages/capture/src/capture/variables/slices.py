"""Slices and ranges."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from capture.bytecode import build
from capture.guards import GuardKind
from capture.sources import Const, Source

from .base import Args, Interpreter, Kwargs, SymbolicRaise, Variable
from .building import builds, converts, lazy, part
from .constants import BoundBuiltin, Constant
from .handlers import handles
from .iterators import RangeIterator
from .lookups import has_entry
from .numbers import Symbolic
from .reconstruction import Emitter


class Slice(Variable):
    """A slice object; its parts may be symbolic integers or tensors when a tensor is subscripted with it."""

    def __init__(self, start: Variable, stop: Variable, step: Variable) -> None:
        self.parts = (start, stop, step)

    def python_type(self) -> type:
        return slice

    def as_python(self, m: Interpreter) -> Any:
        return slice(*(None if m.builder.is_none(p) else m.operators.index(p) for p in self.parts))

    def taken(self, m: Interpreter) -> slice:
        """The slice as a sequence takes it; raises ``ValueError`` in the program for a step of zero."""
        try:
            real: slice = self.as_python(m)
        except SymbolicRaise:
            given = (p.realize(m) for p in self.parts)
            if all(m.builder.is_none(p) or has_entry(p.python_type(), "__index__") for p in given):
                raise
            m.errors.throw(TypeError, "slice indices must be integers or None or have an __index__ method")
        if real.step == 0:
            m.errors.throw(ValueError, "slice step cannot be zero")
        return real

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name in ("start", "stop", "step"):
            return self.parts[("start", "stop", "step").index(name)]
        if name == "indices":
            return BoundBuiltin(self, name)
        return super().attribute(m, name)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "indices":
            return m.builder.from_python(m.builder.fold(self.as_python(m).indices, [m.operators.index(args[0])]))
        return super().method(m, name, args, kwargs)

    def made_of(self) -> Iterable[Variable]:
        return self.parts

    def reconstruct(self, e: Emitter) -> None:
        e.call(slice, list(self.parts))

    def as_argument(self, m: Interpreter) -> tuple[Any, Any]:
        pairs = [x.realize(m).as_argument(m) for x in self.parts]
        return slice(*(p[0] for p in pairs)), slice(*(p[1] for p in pairs))


class Range(Variable):
    """A range object of known integers."""

    def __init__(self, value: range) -> None:
        self.value = value

    def python_type(self) -> type:
        return range

    def as_python(self, m: Interpreter) -> Any:
        return self.value

    def hash_key(self, m: Interpreter) -> Hashable:
        return self.value

    def truth(self, m: Interpreter) -> bool:
        return bool(self.value)

    def length(self, m: Interpreter) -> Variable:
        return Constant(m.builder.fold(len, [self.value]))  # which may be too long to tell

    def item(self, m: Interpreter, key: Variable) -> Variable:
        return m.builder.from_python(m.builder.fold(lambda a, b: a[b], [self.value, m.builder.to_python(key)]))

    def contains(self, m: Interpreter, value: Variable) -> bool:
        if isinstance(value, Symbolic) and value.python_type() is int and self.value:
            first, last = sorted((self.value[0], self.value[-1]))
            steps = m.operators.binary(
                "%", m.operators.binary("-", value, Constant(first)), Constant(abs(self.value.step))
            )
            facts = (("<=", Constant(first), value), ("<=", value, Constant(last)), ("==", steps, Constant(0)))
            return all(m.operators.truth(m.operators.compare(*fact)) for fact in facts)
        value.settle(m, set())
        return m.builder.to_python(value) in self.value

    def iterate(self, m: Interpreter) -> Variable:
        return m.effects.created(RangeIterator(self.value))

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name in ("start", "stop", "step"):
            return Constant(getattr(self.value, name))
        return BoundBuiltin(self, name) if name in ("index", "count") else super().attribute(m, name)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name in ("index", "count") and not kwargs:
            given = [m.builder.to_python(a) for a in args]
            return m.builder.from_python(m.builder.fold(getattr(range, name), [self.value, *given]))
        return super().method(m, name, args, kwargs)

    def made_of(self) -> Iterable[Variable]:
        return ()

    def reconstruct(self, e: Emitter) -> None:
        e.emit(build.load_const(self.value))

    def as_argument(self, m: Interpreter) -> tuple[Any, Any]:
        return list(self.value), self.value


@builds(slice)
def _build_slice(m: Interpreter, value: Any, source: Source | None) -> Variable:
    m.guards.of_type(source, slice)
    return Slice(*(lazy(getattr(value, name), part(source, name)) for name in ("start", "stop", "step")))


@builds(range)
def _build_range(m: Interpreter, value: Any, source: Source | None) -> Variable:
    if source is not None and not isinstance(source, Const):
        m.guards.add(source, GuardKind.EQUALS, value)
    return Range(value)


@handles(slice)
def _slice(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    none = Constant(None)
    parts = [none, args[0], none] if len(args) == 1 else [*args, none][:3]
    return Slice(*parts)


@handles(range)
def _range(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return Range(m.builder.fold(range, [m.operators.index(a) for a in args]))


@converts(slice)
def _convert_slice(m: Interpreter, value: slice) -> Variable:
    return Slice(*(m.builder.from_python(v) for v in (value.start, value.stop, value.step)))


@converts(range)
def _convert_range(m: Interpreter, value: range) -> Variable:
    return Range(value)
