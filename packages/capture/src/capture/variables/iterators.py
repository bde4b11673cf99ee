"""Iterators made inside the frame: over containers, ranges, and the lazy built-ins (zip, map, enumerate...)."""

from __future__ import annotations

import functools
import sys
from collections.abc import Hashable, Iterable
from typing import Any

from capture.bytecode import build
from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, SymbolicRaise, Variable
from .constants import BoundBuiltin, Constant
from .handlers import handles
from .reconstruction import CannotReconstruct, Emitter, method_of


class StopIter(Exception):
    """Signal of symbolic iterators: exhausted; ``value`` is what a generator returned."""

    def __init__(self, value: Variable | None = None) -> None:
        super().__init__()
        self.value = value


class Iterator(Variable):
    """Common behaviour. Subclasses give ``next``; the real type is ``cls``."""

    cls: type = type(iter([]))

    def python_type(self) -> type:
        return self.cls

    def truth(self, m: Interpreter) -> bool:
        return True

    def hash_key(self, m: Interpreter) -> Hashable:
        return m.identity.key(self)

    def iterate(self, m: Interpreter) -> Variable:
        return self

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name in ("__next__", "__iter__"):
            return BoundBuiltin(self, name)
        return super().attribute(m, name)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "__next__":
            return m.iteration.next_value(self)
        if name == "__iter__":
            return self
        return super().method(m, name, args, kwargs)

    def made_of(self) -> Iterable[Variable]:
        raise CannotReconstruct(self, f"an iterator of type {self.python_type().__name__}")

    def waits_for(self, m: Interpreter) -> bool:
        """Whether it can only be made once a container has the content that the frame gave it: it ends where the size changes."""
        return False


def begun(iterable: Iterable[Any], steps: int) -> Any:
    """An iterator that has given so many elements; called from generated code."""
    made = iter(iterable)
    for _ in range(steps):
        next(made)
    return made


def ended(iterable: Iterable[Any]) -> Any:
    """An iterator that has given all; called from generated code."""
    made = iter(iterable)
    for _ in made:
        pass
    return made


def _set_position(e: Emitter, position: int) -> None:
    """Move the iterator on top of the stack."""
    name = e.temp()
    e.emit(build.copy(1), build.load_attr("__setstate__"), build.store_fast(name))
    e.emit(build.push_callable(build.load_fast(name)), build.load_const(position), build.call(1), build.pop())


class SequenceIterator(Iterator):
    """Over a list or tuple, by position: sees changes of a list while it runs."""

    def __init__(self, sequence: Variable) -> None:
        self.sequence = sequence
        self.position = 0
        self.cls = type(iter(sequence.base()))  # type: ignore[attr-defined]

    def next(self, m: Interpreter) -> Variable:
        items: list[Variable] = self.sequence.items  # type: ignore[attr-defined]
        if self.position < 0 or self.position >= len(items):
            self.position = -1
            raise StopIter
        self.position += 1
        return items[self.position - 1]

    def made_of(self) -> Iterable[Variable]:
        if self.position > len(self.sequence.items):  # type: ignore[attr-defined]
            # `__setstate__` takes it back to there.
            raise CannotReconstruct(self, "an iterator that stands behind the end")
        return (self.sequence,) if self.position >= 0 else ()  # it lets go of what it is through

    def reconstruct(self, e: Emitter) -> None:
        if self.position < 0:
            e.emit(build.push_callable(build.load_const(iter)), build.load_const(self.sequence.base()), build.call(1))  # type: ignore[attr-defined]
            return
        # Past what a subclass makes of being iterated.
        plain = iter if self.sequence.holder is None else method_of(type(self.sequence.base()), "__iter__")  # type: ignore[attr-defined]
        e.call(plain, [self.sequence])
        if self.position:
            e.move(self.sequence, functools.partial(_set_position, e, self.position))


class TextIterator(SequenceIterator):
    """Over a text or bytes, of which the sequence has the elements."""

    def __init__(self, text: Any, elements: Variable) -> None:
        super().__init__(elements)
        self.text = text
        self.cls = type(iter(text.value))

    def made_of(self) -> Iterable[Variable]:
        return (self.text,)

    def reconstruct(self, e: Emitter) -> None:
        e.call(iter if self.position >= 0 else ended, [self.text])
        if self.position > 0:
            _set_position(e, self.position)


class Computed(SequenceIterator):
    """The items are computed when it is made, so that it cannot be handed out as what it is."""

    def __init__(self, sequence: Variable, cls: type) -> None:
        super().__init__(sequence)
        self.cls = cls

    def made_of(self) -> Iterable[Variable]:
        return Iterator.made_of(self)


class ReversedIterator(SequenceIterator):
    """``reversed(list or tuple)``."""

    def __init__(self, sequence: Variable) -> None:
        super().__init__(sequence)
        self.cls = type(reversed(sequence.base()))  # type: ignore[attr-defined]
        self.position = len(sequence.items) - 1  # type: ignore[attr-defined]
        #: Whether it was asked for more than there was.
        self.ended = False

    def next(self, m: Interpreter) -> Variable:
        items: list[Variable] = self.sequence.items  # type: ignore[attr-defined]
        if not 0 <= self.position < len(items):
            self.position, self.ended = -1, True
            raise StopIter
        self.position -= 1
        return items[self.position + 1]

    def made_of(self) -> Iterable[Variable]:
        return () if self.ended else (self.sequence,)

    def reconstruct(self, e: Emitter) -> None:
        if not 0 <= self.position < len(self.sequence.items):  # type: ignore[attr-defined]
            # `__setstate__` takes it to the last element.
            raise CannotReconstruct(self, "a reversed iterator at its end")
        plain = reversed if self.sequence.holder is None else method_of(type(self.sequence.base()), "__reversed__")  # type: ignore[attr-defined]
        e.call(plain, [self.sequence])
        e.move(self.sequence, functools.partial(_set_position, e, self.position))


class ItemIterator(Iterator):
    """Over an object that has ``__getitem__`` and no ``__iter__``: asks for one place after the other, until there is none."""

    cls: type = type(iter(type("Items", (), {"__getitem__": None})()))

    def __init__(self, owner: Variable, position: int = 0, by: int = 1) -> None:
        self.owner: Variable | None = owner
        self.position = position
        self.by = by
        if by < 0:
            self.cls = reversed

    def next(self, m: Interpreter) -> Variable:
        if self.owner is None or self.position < 0:
            raise StopIter
        try:
            found = self.owner.item(m, Constant(self.position)).realize(m)
        except SymbolicRaise as raised:
            ends = issubclass(raised.exception.python_type(), (IndexError, StopIteration))
            if ends or self.by < 0:  # backwards, whatever is raised is the last
                self.owner = None
            if ends:
                raise StopIter from None
            raise
        self.position += self.by
        return found

    def made_of(self) -> Iterable[Variable]:
        if self.by < 0 or self.owner is None:
            return super().made_of()
        return (self.owner,)

    def reconstruct(self, e: Emitter) -> None:
        assert self.owner is not None
        e.call(iter, [self.owner])
        if self.position:
            _set_position(e, self.position)


class RangeIterator(Iterator):
    """Over a range; ``rest`` is what has not been given yet."""

    def __init__(self, rest: range) -> None:
        self.rest = rest
        self.cls = type(iter(rest))  # another one for numbers beyond the machine's

    def next(self, m: Interpreter) -> Variable:
        if not self.rest:
            raise StopIter
        value, self.rest = self.rest[0], self.rest[1:]
        return Constant(value)

    def made_of(self) -> Iterable[Variable]:
        return ()

    def reconstruct(self, e: Emitter) -> None:
        e.emit(build.push_callable(build.load_const(iter)), build.load_const(self.rest), build.call(1))


class Enumerate(Iterator):
    """``enumerate``, which gives ``count`` next."""

    cls = enumerate

    def __init__(self, inner: Variable, count: int) -> None:
        self.inner = inner
        self.count = count

    def next(self, m: Interpreter) -> Variable:
        value = self.inner.next(m)
        self.count += 1
        return m.builder.new_tuple([Constant(self.count - 1), value])

    def made_of(self) -> Iterable[Variable]:
        return (self.inner,)

    def reconstruct(self, e: Emitter) -> None:
        e.call(enumerate, [self.inner, Constant(self.count)])


class _Together(Iterator):
    """What goes over several, one element of each at a time; ``strict``: they must end together."""

    inner: list[Variable]
    strict: bool

    def elements(self, m: Interpreter) -> list[Variable]:
        """The next of each."""
        got: list[Variable] = []
        for at, each in enumerate(self.inner):
            try:
                got.append(each.next(m))
            except StopIter:
                if self.strict:
                    self.check(m, at)
                raise
        return got

    def check(self, m: Interpreter, at: int) -> None:
        """Raises in the program unless all end with the one at a place."""
        name = self.cls.__name__
        if at:
            others = "argument 1" if at == 1 else f"arguments 1-{at}"
            m.errors.throw(ValueError, f"{name}() argument {at + 1} is shorter than {others}")
        for later in range(1, len(self.inner)):
            try:
                self.inner[later].next(m)
            except StopIter:
                continue
            others = "argument 1" if later == 1 else f"arguments 1-{later}"
            m.errors.throw(ValueError, f"{name}() argument {later + 1} is longer than {others}")

    def reconstruct(self, e: Emitter) -> None:
        e.emit(build.push_callable(build.load_const(self.cls)))
        count = e.load_many(list(self.made_of()))
        if self.strict:
            e.emit(build.load_const(True), build.call(count + 1, ("strict",)))
        else:
            e.emit(build.call(count))


class Zip(_Together):
    """``zip``, with ``strict`` or without."""

    cls = zip

    def __init__(self, inner: list[Variable], strict: bool) -> None:
        self.inner = inner
        self.strict = strict

    def next(self, m: Interpreter) -> Variable:
        if not self.inner:
            raise StopIter
        return m.builder.new_tuple(self.elements(m))

    def made_of(self) -> Iterable[Variable]:
        return self.inner


class Map(_Together):
    """``map``; from 3.14 with ``strict``, too."""

    cls = map
    runs_later = True

    def __init__(self, function: Variable, inner: list[Variable], strict: bool = False) -> None:
        self.function = function
        self.inner = inner
        self.strict = strict

    def next(self, m: Interpreter) -> Variable:
        return m.calls.call(self.function, self.elements(m), {})

    def made_of(self) -> Iterable[Variable]:
        return (self.function, *self.inner)


class Filter(Iterator):
    """``filter``; ``function`` may be None."""

    cls = filter
    runs_later = True

    def __init__(self, function: Variable, inner: Variable) -> None:
        self.function = function
        self.inner = inner

    def next(self, m: Interpreter) -> Variable:
        while True:
            value = self.inner.next(m)
            if m.operators.truth(
                value if m.builder.is_none(self.function) else m.calls.call(self.function, [value], {})
            ):
                return value

    def made_of(self) -> Iterable[Variable]:
        return (self.function, self.inner)

    def reconstruct(self, e: Emitter) -> None:
        e.call(filter, [self.function, self.inner])


class CallableIterator(Iterator):
    """``iter(function, sentinel)``."""

    cls = type(iter(int, 1))

    def __init__(self, function: Variable, sentinel: Variable) -> None:
        self.function = function
        self.sentinel = sentinel
        self.done = False

    def next(self, m: Interpreter) -> Variable:
        if self.done:
            raise StopIter
        value = m.calls.call(self.function, [], {})
        if m.operators.equal(value, self.sentinel):
            self.done = True
            raise StopIter
        return value


class UserIterator(Iterator):
    """An object whose class defines ``__next__``, wrapped so that exhaustion is a signal."""

    def __init__(self, inner: Variable) -> None:
        self.inner = inner

    def python_type(self) -> type:
        return self.inner.python_type()

    def next(self, m: Interpreter) -> Variable:
        return m.iteration.next_of_object(self.inner)

    def made_of(self) -> Iterable[Variable]:
        return (self.inner,)

    def reconstruct(self, e: Emitter) -> None:
        e.load(self.inner)


@handles(enumerate)
def _enumerate(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    start = args[1] if len(args) > 1 else kwargs.get("start", Constant(0))
    inner = m.iteration.iterate(args[0] if args else kwargs["iterable"])
    return m.effects.created(Enumerate(inner, m.operators.index(start)))


@handles(zip)
def _zip(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    strict = _is_strict(m, kwargs)
    return m.effects.created(Zip([m.iteration.iterate(a) for a in args], strict))


def _is_strict(m: Interpreter, kwargs: Kwargs) -> bool:
    if kwargs.keys() - {"strict"}:
        raise Unsupported("an iterator made with keywords that it does not take")
    return bool(kwargs) and m.operators.truth(kwargs["strict"])


@handles(map)
def _map(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if kwargs and sys.version_info < (3, 14):
        raise Unsupported("map with keywords, which it does not take")
    strict = _is_strict(m, kwargs)
    if len(args) < 2:
        raise Unsupported("map of nothing")
    return m.effects.created(Map(args[0], [m.iteration.iterate(a) for a in args[1:]], strict))


@handles(filter)
def _filter(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(Filter(args[0], m.iteration.iterate(args[1])))
