"""Iterators from outside the frame: what lies ahead of them is read without moving them, and they are handed back where the program left them.

Only what was taken is guarded: a capture that takes two elements serves any iterator that has two to give.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import gc
import itertools
import operator
import sys
from collections.abc import Callable, Iterable
from typing import Any

from capture.errors import Unsupported
from capture.guards import GuardKind, Predicate
from capture.sources import Applied, Source

from .base import Args, Interpreter, Kwargs, Variable
from .building import builds
from .constants import BoundBuiltin, Constant
from .handlers import handles
from .iterators import Enumerate, Filter, Iterator, Map, SequenceIterator, StopIter, Zip
from .placeholders import Lazy
from .reconstruction import Emitter


def _kind(iterable: Any) -> type:
    return type(iter(iterable))


_REVERSED = _kind(reversed([]))
_POSITIONED = tuple(map(_kind, ([], (), "", "\u0100", range(0), b"")))
_LISTED = tuple(map(_kind, ({}, {}.values(), {}.items(), set())))
_LIST = _kind([])


def ahead(iterator: Any, index: int) -> Any:
    """What an iterator gives after so many steps; raises ``LookupError`` if it ends before that."""
    content, *position = iterator.__reduce__()[1:]
    at = position[0] if position and position[0] is not None else 0
    where = at - index if type(iterator) is _REVERSED else at + index
    if where < 0 or not content:
        raise LookupError("an iterator at its end")
    return content[0][where]


def part_of(iterator: Any, index: int) -> Any:
    """What an ``enumerate``, ``zip``, ``map`` or ``filter`` is made of."""
    return iterator.__reduce__()[1][index]


def advance(iterator: Any, steps: int, ended: bool) -> None:
    """Move an iterator; one that ended gives nothing any more, whatever becomes of what it was over."""
    over_list = type(iterator) is _LIST
    if over_list and steps:
        _set_place(iterator, iterator.__reduce__()[2] + steps)  # the list may have lost what was taken
        steps = 0
    # What it was over may have changed since: then it says so to whoever goes on with it.
    with contextlib.suppress(RuntimeError):
        collections.deque(itertools.islice(iterator, steps), maxlen=0)
        if ended and over_list:
            _set_place(iterator, sys.maxsize)
        if ended:
            next(iterator, None)


def _set_place(iterator: Any, place: int) -> None:
    iterator.__setstate__(place)


class _Moved:
    """How far the program moved an iterator, and how much of that is done by moving what goes over it."""

    taken = taken_by_others = 0
    ended = ended_by_others = False

    def replay(self, e: Emitter) -> None:
        """Move the real one."""
        steps, ended = self.taken - self.taken_by_others, self.ended and not self.ended_by_others
        e.call_discarding(advance, [self, Constant(steps), Constant(ended)])


class Held(_Moved, Iterator):
    """An iterator that was there before the frame, over what has a place for each element."""

    #: Each element that is taken is a place that is guarded: of more of them the interpreter makes less.
    MOST = 500

    def __init__(self, real: Any) -> None:
        self.real = real
        self.cls = type(real)
        self.over = [x for x in gc.get_referents(real) if isinstance(x, list | dict | set)]

    def next(self, m: Interpreter) -> Variable:
        assert self.source is not None
        if self.ended:
            raise StopIter
        if self.taken == self.MOST:
            raise Unsupported("an iterator from outside that gives very many elements")
        known = [m.builder.met(x) for x in self.over]
        if any(x is not None and m.effects.has_changed(x) for x in known):
            raise Unsupported("an iterator from outside, over what the frame changed")
        try:
            value = ahead(self.real, self.taken)
        except LookupError:
            self.end(m)
            raise StopIter from None
        entry = Lazy(value, Applied(self.source, ahead, self.taken))
        m.guards.reach_content(entry)
        self.taken += 1
        m.effects.mutated(self)
        return entry

    def end(self, m: Interpreter) -> None:
        """Note that it gives nothing any more, which is guarded."""
        left = self.taken
        m.guards.predicate(self, functools.partial(_has_left, left), f"operator.length_hint({{}}) == {left}")
        self.ended = True
        m.effects.mutated(self)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "__length_hint__" and not args and not kwargs:
            return self.length(m)
        return super().method(m, name, args, kwargs)

    def attribute(self, m: Interpreter, name: str) -> Variable:
        return BoundBuiltin(self, name) if name == "__length_hint__" else super().attribute(m, name)

    def length(self, m: Interpreter) -> Variable:
        """What ``operator.length_hint`` says, which then is guarded."""
        left = operator.length_hint(self.real)
        m.guards.predicate(self, functools.partial(_has_left, left), f"operator.length_hint({{}}) == {left}")
        return Constant(0 if self.ended else left - self.taken)

    def written(self) -> Iterable[Variable]:
        return ()


def _has_left(left: int, iterator: Any) -> bool:
    return operator.length_hint(iterator) == left


class _HeldOver(_Moved):
    """What ``enumerate`` and ``zip`` from outside share: they are moved themselves, and move what they go over."""

    def move(self, m: Interpreter, inner: list[Variable], take: Callable[[], Variable]) -> Variable:
        """One step, that moves what it goes over."""
        held = [x for x in inner if isinstance(x, _Moved)]
        before = [(x.taken, x.ended) for x in held]
        try:
            found = take()
            self.taken += 1
        except StopIter:
            self.ended = True
            raise
        finally:
            for each, (taken, ended) in zip(held, before, strict=True):
                each.taken_by_others += each.taken - taken
                each.ended_by_others |= each.ended and not ended
            m.effects.mutated(self)  # type: ignore[arg-type]
        return found


class HeldEnumerate(_HeldOver, Enumerate):
    """An ``enumerate`` from outside; what it counts from may be any number."""

    def __init__(self, inner: Variable, start: Variable) -> None:
        super().__init__(inner, 0)
        self.start = start

    def next(self, m: Interpreter) -> Variable:
        def take() -> Variable:
            value = self.inner.next(m)
            number = m.operators.binary("+", self.start, Constant(self.taken))
            made: Variable = m.builder.new_tuple([number, value])
            return made

        return self.move(m, [self.inner], take)

    def written(self) -> Iterable[Variable]:
        return ()


class HeldZip(_HeldOver, Zip):
    """A ``zip`` from outside."""

    def next(self, m: Interpreter) -> Variable:
        return self.move(m, self.inner, lambda: Zip.next(self, m))

    def written(self) -> Iterable[Variable]:
        return ()


@builds(*_POSITIONED, *_LISTED, _REVERSED)
def _build_held(m: Interpreter, value: Any, source: Source | None) -> Variable:
    m.guards.of_type(source, type(value))
    return Held(value)


def _inner(m: Interpreter, value: Any, source: Source, index: int) -> Variable:
    """One of the iterators that another goes over, which is moved with it."""
    found = m.builder.wrap(part_of(value, index), Applied(source, part_of, index)).realize(m)
    if not isinstance(found, Held | HeldEnumerate | HeldZip | Map | Filter):
        raise Unsupported(f"{type(value).__name__} from outside, over {found!r}")
    return found


def _held_source(m: Interpreter, value: Any, source: Source | None) -> Source:
    m.guards.of_type(source, type(value))
    assert source is not None
    return source


@builds(enumerate)
def _build_enumerate(m: Interpreter, value: Any, source: Source | None) -> Variable:
    at = _held_source(m, value, source)
    return HeldEnumerate(_inner(m, value, at, 0), m.builder.wrap(part_of(value, 1), Applied(at, part_of, 1)))


def _counted(count: int, what: Callable[[Any], int], iterator: Any) -> bool:
    return what(iterator) == count


def _parts(iterator: Any) -> int:
    return len(iterator.__reduce__()[1])


def _strictness(iterator: Any) -> int:
    return len(iterator.__reduce__()) > 2


@builds(zip)
def _build_zip(m: Interpreter, value: Any, source: Source | None) -> Variable:
    at = _held_source(m, value, source)
    count, strict = _parts(value), bool(_strictness(value))
    for number, what, words in (
        (count, _parts, "how many it joins"),
        (int(strict), _strictness, "whether it is strict"),
    ):
        check = functools.partial(_counted, number, what)
        m.guards.add(at, GuardKind.CALLABLE, Predicate(check, f"{words} of {{}}: {number}"))
    return HeldZip([_inner(m, value, at, i) for i in range(count)], strict)


@builds(map)
def _build_map(m: Interpreter, value: Any, source: Source | None) -> Variable:
    at = _held_source(m, value, source)
    count = _parts(value)
    check = functools.partial(_counted, count, _parts)
    m.guards.add(at, GuardKind.CALLABLE, Predicate(check, f"how many {{}} goes over: {count - 1}"))
    function = Lazy(part_of(value, 0), Applied(at, part_of, 0))
    return Map(function, [_inner(m, value, at, i) for i in range(1, count)])


@builds(filter)
def _build_filter(m: Interpreter, value: Any, source: Source | None) -> Variable:
    at = _held_source(m, value, source)
    return Filter(Lazy(part_of(value, 0), Applied(at, part_of, 0)), _inner(m, value, at, 1))


@handles(operator.length_hint)
def _length_hint(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    value = args[0].realize(m)
    if isinstance(value, SequenceIterator) and type(value) is SequenceIterator and value.position >= 0:
        return Constant(max(0, len(value.sequence.items) - value.position))  # type: ignore[attr-defined]
    if isinstance(value, Iterator) and not hasattr(value.python_type(), "__length_hint__"):
        return args[1] if len(args) > 1 else Constant(0)
    return value.length(m).realize(m)
