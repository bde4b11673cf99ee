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

from .base import Args, Interpreter, Kwargs, SymbolicRaise, Variable
from .building import builds
from .constants import BoundBuiltin, Constant
from .handlers import handles
from .iterators import (
    Enumerate,
    Filter,
    ItemIterator,
    Iterator,
    Map,
    RangeIterator,
    SequenceIterator,
    StopIter,
    TextIterator,
    Zip,
)
from .lookups import has_entry
from .placeholders import Lazy
from .reconstruction import Emitter


def _kind(iterable: Any) -> type:
    return type(iter(iterable))


TOO_MANY = "an iterator from outside that gives very many elements"
_REVERSED = _kind(reversed([]))
_POSITIONED = tuple(map(_kind, ([], (), "", "\u0100", range(0), b"")))
_LISTED = tuple(map(_kind, ({}, {}.values(), {}.items(), set(), collections.OrderedDict())))
_LIST = _kind([])


def ahead(iterator: Any, index: int) -> Any:
    """What an iterator gives after so many steps.

    Raises ``LookupError`` if it ends before that, ``Unsupported`` if it would raise.
    """
    try:
        content, *position = iterator.__reduce__()[1:]
    except RuntimeError as error:  # a set or dictionary that it goes over has changed
        raise Unsupported(f"an iterator from outside that gives nothing any more: {error}") from None
    at = position[0] if position and position[0] is not None else 0
    where = at - index if type(iterator) is _REVERSED else at + index
    if where < 0 or not content:
        raise LookupError("an iterator at its end")
    return content[0][where]


def left_in(iterator: Any) -> int:
    """How many elements an iterator has left; less than none if what it goes over was changed meanwhile."""
    if has_entry(type(iterator), "__length_hint__"):
        return operator.length_hint(iterator)
    try:  # that of an ordered dictionary does not say
        return len(iterator.__reduce__()[1][0])
    except RuntimeError:
        return -1


def part_of(iterator: Any, index: int) -> Any:
    """What an ``enumerate``, ``zip``, ``map`` or ``filter`` is made of."""
    return iterator.__reduce__()[1][index]


def pass_over(iterator: Any, steps: int) -> Any:
    """Move an iterator, and give the last of what it passed; None if it has changed what it goes over."""
    passed: collections.deque[Any] = collections.deque(maxlen=1)
    with contextlib.suppress(RuntimeError):  # as below
        passed.extend(itertools.islice(iterator, steps))
    return passed.pop() if passed else None


def advance(iterator: Any, steps: int, ended: bool) -> None:
    """Move an iterator; one that ended gives nothing any more, whatever becomes of what it was over."""
    over_list = type(iterator) is _LIST
    if over_list and steps:
        iterator.__setstate__(iterator.__reduce__()[2] + steps)  # the list may have lost what was taken
        if not ended:
            return
        steps = 0
    # What it was over may have changed since: then it says so to whoever goes on with it.
    with contextlib.suppress(RuntimeError):
        collections.deque(itertools.islice(iterator, steps), maxlen=0)
        if ended and over_list:
            iterator.__setstate__(sys.maxsize)
        if ended:
            next(iterator, None)


def counted(count: int, what: Callable[[Any], int], iterator: Any) -> bool:
    """Whether an iterator is counted to be so many."""
    return what(iterator) == count


def note_count(m: Interpreter, at: Source, value: Any, what: Callable[[Any], int], words: str) -> int:
    """What an iterator from outside is counted to be; guarded."""
    number = what(value)
    check = functools.partial(counted, number, what)
    m.guards.add(at, GuardKind.CALLABLE, Predicate(check, f"{words}: {number}"))
    return number


class Moved:
    """How far the program moved an iterator, and how much of that is done by moving what goes over it."""

    taken = taken_by_others = 0
    ended = False

    def replay(self, e: Emitter) -> None:
        """Move the real one."""
        e.call_discarding(advance, [self, Constant(self.taken - self.taken_by_others), Constant(self.ended)])


class Held(Moved, Iterator):
    """An iterator that was there before the frame, over what has a place for each element."""

    #: Each element that is taken is a place that is guarded: of more of them the interpreter makes less.
    MOST = 500
    #: What reads an element ahead, and counts those that are left.
    look: Callable[[Any, int], Any] = staticmethod(ahead)
    count_left: Callable[[Any], int] = staticmethod(left_in)

    def __init__(self, real: Any) -> None:
        self.real = real
        self.cls = type(real)
        self.over = [x for x in gc.get_referents(real) if isinstance(x, (list, dict, set))]

    def next(self, m: Interpreter) -> Variable:
        assert self.source is not None
        if self.ended:
            raise StopIter
        if self.taken == self.MOST:
            m.state.took_many = True
            raise Unsupported(TOO_MANY)
        known = [x for x in map(m.builder.met, self.over) if x is not None]
        parts = [getattr(x, "payload", None) for x in known]  # of instances of subclasses
        if any(x is not None and m.effects.has_changed(x) for x in (*known, *parts)):
            raise Unsupported("an iterator from outside, over what the frame changed")
        try:
            value = self.look(self.real, self.taken)
        except LookupError:
            self.end(m)
            raise StopIter from None
        entry = self.entry(m, value, Applied(self.source, self.look, self.taken))
        self.taken += 1
        m.effects.mutated(self)
        return entry

    def entry(self, m: Interpreter, value: Any, source: Source) -> Variable:
        """What it gives, which is guarded to be there."""
        entry = Lazy(value, source)
        m.guards.reach_content(entry)
        return entry

    @property
    def moved_over(self) -> Source | None:
        """Where the element is read from that is at hand where the real one is moved; None if none is."""
        if self.ended or self.taken_by_others or not self.taken or self.cls is _LIST or self.source is None:
            return None
        return Applied(self.source, self.look, self.taken - 1)

    def replay(self, e: Emitter) -> None:
        """Move the real one; who holds what it passed has it of that."""
        if self.moved_over is None or not e.takes_passed(self.moved_over):
            super().replay(e)
            return
        e.call(pass_over, [self, Constant(self.taken)])
        e.have(self.moved_over)

    def end(self, m: Interpreter) -> None:
        """Note that it gives nothing any more, which is guarded."""
        left = self.taken
        check = functools.partial(counted, left, self.count_left)
        m.guards.predicate(self, check, f"{self.count_left.__name__}({{}}) == {left}")
        self.ended = True
        m.effects.mutated(self)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "__length_hint__" and not args and not kwargs:
            return self.length_hint(m)
        return super().method(m, name, args, kwargs)

    def attribute(self, m: Interpreter, name: str) -> Variable:
        hint = name == "__length_hint__" and has_entry(self.cls, name)
        return BoundBuiltin(self, name) if hint else super().attribute(m, name)

    def length_hint(self, m: Interpreter) -> Variable:
        """What ``operator.length_hint`` says, which then is guarded."""
        left = operator.length_hint(self.real)
        check = functools.partial(counted, left, operator.length_hint)
        m.guards.predicate(self, check, f"operator.length_hint({{}}) == {left}")
        return Constant(0 if self.ended else left - self.taken)

    def written(self) -> Iterable[Variable]:
        return ()


class HeldEnumerate(Moved, Enumerate):
    """An ``enumerate`` from outside; what it counts from may be any number.

    Its count cannot be set: the real one is moved by taking from it, which moves what it goes over, too.
    """

    def __init__(self, inner: Variable, start: Variable) -> None:
        super().__init__(inner, 0)
        self.start = start
        self.moves = moved_by(inner)

    def next(self, m: Interpreter) -> Variable:
        m.effects.mutated(self)  # before what it goes over: the real one is moved first, and finds that as it was
        before = [each.taken for each in self.moves]
        value = self.inner.next(
            m
        )  # where that ends or raises, nothing is counted, and what was taken of the others stays taken
        for each, taken in zip(self.moves, before, strict=True):
            each.taken_by_others += each.taken - taken
        number = m.operators.binary("+", self.start, Constant(self.taken))
        self.taken += 1
        return m.builder.new_tuple([number, value])

    def written(self) -> Iterable[Variable]:
        return ()


class Taking(Moved, Iterator):
    """One from outside that is moved by taking from it, which moves what it goes over, too."""

    def __init__(self, parts: list[Variable]) -> None:
        #: Iterators of others that it was in, or that gave it these; and how far it moved each.
        self.parts = parts
        self.steps: collections.Counter[int] = collections.Counter()

    def step_of(self, m: Interpreter, inner: Variable) -> Variable:
        """One step of what it goes over, which the real one takes."""
        moves = [] if type(inner) in _FRESH else moved_by(inner)
        before = [each.taken for each in moves]
        try:
            return inner.next(m)
        finally:
            for each, taken in zip(moves, before, strict=True):
                each.taken_by_others += each.taken - taken
                self.steps[id(each)] += each.taken - taken

    def moved_alone(self) -> None:
        """Raise ``Unsupported`` where the frame moved what it goes over: the real ones are moved one after the other, so that in another
        order it would come to others."""
        moved = [each for part in self.parts if type(part) not in _FRESH for each in moved_by(part)]
        if any(each.taken != self.steps[id(each)] for each in moved):
            raise Unsupported(f"itertools.{self.python_type().__name__} from outside, over what the frame moved, too")


class HeldChain(Taking):
    """An ``itertools.chain`` from outside: it goes over what another iterator gives, one after the other."""

    cls = itertools.chain

    def __init__(self, over: Variable | None, active: Variable | None) -> None:
        super().__init__([part for part in (over, active) if part is not None])
        self.over, self.active = over, active
        #: Lists that it began, with what was in them then.
        self.begun: list[tuple[SequenceIterator, list[Variable]]] = []
        #: Whether it went from one to the next.
        self.went_on = False

    def next(self, m: Interpreter) -> Variable:
        m.effects.mutated(self)
        while self.over is not None or self.active is not None:
            if self.active is None:
                assert self.over is not None
                try:
                    self.went_on = True
                    self.active = self._begin(m, self.step_of(m, self.over))
                except StopIter:
                    self.over = None
                    break
            try:
                value = self.step_of(m, self.active)
            except StopIter:
                self.active = None
                continue
            self.taken += 1
            return value
        self.ended = True
        raise StopIter

    def _begin(self, m: Interpreter, element: Variable) -> Variable:
        made = element.realize(m).iterate(m)
        if type(made) is SequenceIterator:
            self.begun.append((made, list(made.sequence.items)))  # type: ignore[attr-defined]
        elif type(made) not in _FRESH and not isinstance(made, Moved):
            raise Unsupported(f"a chain from outside, over {made!r}")
        if isinstance(made, Moved):
            self.parts.append(made)
        return made

    def written(self) -> Iterable[Variable]:
        if any(made.sequence.items != then for made, then in self.begun):  # type: ignore[attr-defined]
            raise Unsupported("a chain from outside, over what the frame changed")
        if self.went_on:
            self.moved_alone()
        return ()


#: Iterators that a chain makes for itself, and that run no code of the program's.
_FRESH = (SequenceIterator, RangeIterator, TextIterator)


def _held_by(chain: Any) -> list[Any]:
    return [each for each in gc.get_referents(chain) if each is not itertools.chain]


def _place_of_active() -> int:
    """Where, of the two that a chain holds that has begun, the one is that it is in."""
    made = itertools.chain([0, 0, 0], [0])
    next(made)
    return [operator.length_hint(each) for each in _held_by(made)].index(2)


_ACTIVE = _place_of_active()


def _chained(chain: Any, active: int) -> Any:
    """The iterator that a chain is in, or the one that gives what it goes over."""
    held = _held_by(chain)
    return held[_ACTIVE if active else len(held) - 1 - _ACTIVE] if len(held) > 1 else held[0]


def _chained_count(chain: Any) -> int:
    return len(_held_by(chain))


def moved_by(iterator: Variable) -> list[Moved]:
    """Each of the iterators that one step of this one moves for real. Raises ``Unsupported`` where a step would run the program's code."""
    if isinstance(iterator, Moved):
        return [iterator]
    if not isinstance(iterator, Zip):
        raise Unsupported(f"an enumerate from outside, over {iterator!r}")
    return list({id(x): x for each in iterator.inner for x in moved_by(each)}.values())  # `zip(it, it)` has one


@builds(*_POSITIONED, *_LISTED, _REVERSED)
def _build_held(m: Interpreter, value: Any, source: Source | None) -> Variable:
    m.guards.of_type(source, type(value))
    return Held(value)


def _inner(m: Interpreter, value: Any, source: Source, index: int) -> Variable:
    """One of the iterators that another goes over, which is moved with it."""
    found = m.builder.wrap(part_of(value, index), Applied(source, part_of, index)).realize(m)
    if not isinstance(found, (Moved, Zip, Map, Filter)):
        raise Unsupported(f"{type(value).__name__} from outside, over {found!r}")
    return found


def held_source(m: Interpreter, value: Any, source: Source | None) -> Source:
    """How to read an iterator, which is guarded to be of its class."""
    m.guards.of_type(source, type(value))
    assert source is not None
    return source


@builds(enumerate)
def _build_enumerate(m: Interpreter, value: Any, source: Source | None) -> Variable:
    at = held_source(m, value, source)
    return HeldEnumerate(_inner(m, value, at, 0), m.builder.wrap(part_of(value, 1), Applied(at, part_of, 1)))


def _parts(iterator: Any) -> int:
    return len(iterator.__reduce__()[1])


def _strictness(iterator: Any) -> int:
    return len(iterator.__reduce__()) > 2


@builds(zip)
def _build_zip(m: Interpreter, value: Any, source: Source | None) -> Variable:
    at = held_source(m, value, source)
    count = note_count(m, at, value, _parts, "how many {} joins")
    strict = bool(note_count(m, at, value, _strictness, "whether {} is strict"))
    return Zip([_inner(m, value, at, i) for i in range(count)], strict)  # keeps nothing of its own that moves


@builds(itertools.chain)
def _build_chain(m: Interpreter, value: Any, source: Source | None) -> Variable:
    at = held_source(m, value, source)
    count = note_count(m, at, value, _chained_count, "what {} goes over, and is in")

    def part(active: bool) -> Variable:
        found = m.builder.wrap(_chained(value, active), Applied(at, _chained, active)).realize(m)
        moved_by(found)  # or it is refused
        return found

    return HeldChain(part(False) if count else None, part(True) if count > 1 else None)


class HeldReversed(ItemIterator):
    """A ``reversed`` from outside, over what is asked for its places: that is the program's code, so that the real one is put
    where it is to be, and not moved there."""

    def __init__(self, owner: Variable, position: int) -> None:
        super().__init__(owner, position, -1)
        self.ended = False

    def next(self, m: Interpreter) -> Variable:
        m.effects.mutated(self)
        try:
            return super().next(m)
        except (StopIter, SymbolicRaise):
            self.ended = True
            self.position = -1
            raise

    def written(self) -> Iterable[Variable]:
        return ()

    def replay(self, e: Emitter) -> None:
        """Put the real one there."""
        e.call_discarding(_put_back, [self, Constant(self.position), Constant(self.ended)])


def _put_back(iterator: Any, position: int, ended: bool) -> None:
    iterator.__setstate__(position)
    if ended:
        next(iterator, None)


def _place(iterator: Any) -> int:
    """Where a ``reversed`` is; -1 behind its end."""
    return int(next(iter(iterator.__reduce__()[2:]), -1))


@builds(reversed)
def _build_reversed(m: Interpreter, value: Any, source: Source | None) -> Variable:
    at = held_source(m, value, source)
    place = note_count(m, at, value, _place, "where {} is")
    return HeldReversed(m.builder.wrap(part_of(value, 0), Applied(at, part_of, 0)).realize(m), place)


@builds(map)
def _build_map(m: Interpreter, value: Any, source: Source | None) -> Variable:
    at = held_source(m, value, source)
    count = note_count(m, at, value, _parts, "how many {} calls and goes over")
    function = Lazy(part_of(value, 0), Applied(at, part_of, 0))
    strict = sys.version_info >= (3, 14) and bool(note_count(m, at, value, _strictness, "whether {} is strict"))
    return Map(function, [_inner(m, value, at, i) for i in range(1, count)], strict)


@builds(filter)
def _build_filter(m: Interpreter, value: Any, source: Source | None) -> Variable:
    at = held_source(m, value, source)
    return Filter(Lazy(part_of(value, 0), Applied(at, part_of, 0)), _inner(m, value, at, 1))


@handles(operator.length_hint)
def _length_hint(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    value = args[0].realize(m)
    if isinstance(value, SequenceIterator) and type(value) is SequenceIterator and value.position >= 0:
        return Constant(max(0, len(value.sequence.items) - value.position))  # type: ignore[attr-defined]
    if isinstance(value, Iterator) and not hasattr(value.python_type(), "__length_hint__"):
        return args[1] if len(args) > 1 else Constant(0)
    if not any(has_entry(value.python_type(), name) for name in ("__len__", "__length_hint__")):
        return m.builder.from_python(m.builder.fold(operator.length_hint, [None, *map(m.builder.to_python, args[1:])]))
    return value.length_hint(m) if isinstance(value, Held) else value.length(m).realize(m)
