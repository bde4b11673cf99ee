"""The iterators of ``itertools``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from capture.bytecode import build
from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant
from .handlers import handles
from .iterators import Iterator, StopIter
from .lookups import has_entry
from .reconstruction import Emitter, method_of


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


class Rows(Iterator):
    """Of all elements of others: tuples that are made one by one, as there may be more of them than can be held."""

    def __init__(self, rows: Iterable[tuple[Variable, ...]], cls: type) -> None:
        self.rows = iter(rows)
        self.cls = cls
        #: How many were asked for, which the rows do not tell.
        self.steps = 0

    def next(self, m: Interpreter) -> Variable:
        self.steps += 1
        row = next(self.rows, None)
        if row is None:
            raise StopIter
        return m.builder.new_tuple(list(row))


@handles(itertools.chain)
def _chain(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(Chain(m.iteration.iterate(m.builder.new_tuple(list(args))), itertools.chain))


@handles(itertools.chain.from_iterable)
def _chain_from_iterable(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(Chain(m.iteration.iterate(args[0]), itertools.chain))


@handles(itertools.count)
def _count(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    start = args[0] if args else kwargs.get("start", Constant(0))
    step = args[1] if len(args) > 1 else kwargs.get("step", Constant(1))
    start, step = start.realize(m), step.realize(m)
    for each in (start, step):
        if isinstance(each, Constant):
            m.builder.fold(itertools.count, [each.value])  # it refuses what is no number
        elif not any(has_entry(each.python_type(), name) for name in ("__index__", "__int__", "__float__")):
            m.errors.throw(TypeError, "a number is required")
    return m.effects.created(Count(start, step, itertools.count))


@handles(itertools.repeat)
def _repeat(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    times = args[1] if len(args) > 1 else kwargs.get("times")
    return m.effects.created(Repeat(args[0], None if times is None else m.operators.index(times), itertools.repeat))


@handles(itertools.product)
def _product(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    repeat = m.operators.index(kwargs["repeat"]) if "repeat" in kwargs else 1
    pools = [m.iteration.tupled(a) for a in args]
    m.builder.fold(itertools.product, [()] * len(pools), {"repeat": repeat})  # it refuses negative ones, and too many
    return m.effects.created(Rows(itertools.product(*pools, repeat=repeat), itertools.product))


def _sized(args: Args, kwargs: Kwargs) -> tuple[Variable, Variable | None]:
    """The arguments ``iterable`` and ``r``."""
    named = dict(zip(("iterable", "r"), args, strict=False)) | kwargs
    if "iterable" not in named or len(named) != len(args) + len(kwargs) or not named.keys() <= {"iterable", "r"}:
        raise Unsupported("combinations or permutations with other than their arguments")
    return named["iterable"], named.get("r")


def _rows(m: Interpreter, function: Any, values: Variable, size: int | None) -> Variable:
    """The rows of all elements; a size that is refused is the program's error."""
    elements = m.iteration.tupled(values)
    m.builder.fold(function, [(), size])
    return m.effects.created(Rows(function(elements, size), function))


@handles(itertools.combinations)
def _combinations(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    values, size = _sized(args, kwargs)
    if size is None:
        raise Unsupported("itertools.combinations without a size")
    return _rows(m, itertools.combinations, values, m.operators.index(size))


@handles(itertools.combinations_with_replacement)
def _combinations_with_replacement(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    values, size = _sized(args, kwargs)
    if size is None:
        raise Unsupported("itertools.combinations_with_replacement without a size")
    return _rows(m, itertools.combinations_with_replacement, values, m.operators.index(size))


@handles(itertools.permutations)
def _permutations(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    values, given = _sized(args, kwargs)
    size = None if given is None or m.builder.is_none(given) else m.operators.index(given)
    return _rows(m, itertools.permutations, values, size)


@handles(itertools.pairwise)
def _pairwise(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(Pairwise(m.iteration.iterate(args[0])))


@handles(itertools.zip_longest)
def _zip_longest(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    fill = kwargs.get("fillvalue", Constant(None))
    return m.effects.created(LongestZip([m.iteration.iterate(a) for a in args], fill))


def _limit(m: Interpreter, value: Variable) -> Any:
    """One of `islice`, as it is or as what it refuses in the same words."""
    if m.builder.is_none(value):
        return None
    return m.operators.index(value) if has_entry(value.python_type(), "__index__") else ""


@handles(itertools.islice)
def _islice(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    bounds = [_limit(m, each.realize(m)) for each in args[1:]]
    m.builder.fold(itertools.islice, [(), *bounds])  # it refuses negative ones, and what is none
    limits = slice(*bounds)
    return m.effects.created(Part(m.iteration.iterate(args[0]), limits.start or 0, limits.stop, limits.step or 1))


@handles(itertools.accumulate)
def _accumulate(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    function = args[1] if len(args) > 1 else kwargs.get("func")
    if function is not None and m.builder.is_none(function):
        function = None
    initial = kwargs.get("initial")
    if initial is not None and m.builder.is_none(initial):
        initial = None
    return m.effects.created(
        Accumulate(m.iteration.iterate(args[0] if args else kwargs["iterable"]), function, initial)
    )
