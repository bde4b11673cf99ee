# ruff: noqa
"""Built-in functions on every kind of value: tests of classes, attributes by name, texts, sorting, sums, identity."""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import functools
import numbers
import typing

import torch

from .registry import program


@program
def isinstance_of_abstract_classes(x):
    abc = collections.abc
    values = ([], (), {}, set(), "s", 1, 1.5, None, range(3), iter([]), (k for k in ()), len, x, {}.keys(), b"")
    asked = (abc.Sequence, abc.Mapping, abc.Hashable, abc.Iterable, abc.Iterator, abc.Callable, abc.Sized, abc.Set)
    return [[isinstance(v, c) for c in asked] for v in values]


@program
def isinstance_of_numbers(x):
    return (
        [isinstance(v, (numbers.Integral, numbers.Real)) for v in (1, True, 1.5, 1j, "a")],
        isinstance(1, int | str),
        x,
    )


@typing.runtime_checkable
class HasName(typing.Protocol):
    name: str

    def close(self) -> None: ...


class Named:
    name = "n"

    def close(self):
        return None


@program
def isinstance_of_protocol_breaks(x):
    return isinstance(Named(), HasName), isinstance(object(), HasName), issubclass(Named, Named), x


@program
def issubclass_of_everything(x):
    return (
        issubclass(bool, int), issubclass(int, (str, int)), issubclass(dict, collections.abc.Mapping),
        issubclass(torch.nn.Linear, torch.nn.Module), issubclass(collections.OrderedDict, dict), issubclass(type, object), x,
    )  # fmt: skip


@program
def type_of_values(x):
    return [
        type(v).__name__ for v in (1, "a", None, [], x, len, type, int, ..., x.shape, {}.items(), iter(()), slice(1))
    ]


@program
def type_compared_and_called(x):
    v = [1]
    return type(v) is list, type(v)() == [], type(x) == torch.Tensor, type("a")(5), type({})(a=x)


@program
def callable_of_values(x):
    return [
        callable(v) for v in (len, int, print, lambda: 1, Named, Named(), Named().close, 1, "a", x, torch.nn.ReLU())
    ]


@program
def attributes_by_name(x):
    n = Named()
    setattr(n, "k", x)
    got = getattr(n, "k"), getattr(n, "zz", 5), hasattr(n, "name"), hasattr(n, "zz")
    delattr(n, "k")
    try:
        delattr(n, "k")
    except AttributeError as error:
        return got, str(error), vars(n)


@program
def vars_of_object(x):
    n = Named()
    n.a, n.b = x, 2
    vars(n)["c"] = 3
    return dict(vars(n)), n.c, sorted(n.__dict__)


@program
def sorting_by_keys(x):
    words = ["pear", "Fig", "apple", "kiwi"]
    words.sort(key=str.lower)
    pairs = [(2, "b"), (1, "z"), (2, "a")]
    return (
        words,
        sorted(pairs),
        sorted(pairs, key=lambda p: p[1], reverse=True),
        sorted("hello"),
        sorted({3: 1, 1: 2}),
        x,
    )


@program
def sorting_is_stable(x):
    rows = [(1, "a"), (0, "b"), (1, "c"), (0, "d")]
    return sorted(rows, key=lambda r: r[0]), sorted(rows, key=lambda r: r[0], reverse=True), sorted([3, 1], key=None), x


@program
def sorting_unlike_values(x):
    try:
        sorted([1, "a"])
    except TypeError as error:
        return str(error), x


@program
def sums_of_everything(x):
    return sum([x, x]), sum([[1], [2]], []), sum((1.5, 2)), sum(range(5), start=10), sum([True, True]), sum([1j, 2])


@program
def extremes(x):
    return (
        max([3, 1, 2]), min("hello"), max(1, 2.5), max([], default="none"), min((2, "b"), (1, "z")), max("aa", "b", key=len),
        min([[2], [1, 5]]), max({"a": 1, "b": 5}.items(), key=lambda p: p[1]), x,
    )  # fmt: skip


@program
def any_and_all_stop_early(x):
    log = []

    def ask(v):
        log.append(v)
        return v

    return any(ask(v) for v in (0, 1, 2)), all(ask(v) for v in (1, 0, 2)), log, any([]), all([]), x


@program
def zip_strict_errors(x):
    out = []
    for pair in (([1], [1, 2]), ([1, 2], [1]), ([1], [2])):
        try:
            out.append(list(zip(*pair, strict=True)))
        except ValueError as error:
            out.append(str(error))
    return out, list(zip()), list(zip([x], [1, 2])), x


@program
def ranges(x):
    r = range(10, 0, -3)
    return (
        list(r),
        r[1],
        r[-1],
        r[1:3],
        len(r),
        7 in r,
        8 in r,
        r.index(4),
        r.count(1),
        r == range(10, 0, -3),
        bool(range(0)),
        r.step,
        x,
    )


@program
def range_reversed_and_hash(x):
    return list(reversed(range(4))), hash(range(3)) == hash(range(0, 3, 1)), range(0) == range(2, 2), max(range(5)), x


@program
def slices_objects(x):
    s = slice(1, None, 2)
    return (
        s.start,
        s.stop,
        s.step,
        s.indices(6),
        slice(3) == slice(None, 3, None),
        [0, 1, 2, 3][s],
        "abcdef"[s],
        repr(s),
        x,
    )


@program
def enumerate_start(x):
    return list(enumerate("ab", start=3)), dict(enumerate([x])), list(enumerate([], 1))


@program
def filter_and_map(x):
    return (
        list(filter(None, [0, 1, "", "a"])),
        list(map(lambda a, b: a + b, (1, 2), (3, 4, 5))),
        list(map(str, [1, None])),
        x,
    )


@program
def iter_with_sentinel(x):
    values = iter([1, 2, 3, 0, 5])
    return list(iter(lambda: next(values), 0)), list(values), x


@program
def next_with_default(x):
    it = iter([x])
    return next(it), next(it, None), next(it, 3), next(iter({}), "e")


@program
def identity_of_values(x):
    a = [x]
    b = a
    return a is b, a is not [x], None is None, () is (), (a,)[0] is a, {"k": a}["k"] is b, x is a[0]


@program
def hashes_of_values(x):
    return (
        hash(1) == hash(1.0),
        hash("a") == hash("a"),
        hash((1, "b")) == hash((1, "b")),
        hash(None) == hash(None),
        hash(frozenset([1])) == hash(frozenset([1])),
        x,
    )


@program
def texts_of_containers(x):
    return (
        str([1, "a", None]),
        repr({"k": (1,)}),
        str({1}),
        str(()),
        repr(frozenset()),
        str(range(3)),
        str(True),
        str({}),
        x,
    )


@program
def ascii_and_characters(x):
    return ascii("né"), chr(233), ord("a"), bin(5), hex(255), oct(8), format(255, "#x"), format(3.14159, ".2f"), x


@program
def rounding(x):
    return (
        round(2.5),
        round(3.5),
        round(2.675, 2),
        round(1234, -2),
        round(-0.5),
        abs(-3),
        divmod(-7, 2),
        pow(2, 10, 7),
        x,
    )


@program
def chained_comparisons(x):
    log = []

    def v(n):
        log.append(n)
        return n

    return v(1) < v(2) < v(3), v(3) < v(1) < v(9), 1 == 1.0 != 2, log, x


@program
def short_circuits(x):
    return (0 or [] or "last"), (1 and "x" and 0), (None or x), not (1 and 0), (1 if [] else 2)


@dataclasses.dataclass(order=True)
class Ordered:
    a: int
    b: str = dataclasses.field(compare=False, default="")


@program
def dataclasses_ordered(x):
    items = [Ordered(2, "x"), Ordered(1, "y")]
    return (
        min(items).b,
        sorted(items)[1].a,
        Ordered(1) == Ordered(1, "zz"),
        Ordered(1) < Ordered(2),
        dataclasses.asdict(items[0]),
        repr(items[1]),
        x,
    )


Pair = collections.namedtuple("Pair", "a b", defaults=[5])


@program
def namedtuple_methods(x):
    p = Pair(x)
    q = Pair._make([1, 2])
    return (
        p.b, q._replace(b=x), q._asdict(), Pair._fields, Pair._field_defaults, q == (1, 2), q + (3,), q.index(2), q.count(1),
        hash(q) == hash((1, 2)), [*q], repr(q), isinstance(q, tuple), q[-1], len(p),
    )  # fmt: skip


@program
def namedtuple_refused(x):
    out = []
    for call in (
        lambda: Pair(),
        lambda: Pair(1, 2, 3),
        lambda: Pair(1, c=2),
        lambda: Pair._make([1]),
        lambda: setattr(Pair(1), "a", 2),
    ):
        try:
            call()
        except (TypeError, AttributeError) as error:
            out.append(type(error).__name__)
    return out, x


@program
def deque_methods(x):
    d = collections.deque([1, 2, 3], maxlen=4)
    d.appendleft(x)
    d.append(9)
    d.rotate(1)
    d.extendleft("ab")
    d.remove("a")
    e = d.copy()
    e.reverse()
    d.insert(1, "i")
    return (
        list(d),
        list(e),
        d.maxlen,
        d.count(9),
        d.index("b"),
        d == e,
        d.pop(),
        d.popleft(),
        list(reversed(e)),
        "b" in e,
        len(d),
    )


@program
def deque_operators(x):
    d = collections.deque([1, 2])
    d += [3]
    e = d + collections.deque([x])
    d *= 2
    return list(d), len(e), d[0], d[-1], d > collections.deque([1]), type(e).__name__, bool(collections.deque())


@program
def refused_arguments_break(x):
    seen = []
    for function, *args in (
        (iter, 42, 42),
        (sum, ["a"], ""),
        (sum, [], b""),
        (sum, [], bytearray()),
        (getattr, 1),
        (getattr, 1, 1),
        (hasattr, 1, 1),
        (setattr, [], 1, 1),
        (functools.partial, 5),
        (collections.defaultdict, 5),
        (round,),
        (pow,),
    ):
        try:
            seen.append(function(*args))
        except TypeError as error:
            seen.append(str(error))
    return seen, x + 1


@program
def arguments_by_their_names(x):
    return round(number=2.5), pow(base=2, exp=3), pow(2, exp=3, mod=5), sum([1], start=2), sorted([2, 1]), x + 1
