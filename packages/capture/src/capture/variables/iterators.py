"""Iterators made inside the frame: over containers, ranges, and the lazy built-ins (zip, map, enumerate...)."""

from __future__ import annotations

import itertools
from collections.abc import Hashable

from .base import Args, Interpreter, Kwargs, Variable
from .constants import BoundBuiltin, Constant
from .signals import StopIter


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


class SequenceIterator(Iterator):
    """Over a list or tuple, by position: sees changes of a list while it runs."""

    def __init__(self, sequence: Variable) -> None:
        self.sequence = sequence
        self.position = 0

    def next(self, m: Interpreter) -> Variable:
        items: list[Variable] = self.sequence.items  # type: ignore[attr-defined]
        if self.position < 0 or self.position >= len(items):
            self.position = -1
            raise StopIter
        self.position += 1
        return items[self.position - 1]


class Computed(SequenceIterator):
    """Of ``itertools``: the items are computed when it is made, so that it cannot be handed out as what it is."""


class ReversedIterator(SequenceIterator):
    """``reversed(list or tuple)``."""

    cls: type = type(reversed([]))

    def __init__(self, sequence: Variable) -> None:
        super().__init__(sequence)
        self.position = len(sequence.items) - 1  # type: ignore[attr-defined]

    def next(self, m: Interpreter) -> Variable:
        items: list[Variable] = self.sequence.items  # type: ignore[attr-defined]
        if not 0 <= self.position < len(items):
            self.position = -1
            raise StopIter
        self.position -= 1
        return items[self.position + 1]


class RangeIterator(Iterator):
    """Over a range; ``rest`` is what has not been given yet."""

    cls = type(iter(range(0)))

    def __init__(self, rest: range) -> None:
        self.rest = rest

    def next(self, m: Interpreter) -> Variable:
        if not self.rest:
            raise StopIter
        value, self.rest = self.rest[0], self.rest[1:]
        return Constant(value)


class Enumerate(Iterator):
    cls = enumerate

    def __init__(self, inner: Variable, count: int) -> None:
        self.inner = inner
        self.count = count

    def next(self, m: Interpreter) -> Variable:
        value = self.inner.next(m)
        self.count += 1
        return m.builder.new_tuple([Constant(self.count - 1), value])


class Zip(Iterator):
    cls = zip

    def __init__(self, inner: list[Variable], strict: bool) -> None:
        self.inner = inner
        self.strict = strict

    def next(self, m: Interpreter) -> Variable:
        if not self.inner:
            raise StopIter
        got: list[Variable] = []
        for at, each in enumerate(self.inner):
            try:
                got.append(each.next(m))
            except StopIter:
                if self.strict:
                    self.check(m, at)
                raise
        return m.builder.new_tuple(got)

    def check(self, m: Interpreter, at: int) -> None:
        """``strict=True``: all must end together."""
        if at:
            others = "argument 1" if at == 1 else f"arguments 1-{at}"
            m.errors.throw(ValueError, f"zip() argument {at + 1} is shorter than {others}")
        for later in range(1, len(self.inner)):
            try:
                self.inner[later].next(m)
            except StopIter:
                continue
            others = "argument 1" if later == 1 else f"arguments 1-{later}"
            m.errors.throw(ValueError, f"zip() argument {later + 1} is longer than {others}")


class Map(Iterator):
    cls = map

    def __init__(self, function: Variable, inner: list[Variable]) -> None:
        self.function = function
        self.inner = inner

    def next(self, m: Interpreter) -> Variable:
        return m.calls.call(self.function, [each.next(m) for each in self.inner], {})


class Filter(Iterator):
    cls = filter

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

    def __init__(self, inner: list[Variable], fill: Variable) -> None:
        self.inner: list[Variable | None] = [*inner]
        self.fill = fill

    def next(self, m: Interpreter) -> Variable:
        got: list[Variable] = []
        for at, each in enumerate(self.inner):
            try:
                got.append(self.fill if each is None else each.next(m))
            except StopIter:
                self.inner[at] = None
                got.append(self.fill)
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


class UserIterator(Iterator):
    """An object whose class defines ``__next__``, wrapped so that exhaustion is a signal."""

    def __init__(self, inner: Variable) -> None:
        self.inner = inner

    def python_type(self) -> type:
        return self.inner.python_type()

    def next(self, m: Interpreter) -> Variable:
        return m.iteration.next_of_object(self.inner)
