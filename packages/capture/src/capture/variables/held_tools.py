"""Iterators of ``itertools`` from outside the frame that count, repeat, cut and combine: advanced inside, handed back where they stand.

Where each is, is told in numbers from there on: a capture serves any that has as much to give.
"""

from __future__ import annotations

import functools
import gc
import itertools
import math
from typing import Any

from capture._native import iterator_state
from capture.errors import Unsupported
from capture.sources import Applied, Item, Source

from .base import Interpreter, Variable
from .building import builds
from .held_iterators import TOO_MANY, Held, Moved, Taking, counted, held_source, note_count
from .iterators import Iterator, StopIter
from .placeholders import Lazy


def _state(iterator: Any) -> tuple[Any, ...]:
    found = iterator_state(iterator)
    if found is None:
        raise Unsupported(f"itertools.{type(iterator).__name__} from outside, of which nothing tells where it is")
    return found


def part_of_state(iterator: Any, index: int) -> Any:
    """One of the things that tell where an iterator of ``itertools`` is."""
    return _state(iterator)[index]


class HeldCount(Moved, Iterator):
    """An ``itertools.count`` from outside; what comes may be any number."""

    cls = itertools.count

    def __init__(self, value: Variable, by: Variable) -> None:
        self.value, self.by = value, by

    def next(self, m: Interpreter) -> Variable:
        value, self.value = self.value, m.operators.binary("+", self.value, self.by)
        self.taken += 1
        m.effects.mutated(self)
        return value

    def written(self) -> tuple[Variable, ...]:
        return ()


@builds(itertools.count)
def _build_count(m: Interpreter, value: Any, source: Source | None) -> Variable:
    at = held_source(m, value, source)
    parts = [m.builder.wrap(part, Applied(at, part_of_state, i)) for i, part in enumerate(_state(value))]
    if any(part.realize(m).python_type() not in (int, float) for part in parts):
        raise Unsupported("itertools.count from outside, by other than numbers")
    return HeldCount(*parts)


def _again(iterator: Any, index: int) -> Any:
    """What a cycle that has gone round gives after so many steps."""
    _, saved, place, _ = _state(iterator)
    return saved[(place + index) % len(saved)]


def _saved(iterator: Any, index: int) -> Any:
    """What a cycle that goes round for the first time gave at a place."""
    return _state(iterator)[1][index]


def _saved_count(iterator: Any) -> int:
    return len(_state(iterator)[1])


def _is_under_way(iterator: Any) -> int:
    """Whether there still is what it goes over; of a cycle also whether it keeps what that gives."""
    state = _state(iterator)
    return 0 if state[0] is None else 2 if type(iterator) is itertools.cycle and state[3] else 1


class HeldCycle(Taking):
    """An ``itertools.cycle`` from outside; ``inner`` is what it goes over the first time, whose elements it keeps if ``keeps``."""

    cls = itertools.cycle

    def __init__(self, real: Any, inner: Variable | None, keeps: bool) -> None:
        super().__init__([] if inner is None else [inner])
        self.real = real
        self.inner, self.keeps = inner, keeps
        self.items: list[Variable] = []
        self.place = 0

    def next(self, m: Interpreter) -> Variable:
        m.effects.mutated(self)
        if self.inner is not None:
            try:
                value = self.step_of(m, self.inner)
            except StopIter:
                self.inner = None
                count = _saved_count(self.real)
                check = functools.partial(counted, count, _saved_count)
                m.guards.predicate(self, check, f"what {{}} has gone over: {count}")
                assert self.source is not None
                kept = [self._entry(m, _saved, i) for i in range(count)]
                self.items = kept + self.items
            else:
                if self.keeps:
                    self.items.append(value)
                self.taken += 1
                return value
        elif not self.parts:
            value = self._entry(m, _again, self.taken)
            self.taken += 1
            return value
        if not self.items:
            self.ended = True
            raise StopIter
        value = self.items[self.place]
        self.place = (self.place + 1) % len(self.items)
        self.taken += 1
        return value

    def _entry(self, m: Interpreter, where: Any, index: int) -> Variable:
        assert self.source is not None
        entry = Lazy(where(self.real, index), Applied(self.source, where, index))
        m.guards.reach_content(entry)
        return entry

    def written(self) -> tuple[Variable, ...]:
        self.moved_alone()
        return ()


def _inner_of(m: Interpreter, value: Any, at: Source) -> Variable | None:
    """What one goes over, if there still is something; guarded."""
    under_way = note_count(m, at, value, _is_under_way, "how far {} is")
    inner = m.builder.wrap(_state(value)[0], Applied(at, part_of_state, 0)).realize(m) if under_way else None
    if inner is not None and not isinstance(inner, Moved):
        raise Unsupported(f"itertools.{type(value).__name__} from outside, over {inner!r}")
    return inner


@builds(itertools.cycle)
def _build_cycle(m: Interpreter, value: Any, source: Source | None) -> Variable:
    at = held_source(m, value, source)
    _, saved, _, is_saved = _state(value)
    inner = _inner_of(m, value, at)
    if inner is None and not saved:
        raise Unsupported("itertools.cycle from outside, over nothing")
    return HeldCycle(value, inner, not is_saved)


def _skips(iterator: Any) -> int:
    """How many an islice takes before the next that it gives."""
    _, wanted, _, _, taken = _state(iterator)
    return int(wanted - taken)


def _room(iterator: Any) -> float:
    """How many an islice may take."""
    _, _, stop, _, taken = _state(iterator)
    return math.inf if stop == -1 else stop - taken


def _by(iterator: Any) -> int:
    return int(_state(iterator)[3])


def _has_more_room(than: int, iterator: Any) -> bool:
    return _room(iterator) > than


class HeldSlice(Taking):
    """An ``itertools.islice`` from outside, told by how many it takes from where it stands."""

    cls = itertools.islice

    def __init__(self, real: Any, inner: Variable | None) -> None:
        super().__init__([] if inner is None else [inner])
        self.inner = inner
        self.room, self.wanted, self.by = _room(real), _skips(real), _by(real)
        self.took = 0

    def next(self, m: Interpreter) -> Variable:
        if self.inner is not None and self.wanted - self.took > Held.MOST:
            m.state.took_many = True
            raise Unsupported(TOO_MANY)
        m.effects.mutated(self)
        inner, self.inner = self.inner, None
        self.ended = True  # whatever it is that ends it
        if inner is None:
            raise StopIter
        while self.took < self.wanted:
            self.step_of(m, inner)
            self.took += 1
        if self.took >= self.room:
            room = self.room
            m.guards.predicate(self, functools.partial(_has_room, room), f"room in {{}}: {room}")
            raise StopIter
        m.guards.predicate(self, functools.partial(_has_more_room, self.took), f"room in {{}}: more than {self.took}")
        value = self.step_of(m, inner)
        self.took += 1
        self.wanted += self.by
        if self.wanted >= self.room:
            self.wanted = int(self.room)
            m.guards.predicate(self, functools.partial(_has_room, self.room), f"room in {{}}: {self.room}")
        else:
            check = functools.partial(_has_more_room, self.wanted)
            m.guards.predicate(self, check, f"room in {{}}: more than {self.wanted}")
        self.inner = inner
        self.ended = False
        self.taken += 1
        return value

    def written(self) -> tuple[Variable, ...]:
        self.moved_alone()
        return ()


def _has_room(room: float, iterator: Any) -> bool:
    return _room(iterator) == room


@builds(itertools.islice)
def _build_slice(m: Interpreter, value: Any, source: Source | None) -> Variable:
    at = held_source(m, value, source)
    inner = _inner_of(m, value, at)
    note_count(m, at, value, _skips, "how many {} skips")
    note_count(m, at, value, _by, "the step of {}")
    return HeldSlice(value, inner)


def _rows_left(iterator: Any) -> int:
    """How many a product still gives."""
    pools, places, is_begun, is_over = _state(iterator)
    if is_over:
        return 0
    given = 0
    for pool, place in zip(pools, places, strict=False):
        given = given * len(pool) + place
    return math.prod(map(len, pools)) - (given + 1 if is_begun else 0)


def row_ahead(iterator: Any, index: int) -> Any:
    """What a product gives after so many steps. Raises ``LookupError`` if it ends before that."""
    pools, *_ = _state(iterator)
    number = math.prod(map(len, pools)) - _rows_left(iterator) + index
    if index >= _rows_left(iterator):
        raise LookupError("a product at its end")
    row = []
    for pool in reversed(pools):
        number, place = divmod(number, len(pool))
        row.append(pool[place])
    return tuple(reversed(row))


def _width(iterator: Any) -> int:
    return len(_state(iterator)[0])


class HeldProduct(Held):
    """An ``itertools.product`` from outside."""

    look = staticmethod(row_ahead)
    count_left = staticmethod(_rows_left)

    def entry(self, m: Interpreter, value: Any, source: Source) -> Variable:
        parts: list[Variable] = [Lazy(part, Item(source, i)) for i, part in enumerate(value)]
        for part in parts:
            m.guards.reach_content(part)
        if not parts:  # of no pools: nothing else would tell that there is one
            check = functools.partial(counted, 1, _rows_left)
            m.guards.predicate(self, check, "the rows left of {}: 1")
        return m.builder.new_tuple(parts)


@builds(itertools.product)
def _build_product(m: Interpreter, value: Any, source: Source | None) -> Variable:
    note_count(m, held_source(m, value, source), value, _width, "how many {} combines")
    return HeldProduct(value)


def repeated(iterator: Any, index: int) -> Any:
    """What a repeat gives after so many steps. Raises ``LookupError`` if it ends before that."""
    if index >= _times(iterator):
        raise LookupError("a repeat at its end")
    return gc.get_referents(iterator)[-1]


def _times(iterator: Any) -> float:
    try:
        return int(iterator.__length_hint__())
    except TypeError:
        return math.inf


@builds(itertools.repeat)
def _build_repeat(m: Interpreter, value: Any, source: Source | None) -> Variable:
    held_source(m, value, source)
    return HeldRepeat(value)


class HeldRepeat(Held):
    """An ``itertools.repeat`` from outside."""

    look = staticmethod(repeated)
