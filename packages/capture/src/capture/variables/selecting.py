"""The iterators of ``itertools`` that choose, group, repeat and share."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from .base import Args, Interpreter, Kwargs, Variable
from .handlers import handles
from .iterators import Iterator, StopIter
from .reconstruction import CannotReconstruct, Emitter


class _OfTwo(Iterator):
    """An iterator of a function, or of selectors, and of what it runs over: made again of both, for it keeps nothing else."""

    def __init__(self, first: Variable, second: Variable) -> None:
        self.first = first
        self.second = second

    def made_of(self) -> Iterable[Variable]:
        return (self.first, self.second)

    def reconstruct(self, e: Emitter) -> None:
        e.call(self.cls, [self.first, self.second])


class Compress(_OfTwo):
    """``itertools.compress(data, selectors)``."""

    cls = itertools.compress

    def next(self, m: Interpreter) -> Variable:
        while True:
            value, chosen = self.first.next(m), self.second.next(m)
            if m.operators.truth(chosen):
                return value


class FilterFalse(_OfTwo):
    """``itertools.filterfalse(function, iterable)``; None asks the values."""

    cls = itertools.filterfalse
    runs_later = True

    def next(self, m: Interpreter) -> Variable:
        while True:
            value = self.second.next(m)
            plain = m.builder.is_none(self.first) or getattr(self.first.realize(m), "value", None) is bool
            if not m.operators.truth(value if plain else m.calls.call(self.first, [value], {})):
                return value


class StarMap(_OfTwo):
    """``itertools.starmap(function, iterable)``."""

    cls = itertools.starmap
    runs_later = True

    def next(self, m: Interpreter) -> Variable:
        return m.calls.call(self.first, m.iteration.elements(self.second.next(m)), {})


class _Until(_OfTwo):
    """An iterator that behaves in one way until its function says so, then in another."""

    runs_later = True
    turned = False

    def made_of(self) -> Iterable[Variable]:
        if self.turned:
            raise CannotReconstruct(self, f"an iterator of type {self.cls.__name__} that has turned")
        return super().made_of()


class DropWhile(_Until):
    """``itertools.dropwhile(function, iterable)``."""

    cls = itertools.dropwhile

    def next(self, m: Interpreter) -> Variable:
        while True:
            value = self.second.next(m)
            if self.turned:
                return value
            if not m.operators.truth(m.calls.call(self.first, [value], {})):
                self.turned = True
                return value


class TakeWhile(_Until):
    """``itertools.takewhile(function, iterable)``."""

    cls = itertools.takewhile

    def next(self, m: Interpreter) -> Variable:
        if self.turned:
            raise StopIter
        value = self.second.next(m)
        if m.operators.truth(m.calls.call(self.first, [value], {})):
            return value
        self.turned = True
        raise StopIter


class Cycle(Iterator):
    """``itertools.cycle(iterable)``."""

    cls = itertools.cycle

    def __init__(self, inner: Variable) -> None:
        self.inner: Variable | None = inner
        self.saved: list[Variable] = []
        self.place = 0

    def next(self, m: Interpreter) -> Variable:
        if self.inner is not None:
            try:
                value = self.inner.next(m)
            except StopIter:
                self.inner = None
            else:
                self.saved.append(value)
                return value
        if not self.saved:
            raise StopIter
        value = self.saved[self.place]
        self.place = (self.place + 1) % len(self.saved)
        return value

    def made_of(self) -> Iterable[Variable]:
        if self.inner is None or self.saved:
            return super().made_of()
        return (self.inner,)

    def reconstruct(self, e: Emitter) -> None:
        assert self.inner is not None
        e.call(itertools.cycle, [self.inner])


class Branch(Iterator):
    """One of the iterators of ``itertools.tee``: they share what has been taken."""

    cls: type = type(itertools.tee(())[0])

    def __init__(self, inner: Variable, taken: list[Variable], place: int) -> None:
        self.inner = inner
        self.taken = taken
        self.place = place

    def next(self, m: Interpreter) -> Variable:
        if self.place == len(self.taken):
            self.taken.append(self.inner.next(m))
        self.place += 1
        return self.taken[self.place - 1]


class GroupBy(Iterator):
    """``itertools.groupby(iterable, key)``."""

    cls = itertools.groupby

    def __init__(self, inner: Variable, function: Variable | None) -> None:
        self.inner = inner
        self.function = function
        self.key: Variable | None = None
        self.value: Variable | None = None
        self.wanted: Variable | None = None
        self.group: Group | None = None

    def advance(self, m: Interpreter) -> None:
        """Take the next value and its key."""
        value = self.inner.next(m)
        self.key = value if self.function is None else m.calls.call(self.function, [value], {})
        self.value = value

    def next(self, m: Interpreter) -> Variable:
        self.group = None
        while self.key is None or (self.wanted is not None and m.operators.equal(self.wanted, self.key)):
            self.advance(m)
        self.wanted = self.key
        self.group = m.effects.created(Group(self, self.key))
        return m.builder.new_tuple([self.key, self.group])


class Group(Iterator):
    """The values of one group, as long as the grouping has not gone on."""

    cls: type = type(next(itertools.groupby("a"))[1])

    def __init__(self, owner: GroupBy, key: Variable) -> None:
        self.owner = owner
        self.key = key

    def next(self, m: Interpreter) -> Variable:
        owner = self.owner
        if owner.group is not self:
            raise StopIter
        if owner.value is None:
            owner.advance(m)
        assert owner.key is not None and owner.value is not None
        if not m.operators.equal(self.key, owner.key):
            raise StopIter
        value, owner.value = owner.value, None
        return value


class Batched(Iterator):
    """``itertools.batched(iterable, n)``, of CPython 3.12 and later."""

    cls: type = getattr(itertools, "batched", object)

    def __init__(self, inner: Variable, size: int, strict: bool) -> None:
        self.inner = inner
        self.size = size
        self.strict = strict
        self.done = False

    def next(self, m: Interpreter) -> Variable:
        got: list[Variable] = []
        while len(got) < self.size and not self.done:
            try:
                got.append(self.inner.next(m))
            except StopIter:
                self.done = True
        if not got:
            raise StopIter
        if self.strict and len(got) < self.size:
            m.errors.throw(ValueError, "batched(): incomplete batch")
        return m.builder.new_tuple(got)


@handles(itertools.compress)
def _compress(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    data, selectors = (*args, *(kwargs[name] for name in ("data", "selectors") if name in kwargs))
    return m.effects.created(Compress(m.iteration.iterate(data), m.iteration.iterate(selectors)))


def _with_function(cls: Any) -> None:
    @handles(cls.cls)
    def make(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        return m.effects.created(cls(args[0], m.iteration.iterate(args[1])))


for _cls in (FilterFalse, StarMap, DropWhile, TakeWhile):
    _with_function(_cls)


@handles(itertools.cycle)
def _cycle(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(Cycle(m.iteration.iterate(args[0])))


@handles(itertools.tee)
def _tee(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    count = m.operators.index(args[1]) if len(args) > 1 else 2
    if count < 0:
        m.errors.throw(ValueError, "n must be >= 0")
    if count == 0:
        return m.builder.new_tuple([])
    inner = m.iteration.iterate(args[0]).realize(m)
    taken, place = (inner.taken, inner.place) if isinstance(inner, Branch) else ([], 0)
    source = inner.inner if isinstance(inner, Branch) else inner
    branches: list[Variable] = [m.effects.created(Branch(source, taken, place)) for _ in range(count)]
    if isinstance(inner, Branch):
        branches[0] = inner
    return m.builder.new_tuple(branches)


@handles(itertools.groupby)
def _groupby(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    named = dict(zip(("iterable", "key"), args, strict=False)) | kwargs
    key = named.get("key")
    function = None if key is None or m.builder.is_none(key) else key
    return m.effects.created(GroupBy(m.iteration.iterate(named["iterable"]), function))


if hasattr(itertools, "batched"):

    @handles(itertools.batched)
    def _batched(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        size = m.operators.index(args[1] if len(args) > 1 else kwargs["n"])
        if size < 1:
            m.errors.throw(ValueError, "n must be at least one")
        strict = "strict" in kwargs and m.operators.truth(kwargs["strict"])
        return m.effects.created(Batched(m.iteration.iterate(args[0] if args else kwargs["iterable"]), size, strict))
