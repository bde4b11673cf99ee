# ruff: noqa
"""Containers of the language, and tensors in them."""

from __future__ import annotations

import collections
import itertools
import operator
import types

import torch

from .registry import program


@program
def lists(x):
    a = [x, x + 1]
    a.append(a[0] * 2)
    a.extend([1, 2])
    a[0] = a[1] - 1
    del a[3]
    a.insert(1, "s")
    b = a[1:3] + [None]
    b.reverse()
    a += [x]
    return a, b, len(a), a.index("s"), a.pop(), a * 2


@program
def alias_kept(x):
    a = [x]
    b = [a, a]
    a.append(x + 1)
    return b, b[0] is b[1], a


@program
def cyclic_list(x):
    a = [x]
    a.append(a)
    return a[1] is a, len(a)


@program
def dicts(x):
    d = {"a": x, 1: x + 1, None: 3, (1, 2): "t"}
    d["b"] = d.pop("a")
    d.update(c=4, a=x)
    d.setdefault("z", []).append(1)
    del d[1]
    other = {**d, "n": 1}
    merged = d | {"m": 2}
    return d, other, merged, list(d), list(d.values())[0], "a" in d, d.get("q", 7), dict(d.items()), len(d)


@program
def ordered_and_default(x):
    od = collections.OrderedDict([("a", x), ("b", 2)])
    od.move_to_end("a")
    dd = collections.defaultdict(list)
    dd["k"].append(x)
    dd["k"].append(2)
    return od, list(od), dd, dd["missing"]


@program
def sets(x):
    s = {1, 2, 3}
    s.add(5)
    s.discard(1)
    t = s & {2, 5} | {7}
    return (x if 5 in s else -x), sorted(t), len(s), s == {2, 3, 5}, s - t == {3}, frozenset([1]) <= {1, 2}


@program
def tuples(x):
    t = (x, 1, (2, 3))
    a, *b = t
    (c, d) = t[2]
    return t + (4,), a, b, c * d, t[::-1][0], t == t, hash((1, 2)) == hash((1, 2)), (1, 2) < (1, 3)


@program
def comprehensions(x):
    ys = [x * i for i in range(4) if i % 2]
    d = {f"k{i}": y for i, y in enumerate(ys)}
    s = {i for i in range(3)}
    g = sum(i * x for i in range(3))
    nested = [[i + j for j in range(2)] for i in range(2)]
    return ys, d, s == {0, 1, 2}, g, nested


@program
def comprehension_scope(x):
    i = 10
    ys = [x + i for i in range(2)]
    return ys, i


@program
def slices(x):
    s = slice(0, 2)
    y = x[..., s], x[0], x[:, None], x[x.shape[0] - 1], x[-1:], x[[0, 1]], x[torch.tensor([0])]
    return y, s.start, [1, 2, 3, 4][s], list(range(10))[slice(None, None, 3)]


@program
def deque(x):
    d = collections.deque([x], maxlen=2)
    d.append(x + 1)
    d.append(x + 2)
    return list(d), d[0], len(d)


def _word(function):
    try:
        return function()
    except Exception as error:
        return type(error).__name__, str(error)


@program
def dicts_joined_with_subclasses(x):
    ordered, made = collections.OrderedDict(b=x), collections.defaultdict(list, c=[1])
    return {"a": 1} | ordered, ordered | {"a": 1}, {"a": 1} | made, made | {"a": 1}, ({"a": 1} | made)["new"]


@program
def views_with_any_iterable(x):
    d = {"a": x, "b": 1}
    made = (
        d.keys() - ["a"], d.keys() | ("c",), ["a", "q"] & d.keys(), {"z"} | d.keys(), d.keys() ^ frozenset("a"),
        frozenset(["a"]) & d.keys(), {"k": 1}.items() - [("k", 1)],
    )  # fmt: skip
    return [(type(s), len(s), "a" in s, "b" in s, "c" in s, "z" in s) for s in made], x + 1


@program
def sizes_joined(x):
    return (
        (1,) + x.shape, x.shape + (1,), (1,) + x.shape[:1], _word(lambda: [1] + x.shape), [1, *x.shape] + [2], x + 1,
    )  # fmt: skip


@program
def errors_of_joins_break(x):
    d = {"a": x}
    return _word(lambda: d.keys() - 5), _word(lambda: x.shape + ("a",)), _word(lambda: x.shape + [1]), x + 1


@program
def operator_joins(x):
    a = [x]
    b = operator.iconcat(a, [1])
    operator.iconcat(a, (2,))
    made = operator.concat(a, [3])
    return (
        a is b,
        a,
        made is a,
        made,
        operator.concat((1,), (x,)),
        operator.concat("a", "b"),
        _word(lambda: operator.concat([1], 2)),
        _word(lambda: operator.iconcat(1, [2])),
    )


@program
def combinations_by_name(x):
    return (
        list(itertools.combinations("abc", r=2)), list(itertools.permutations("ab", r=1)),
        list(itertools.permutations("ab", None)), list(itertools.combinations(iterable=[x, 1], r=1)),
    )  # fmt: skip


@program
def namespaces_compared(x):
    a, b = types.SimpleNamespace(v=1), types.SimpleNamespace(v=1)
    return a == b, a != b, a == types.SimpleNamespace(v=2), a == a, x + 1


@program
def lists_shortened_while_compared(x):
    class Clearing:
        def __init__(self, clears):
            self.clears = clears

        def __eq__(self, other):
            self.clears.clear()
            return NotImplemented

    first, second, third = [], [], []
    first.append(Clearing(second))
    second.append(Clearing(first))
    third.append(Clearing(third))
    fourth = [1, 2]
    fourth.insert(0, Clearing(fourth))
    try:
        fourth.index(2)
    except ValueError:
        return first == second, third == [1], x + 1


class _Ordered(collections.OrderedDict):
    pass


MOVED, STALE = _Ordered(a=1, b=2, c=3), collections.OrderedDict(a=1, b=2)
MOVED.move_to_end("c", last=False)
dict.__delitem__(STALE, "a")


@program
def ordered_dicts_changed_past_their_order_break(x):
    found = [list(MOVED), list(MOVED.items())]
    for cls in (_Ordered, collections.OrderedDict):
        made = cls(s=1, h=2)
        dict.__delitem__(made, "s")
        for stale in (made, STALE):
            try:
                found.append(repr(list(stale.items())))
            except KeyError as error:
                found.append(str(error))
    return found, x + 1


@program
def moved_in_an_ordered_dict(x):
    return list(MOVED), list(MOVED.values()), x + 1


@program
def a_named_tuple_of_a_set(x):
    words = {
        "Alias",
        "At",
        "itertools",
        "replacing",
        "collections",
        "unpack",
        "doc",
        "nce",
        "a",
        "b",
        "c",
        "d",
        "e",
        "f",
    }
    cls = collections.namedtuple("cls", words)
    words.add("g")
    return cls._fields, collections.namedtuple("other", words)._fields, tuple(words), x + 1
