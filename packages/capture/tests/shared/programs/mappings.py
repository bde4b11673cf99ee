# ruff: noqa
"""Dictionaries and the mappings of ``collections``: every method, views, missing keys, keys with rules of their own."""

from __future__ import annotations

import collections
import dataclasses

from .registry import program


@program
def dict_fromkeys(x):
    d = dict.fromkeys(["a", "b"], x)
    e = dict.fromkeys("xy")
    f = collections.OrderedDict.fromkeys([1, 2], 0)
    return d, d["a"] is d["b"], e, f, {}.fromkeys((3,), x)


@program
def dict_union_forms(x):
    a, b = {"k": x, "l": 1}, {"l": 2, "m": 3}
    c = a | b
    kept = a
    a |= [("z", 9)]
    a |= b
    return c, list(c), kept is a, a


@program
def dict_reversed(x):
    d = {"a": x, "b": 2, "c": 3}
    return list(reversed(d)), list(reversed(d.values()))[0], list(reversed(d.items()))[1], list(reversed(d.keys()))


@program
def dict_popitem_order(x):
    d = {"a": x, "b": 2}
    first = d.popitem()
    second = d.popitem()
    try:
        d.popitem()
    except KeyError as error:
        third = str(error)
    return first, second, third


@program
def dict_key_error(x):
    d = {"a": x}
    seen = []
    for key in ("a", "b", 3):
        try:
            seen.append(d[key])
        except KeyError as error:
            seen.append(error.args)
    return seen


@program
def dict_views_are_live(x):
    d = {"a": x}
    keys, values, items = d.keys(), d.values(), d.items()
    d["b"] = 2
    return list(keys), len(values), len(items), "b" in keys, list(items)[1]


@program
def dict_views_compared(x):
    a, b = {"p": 1, "q": 2}, {"q": 2, "p": 1}
    return (
        a.keys() == b.keys(),
        a.items() == b.items(),
        a.keys() <= {"p", "q", "r"},
        a.keys() >= {"p"},
        a.keys() > {"p"},
        x + 1,
    )


@program
def dict_views_isdisjoint(x):
    a = {"p": 1, "q": 2}
    return a.keys().isdisjoint(["z"]), a.keys().isdisjoint({"p"}), a.items().isdisjoint([("p", 1)]), x * 2


@program
def dict_keys_equal_numbers(x):
    d = {1: "int"}
    d[True] = x
    d[1.0] = x + 1
    return list(d), list(map(type, d)), d[1], len(d)


@program
def dict_keys_tuples_and_none(x):
    d = {(1, "a"): x, None: 2, frozenset([1]): 3, (): 4, 2.5: 5}
    return d[(1, "a")], d[None], d[frozenset([1])], d[()], d[2.5], (1, "b") in d


class Missing(dict):
    def __missing__(self, key):
        return f"no {key}"


class Filling(dict):
    def __missing__(self, key):
        self[key] = value = [key]
        return value


@program
def dict_missing_returns(x):
    d = Missing(a=x)
    return d["a"], d["b"], "b" in d, d.get("b"), len(d)


@program
def dict_missing_fills(x):
    d = Filling()
    d["q"].append(x)
    d["q"].append(1)
    return d["q"], dict(d), len(d)


@program
def dict_subclass_methods(x):
    class_is = type(Missing(a=1).copy())
    d = Missing(a=x)
    d.update(b=2)
    d.setdefault("c", 3)
    return class_is is dict, d.pop("b"), d.pop("zz", None), list(d), sorted(d.keys()), isinstance(d, dict)


@program
def dict_comprehension_overwrites(x):
    d = {k % 2: x + k for k in range(4)}
    return d, list(d)


@program
def dict_from_everything(x):
    return dict([("a", x)], b=1), dict({"a": 1}, a=x), dict(zip("ab", (x, 2))), dict(**{"k": x}), dict(((1, x),))


@program
def dict_unpacked_twice(x):
    a, b = {"p": x, "q": 1}, {"q": 2}
    return {**a, **b}, {"q": 0, **a}, {**b, **a, "p": 3}


@program
def dict_changed_while_iterated(x):
    d = {"a": x, "b": 1}
    try:
        for k in d:
            d[k + "x"] = 1
    except RuntimeError as error:
        return str(error), list(d), x + 1


@program
def dict_delete_and_reinsert(x):
    d = {"a": 1, "b": x}
    del d["a"]
    d["a"] = 2
    return list(d), d


@program
def dict_nested_paths(x):
    d = {"a": {"b": [x, {"c": 1}]}}
    d["a"]["b"][1]["c"] += 1
    d["a"].setdefault("z", {})["y"] = x * 2
    return d


@program
def dict_equality(x):
    return {1: 2, 3: 4} == {3: 4, 1: 2}, {1: 2} != {1: 3}, {} == [], {"a": [1]} == {"a": [1]}, x - 1


@dataclasses.dataclass(frozen=True)
class Key:
    a: int
    b: str = ""


class Hashed:
    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return hash(self.n % 2)

    def __eq__(self, other):
        return isinstance(other, Hashed) and self.n == other.n


@program
def dict_keys_frozen_dataclass(x):
    d = {Key(1): x, Key(2, "b"): x + 1}
    return d[Key(1)], d[Key(2, "b")], Key(3) in d, hash(Key(1)) == hash(Key(1)), len({Key(1), Key(1)})


@program
def dict_keys_with_own_hash(x):
    a, b = Hashed(1), Hashed(3)
    d = {a: x, b: 2}
    d[Hashed(1)] = 5
    return d[Hashed(1)], d[b], Hashed(5) in d, len(d), d.get(Hashed(7), "none")


@program
def dict_unhashable_key(x):
    try:
        {}[[1]] = x
    except TypeError as error:
        return str(error), x


@program
def ordered_dict_methods(x):
    od = collections.OrderedDict(a=1, b=x, c=3)
    od.move_to_end("a")
    od.move_to_end("c", last=False)
    last = od.popitem()
    first = od.popitem(last=False)
    od["z"] = 5
    return list(od.items()), last, first, od.copy(), list(reversed(od))


@program
def ordered_dict_equality(x):
    a, b = collections.OrderedDict([("p", 1), ("q", 2)]), collections.OrderedDict([("q", 2), ("p", 1)])
    return a == b, a == dict(b), dict(a) == b, a != b, x * 1


@program
def ordered_dict_union(x):
    a = collections.OrderedDict(p=1, q=x)
    b = a | {"q": 3, "r": 4}
    a |= {"s": 5}
    return type(b).__name__, list(b), list(a), type({"z": 1} | a).__name__


@program
def default_dict_methods(x):
    d = collections.defaultdict(int, a=1)
    d["b"] += 5
    d["c"]
    e = collections.defaultdict(lambda: [x])
    e["q"].append(1)
    f = d.copy()
    return d, e["q"], type(f).__name__, f.default_factory is int, "zz" in d, d.get("zz"), dict(d)


@program
def default_dict_without_factory(x):
    d = collections.defaultdict(None, a=x)
    try:
        d["b"]
    except KeyError as error:
        return error.args, d["a"]


@program
def default_dict_nested(x):
    tree = lambda: collections.defaultdict(tree)
    t = tree()
    t["a"]["b"]["c"] = x
    return t["a"]["b"]["c"], list(t), list(t["a"])


@program
def counter_counts(x):
    c = collections.Counter("abracadabra")
    c.update("aab")
    c["z"] = 7
    c.subtract({"a": 1})
    return c["a"], c["nope"], c.most_common()[:2], sorted(c), c.total(), x + c["b"]


@program
def counter_arithmetic_breaks(x):
    a, b = collections.Counter(p=3, q=1), collections.Counter(p=1, q=2)
    return a + b, a - b, a & b, a | b, +a, sorted(a.elements()), x


@program
def counter_compared(x):
    a, b = collections.Counter("aab"), collections.Counter("aabb")
    return a <= b, a == b, a < b, a == collections.Counter("aab"), x


@program
def chain_map_reads(x):
    local, glob = {"a": x}, {"a": 1, "b": 2}
    c = collections.ChainMap(local, glob)
    c["c"] = 3
    child = c.new_child({"b": 9})
    return c["a"], c["b"], "c" in local, child["b"], child.parents["b"], len(c), sorted(c), c.get("zz", 4), c.maps[1]


@program
def chain_map_deletes(x):
    c = collections.ChainMap({"a": x}, {"b": 1})
    del c["a"]
    try:
        del c["b"]
    except KeyError as error:
        return error.args, dict(c), x


@program
def user_dict(x):
    d = collections.UserDict(a=x)
    d["b"] = 2
    e = d | {"c": 3}
    return d["a"], len(d), "b" in d, e.data, list(e), d.pop("b"), d.get("zz")


@program
def keyword_dict_is_fresh(x):
    def f(**kw):
        kw["new"] = x
        return kw

    d = {"a": 1}
    return f(**d), d


@program
def keys_replaced_while_iterating_break(x):
    def over(view):
        d = {0: x}
        seen = []
        try:
            for each in view(d):
                seen.append(each)
                del d[0]
                d[0] = x + 1
        except RuntimeError as error:
            return len(seen), error.args, d
        return len(seen), d

    return over(iter), over(dict.values), over(dict.items), x + 1


@program
def other_dict_changes_while_merged(x):
    class Clearing:
        def __hash__(self):
            return 0

        def __eq__(self, other):
            source.clear()
            return False

    source = {1: x, Clearing(): 0, 3: 4}
    try:
        {Clearing(): 0, 1: 1}.update(source)
    except RuntimeError as error:
        return error.args, x + 1


class Counting:
    def __init__(self):
        self.hashed = self.compared = 0

    def __hash__(self):
        self.hashed += 1
        return 42

    def __eq__(self, other):
        self.compared += 1
        return self is other


@program
def keys_are_asked_once(x):
    def of(change):
        first, second = Counting(), Counting()
        d = {first: x, 1: 1}
        change(d, first, second)
        return first.hashed, second.hashed, first.compared + second.compared, len(d)

    return (
        of(lambda d, first, second: d.setdefault(second, x)),
        of(lambda d, first, second: d.__setitem__(second, x)),
        of(lambda d, first, second: d.pop(second, x)),
        of(lambda d, first, second: d.pop(first)),
        of(lambda d, first, second: d.__delitem__(first)),
        x + 1,
    )


@program
def ordered_keys_put_last(x):
    d = collections.OrderedDict(a=x, b=2, c=3)
    d.move_to_end("a")
    d.pop("b")
    d["b"] = x + 1
    return list(d), d, x + 1


@program
def reversed_while_values_change(x):
    out = []
    for cls in (dict, collections.OrderedDict, collections.defaultdict):
        d = cls()
        d.update({1: 2, 3: 4, 5: 6})
        for kind in ("keys", "values", "items"):
            it = reversed(getattr(d, kind)())
            out.append((next(it), type(it).__name__))
            d[1] = 7
            out.append((list(it), next(it, "end"), next(it, "end")))
    return out, x + 1


@program
def break_reversed_while_keys_change(x):
    d, out = {1: 2, 3: 4}, []
    it = reversed(d)
    next(it)
    d[5] = 6
    for _ in range(2):
        try:
            out.append(next(it))
        except RuntimeError as error:
            out.append(str(error))
    it = reversed(d)
    x = x * next(it)
    print(end="")
    return out, list(it), x


@program
def views_meet_equal_elements_of_other_classes(x):
    one, many = {1: 0}, {1: 0, 2: 0, 3: 0}
    met = (
        one.keys() & {1.0}, {1.0} & one.keys(), one.keys() & [1.0], one.keys() & [1.0, True, 2], one.keys() & {1.0: 3}.keys(),
        many.keys() & {1.0}, one.keys() & {1.0, 2.0}, one.keys() & {1.0: 3, 2.0: 3}.keys(), many.keys() & {1.0: 3}.keys(),
        one.items() & {(1.0, 0)}, one.items() & [(1.0, 0)], one.keys() | {1.0}, one.keys() & frozenset([1.0]),
    )  # fmt: skip
    return x, [[repr(each) for each in found] for found in met]


@program
def views_of_items_whose_values_have_no_hashes(x):
    one, more = {0: [1]}, {0: [1], 2: 3}
    met = (
        one.items() & set(), one.items() & [[1]], more.items() & {2: 3}.items(), one.items() ^ {0: [1]}.items(), {2: 3}.items() ^ {2: 4}.items(),
    )  # fmt: skip
    told = (
        one.items() == {0: [1]}.items(), one.items() != {0: [2]}.items(), one.items() <= more.items(), more.items() > one.items(),
        {(0, 1)} <= one.items(), {(0, 1)} == more.items(), one.items().isdisjoint([(0, [1])]), more.items().isdisjoint(one.items()),
        one.items().isdisjoint([[1]]), (0, [1]) in one.items(), (0, [1], 2) in one.items(),
    )  # fmt: skip
    errors = []
    for ask in (
        lambda: ([], 1) in one.items(),
        lambda: one.items() & [(0, [1])],
        lambda: one.items() | set(),
        lambda: one.items() == {(0, 1)},
        lambda: one.keys() & [[]],
        lambda: one.keys().isdisjoint([[]]),
    ):
        try:
            ask()
        except TypeError as error:
            errors.append(str(error))
    return x, [[repr(each) for each in found] for found in met], told, errors
