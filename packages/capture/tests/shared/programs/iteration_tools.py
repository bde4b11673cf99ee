# ruff: noqa
"""itertools, functools and operator, with tensors in between."""

from __future__ import annotations

import collections
import functools
import gc
import itertools
import operator

import torch

from .registry import program


class P:
    def __init__(self, x):
        self.a, self.q = x, [1, x * 2]

    def f(self, n, *, k=0):
        return self.a * n + k


class Thing:
    def __init__(self, x, calls):
        self.x, self.calls = x, calls

    @functools.cached_property
    def heavy(self):
        self.calls.append(1)
        return self.x * 2


@program
def itertools_filters(x):
    out = [
        list(itertools.compress("abcd", [1, 0, True, ""])),
        list(itertools.dropwhile(lambda k: k < 3, [1, 3, 2, 5])),
        list(itertools.takewhile(lambda k: k < 3, [1, 2, 3, 1])),
        list(itertools.filterfalse(lambda k: k % 2, range(6))),
        list(itertools.filterfalse(None, [0, 1, "", "a"])),
        list(itertools.starmap(lambda a, b: a * b, [(x, 2), (x, 3)])),
    ]
    return out


@program
def itertools_groups(x):
    rows = [("a", x), ("a", x + 1), ("b", x + 2), ("a", x + 3)]
    grouped = {}
    for key, group in itertools.groupby(rows, key=operator.itemgetter(0)):
        grouped.setdefault(key, []).append([v for _, v in group])
    skipped = [k for k, _ in itertools.groupby("aabbbc")]
    return grouped, skipped


@program
def itertools_tee(x):
    a, b, c = itertools.tee((x * i for i in range(3)), 3)
    first = next(a)
    rest = [next(b), next(b)]
    return first, rest, list(a), list(b), list(c), itertools.tee([1], 0)


@program
def itertools_cycle(x):
    turn = itertools.cycle([x, x + 1, 3])
    return [next(turn) for _ in range(5)], list(itertools.cycle([])), list(itertools.islice(itertools.cycle("ab"), 5))


@program
def itertools_counts(x):
    c = itertools.count(10, -3)
    out = [next(c), next(c)]
    out += list(zip(itertools.count(0.5, 0.25), "abc"))
    out += list(itertools.islice(itertools.repeat(x), 2))
    out += list(itertools.repeat("r", 0))
    out += list(map(operator.mul, itertools.repeat(x, 2), itertools.count(1)))
    return out


@program
def itertools_combining(x):
    return (
        list(itertools.combinations_with_replacement("ab", 2)),
        list(itertools.permutations([1, 2, 3], 2)),
        [a * b for a, b in itertools.product([x, x + 1], repeat=2)],
        list(itertools.chain.from_iterable([[x], (1, 2), "z"])),
        list(itertools.accumulate([x, x, x])),
        list(itertools.accumulate([1, 2, 3], operator.mul, initial=10)),
        list(itertools.pairwise([x, x + 1, x + 2])),
        list(itertools.zip_longest([x], "ab", fillvalue=0)),
    )


@program
def itertools_interleaved(x):
    log = []

    def source(name, n):
        for i in range(n):
            log.append((name, i))
            yield x * i

    merged = list(zip(source("a", 2), source("b", 3)))
    taken = list(itertools.islice(source("c", 5), 1, 4, 2))
    return merged, taken, log


@program
def lru_cache_in_frame(x):
    calls = []

    @functools.lru_cache(maxsize=2)
    def f(n, k=1):
        calls.append(n)
        return n * k

    out = [f(1), f(2), f(1), f(3), f(2), f(2, k=2)]
    info = f.cache_info()
    f.cache_clear()
    return x * f(1), out, calls, tuple(info), f.__wrapped__(5), f.cache_info().currsize


@program
def cache_in_frame(x):
    @functools.cache
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    return x * fib(20), fib.cache_info().hits, fib.cache_parameters()


@program
def cache_made_after_a_break(x):
    gc.isenabled()

    @functools.cache
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    return x * fib(20), fib.cache_info().hits


@program
def cache_holds_tensors(x):
    @functools.cache
    def scaled(n):
        return x * n

    return scaled(2) is scaled(2), scaled(2) + scaled(3)


@program
def cache_raises_again(x):
    calls = []

    @functools.lru_cache
    def f(n):
        calls.append(n)
        raise ValueError(n)

    for _ in range(2):
        try:
            f(1)
        except ValueError:
            pass
    return x, calls


@program
def cached_property_once(x):
    calls = []
    t = Thing(x, calls)
    first, second = t.heavy, t.heavy
    del t.heavy
    return first is second, t.heavy, calls, "heavy" in vars(t)


@functools.singledispatch
def _kind(value):
    return "object"


@_kind.register
def _(value: int):
    return "int"


@_kind.register(list)
def _(value):
    return ["list", *map(_kind, value)]


@_kind.register(torch.Tensor)
def _(value):
    return value * 2


@program
def single_dispatch(x):
    return _kind(1), _kind("s"), _kind([1, "s", [2]]), _kind(x), _kind(True), _kind.dispatch(bool)(1)


class _Visitor:
    @functools.singledispatchmethod
    def visit(self, value):
        return "any"

    @visit.register
    def _(self, value: int):
        return value + 1

    @visit.register
    def _(self, value: tuple):
        return [self.visit(v) for v in value]


@program
def single_dispatch_method(x):
    v = _Visitor()
    return x, v.visit(1), v.visit("s"), v.visit((1, (2, "k")))


@program
def compare_by_key(x):
    def by_length_then_reverse(a, b):
        if len(a) != len(b):
            return len(a) - len(b)
        return (a < b) - (a > b)

    key = functools.cmp_to_key(by_length_then_reverse)
    words = sorted(["bb", "a", "cc", "b", "aaa"], key=key)
    return x, words, max(words, key=key), key("a") < key("bb"), key("a") == key("a")


@functools.total_ordering
class _Version:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n

    def __lt__(self, other):
        return self.n < other.n


@program
def total_ordering(x):
    a, b = _Version(1), _Version(2)
    return x, a <= b, a >= b, a > b, a != b, sorted([b, a])[0].n, max(a, b).n


class _Scaler:
    def scale(self, by, plus=0):
        return by * self.k + plus

    double = functools.partialmethod(scale, 2)
    shifted = functools.partialmethod(scale, plus=1)

    def __init__(self, k):
        self.k = k


@program
def partial_methods(x):
    s = _Scaler(x)
    return s.double(), s.double(plus=3), s.shifted(4)


@program
def partials_nested(x):
    def f(a, b, c=0, *, d=1):
        return a * b + c * d

    p = functools.partial(f, x, c=2)
    q = functools.partial(p, d=5)
    return p(3), q(3), q(3, c=1), q.args, q.keywords, q.func is f


@program
def reduced(x):
    return (
        functools.reduce(lambda a, b: a + b, [x, x, x]),
        functools.reduce(operator.mul, range(1, 5), 1),
        functools.reduce(lambda acc, kv: {**acc, kv[0]: kv[1]}, [("a", x), ("b", 2)], {}),
    )


@program
def wrapped_names(x):
    def deco(fn):
        @functools.wraps(fn)
        def inner(*args, **kwargs):
            """inner doc"""
            return fn(*args, **kwargs) + 1

        inner.calls = 0
        return inner

    @deco
    def named(a):
        """named doc"""
        return a * 2

    return named(x), named.__name__, named.__doc__, named.__wrapped__(x), named.calls


@program
def operator_getters(x):
    p = P(x)
    return (
        operator.attrgetter("a")(p),
        operator.attrgetter("a", "q")(p),
        operator.itemgetter(1)(p.q),
        operator.itemgetter(0, -1)(p.q),
        operator.itemgetter(slice(0, 1))([1, 2]),
        operator.methodcaller("f", 2, k=1)(p),
    )


@program
def operator_functions(x):
    data = [1, 2, 2, 3]
    return (
        operator.add(x, 1),
        operator.matmul(x, x.T),
        operator.iadd([1], [2]),
        operator.neg(x),
        operator.countOf(data, 2),
        operator.indexOf(data, 3),
        operator.concat((1,), (2,)),
        operator.length_hint([1, 2], 5),
        operator.length_hint(iter([1, 2, 3])),
        operator.index(True),
        operator.is_none(None) if hasattr(operator, "is_none") else True,
        operator.contains(data, 2),
        operator.floordiv(7, 2),
        operator.not_([]),
        operator.setitem(data, 0, 9),
        operator.delitem(data, 1),
        data,
        operator.getitem(data, slice(1, None)),
    )


@program
def sorting_with_keys(x):
    rows = [(2, "b"), (1, "c"), (2, "a")]
    return (
        x,
        sorted(rows, key=operator.itemgetter(0)),
        sorted(rows, key=lambda r: (-r[0], r[1])),
        sorted(rows, reverse=True),
        min(rows, key=operator.itemgetter(1)),
    )


@program
def too_many_arguments_break(x):
    seen = []
    for made, *args in (
        (itertools.count, 2, 3, 4),
        (itertools.count, "a", "b"),
        (itertools.dropwhile, bool, [1], "extra"),
        (itertools.filterfalse, bool, [1], "extra"),
        (itertools.groupby, "abc", bool, 10),
        (itertools.starmap, bool, [1], "extra"),
        (itertools.takewhile, bool, [1], "extra"),
        (itertools.repeat,),
        (itertools.islice, "abc"),
        (collections.deque, [1], 2, 3),
    ):
        try:
            seen.append(made(*args))
        except TypeError as error:
            seen.append(error.args)
    return seen, x + 1


@program
def arguments_by_name(x):
    return (
        list(itertools.accumulate(iterable=[1, 2, 3])),
        list(collections.deque(iterable=[1, 2], maxlen=1)),
        list(itertools.islice(itertools.count(start=2, step=3), 3)),
        x + 1,
    )


@program
def products_of_more_than_can_be_held(x):
    told = []
    for made in (
        itertools.product((1, 2), repeat=64),
        itertools.permutations(range(40)),
        itertools.combinations(range(80), 40),
        itertools.combinations_with_replacement(range(80), 40),
    ):
        told.append((next(made), next(made), type(made)))
    for row in itertools.product(range(1000), repeat=4):
        if sum(row) == 3:
            return told, row, x + 1


@program
def products_are_refused(x):
    told = []
    for ask in (
        lambda: itertools.product([1], repeat=-1),
        lambda: itertools.product([1], [2], repeat=2**62),
        lambda: itertools.permutations([1], -1),
        lambda: itertools.combinations([1], -1),
        lambda: [1].insert(2**70, x),
        lambda: collections.deque([1]).insert(-(2**70), x),
        lambda: list(itertools.product([1, 2], repeat=0)),
        lambda: list(itertools.product()),
        lambda: list(itertools.permutations([1, 2], 3)),
    ):
        try:
            told.append(ask())
        except Exception as error:
            told.append((type(error), error.args))
    return told, x + 1


class _Index:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


@program
def places_that_are_none(x):
    told = []
    for ask in (
        lambda: [1, 2][2**70],
        lambda: (1, 2)[-(2**70)],
        lambda: [1, 2][_Index(2**70)],
        lambda: [1, 2].pop(2**70),
        lambda: [].pop(2**70),
        lambda: [1, 2].pop("a"),
        lambda: [1, 2].index(1, None),
        lambda: [1, 2].index(1, "a"),
        lambda: (1, 2).index(1, 0, 2.5),
        lambda: [1, 2, 1].index(1, 1),
        lambda: [1, 2, 1].index(1, -(2**70), 2**70),
        lambda: [1, 2, 1].index(1, _Index(1), _Index(2**70)),
        lambda: list(itertools.islice([1, 2], "a")),
        lambda: list(itertools.islice([1, 2], 0, 2.5)),
        lambda: list(itertools.islice([1, 2], 0, 2, "a")),
        lambda: list(itertools.islice([1, 2], None)),
        lambda: list(itertools.islice([1, 2], _Index(1), None)),
        lambda: operator.length_hint(3),
        lambda: operator.length_hint(None, 4),
        lambda: operator.length_hint(_Index(3), 4),
        lambda: operator.length_hint(object(), "a"),
        lambda: operator.length_hint([1, 2]),
    ):
        try:
            told.append(ask())
        except Exception as error:
            told.append((type(error), error.args))
    return told, x + 1
