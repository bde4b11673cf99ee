"""The iterators of ``itertools``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from capture.bytecode import build

from .base import Interpreter, Variable
from .constants import Constant
from .iterators import Iterator
from .reconstruction import Emitter, method_of
from .signals import StopIter


class Count(Iterator):
    """``itertools.count(start, step)``."""

    def __init__(self, value: Variable, step: Variable, cls: type) -> None:
        self.value = value
        self.by = step
        self.cls = cls

    def next(self, m: Interpreter) -> Variable:
        value = self.value
        self.value = m.operators.binary("+", value, self.by)
        return value

    def made_of(self) -> Iterable[Variable]:
        return (self.value, self.by)

    def reconstruct(self, e: Emitter) -> None:
        e.call(self.cls, [self.value, self.by])


class Repeat(Iterator):
    """``itertools.repeat(value, times)``; endless without ``times``."""

    def __init__(self, value: Variable, times: int | None, cls: type) -> None:
        self.value = value
        self.times = times
        self.cls = cls

    def next(self, m: Interpreter) -> Variable:
        if self.times is not None:
            if self.times <= 0:
                raise StopIter
            self.times -= 1
        return self.value

    def made_of(self) -> Iterable[Variable]:
        return (self.value,)

    def reconstruct(self, e: Emitter) -> None:
        e.call(self.cls, [self.value] if self.times is None else [self.value, Constant(self.times)])


class Chain(Iterator):
    """``itertools.chain``: over an iterator of iterables."""

    def __init__(self, iterables: Variable, cls: type) -> None:
        self.iterables = iterables
        self.cls = cls
        self.active: Variable | None = None

    def next(self, m: Interpreter) -> Variable:
        while True:
            if self.active is None:
                self.active = m.iteration.iterate(self.iterables.next(m))
            try:
                return self.active.next(m)
            except StopIter:
                self.active = None

    def made_of(self) -> Iterable[Variable]:
        return (self.iterables,) if self.active is None else (self.active, self.iterables)

    def reconstruct(self, e: Emitter) -> None:
        if self.active is None:
            e.call(method_of(self.cls, "from_iterable"), [self.iterables])
            return
        e.emit(build.push_callable(build.load_const(self.cls)))
        e.load(self.active)
        e.call(method_of(self.cls, "from_iterable"), [self.iterables])
        e.emit(build.call(2))


class Pairwise(Iterator):
    """``itertools.pairwise``."""

    cls = itertools.pairwise

    def __init__(self, inner: Variable) -> None:
        self.inner: Variable | None = inner
        self.last: Variable | None = None

    def next(self, m: Interpreter) -> Variable:
        inner, self.inner = self.inner, None  # whatever ends it, ends it for good
        if inner is None:
            raise StopIter
        first = inner.next(m) if self.last is None else self.last
        self.last = inner.next(m)
        self.inner = inner
        return m.builder.new_tuple([first, self.last])


class LongestZip(Iterator):
    """``itertools.zip_longest``; of those that have ended there is None."""

    cls = itertools.zip_longest

    def __init__(self, inner: list[Variable], missing: Variable) -> None:
        self.inner: list[Variable | None] = [*inner]
        self.missing = missing

    def next(self, m: Interpreter) -> Variable:
        got: list[Variable] = []
        for at, each in enumerate(self.inner):
            try:
                got.append(self.missing if each is None else each.next(m))
            except StopIter:
                self.inner[at] = None
                got.append(self.missing)
            if not any(self.inner):
                break
        if not any(self.inner):
            raise StopIter
        return m.builder.new_tuple(got)


class Part(Iterator):
    """``itertools.islice``: takes from what it runs over only what it needs for the next item."""

    cls = itertools.islice

    def __init__(self, inner: Variable, start: int, stop: int | None, step: int) -> None:
        self.inner: Variable | None = inner
        self.wanted, self.stop, self.by = start, stop, step
        self.taken = 0

    def next(self, m: Interpreter) -> Variable:
        inner, self.inner = self.inner, None
        if inner is None:
            raise StopIter
        while self.taken < self.wanted:
            inner.next(m)
            self.taken += 1
        if self.stop is not None and self.taken >= self.stop:
            raise StopIter
        value = inner.next(m)
        self.taken += 1
        self.wanted += self.by
        if self.stop is not None:
            self.wanted = min(self.wanted, self.stop)
        self.inner = inner
        return value


class Accumulate(Iterator):
    """``itertools.accumulate``; ``function`` None adds."""

    cls = itertools.accumulate

    def __init__(self, inner: Variable, function: Variable | None, initial: Variable | None) -> None:
        self.inner = inner
        self.function = function
        self.initial = initial
        self.total: Variable | None = None

    def next(self, m: Interpreter) -> Variable:
        if self.initial is not None:
            self.total, self.initial = self.initial, None
            return self.total
        value = self.inner.next(m)
        if self.total is None:
            self.total = value
        elif self.function is None:
            self.total = m.operators.binary("+", self.total, value)
        else:
            self.total = m.calls.call(self.function, [self.total, value], {})
        return self.total
