"""Containers that a program reads: content, order, nesting, keys, subclasses."""

from __future__ import annotations

import collections
import types

import torch

from .table import between, changed, family, removed, vector

program = family("containers")


def steps(call, f, *changes, args=()):
    """A call, then after each of ``changes`` another."""
    call(f, vector(), *args)
    for change in changes:
        change()
        call(f, vector(), *args)


@program
def list_content(call):
    items = [1, 2, 3]

    def f(x):
        return x * items[0] + sum(items)

    steps(
        call, f, lambda: items.append(4), lambda: items.pop(), lambda: items.reverse(), lambda: items.sort(),
        lambda: items.__setitem__(0, True), lambda: items.__setitem__(0, 1.0), lambda: items.clear(),
    )  # fmt: skip


@program
def list_nested(call):
    items = [[1], [2, [3]]]

    def f(x):
        return x * items[1][1][0] + len(items[0])

    steps(
        call,
        f,
        lambda: items[1][1].__setitem__(0, 7),
        lambda: items[0].append(1),
        lambda: items.__setitem__(1, [0, [4]]),
    )


@program
def list_replaced_by_tuple(call):
    box = types.SimpleNamespace(items=[1, 2])

    def f(x):
        return x * len(box.items) + (3 if isinstance(box.items, tuple) else 4)

    call.across(changed(box, "items", (1, 2)), f, vector())


@program
def list_holds_itself(call):
    items = [1]
    items.append(items)

    def f(x):
        return x * len(items[1]) + (2 if items[1] is items else 3)

    steps(call, f, lambda: items.__setitem__(1, list(items)), lambda: items.append(3))


@program
def list_mutated_by_the_program(call):
    items = [1]
    call.state = items

    def f(x):
        items.append(len(items) * 2)
        return x * items[-1]

    steps(call, f, lambda: None, lambda: items.clear(), lambda: items.extend([5, 5]))


@program
def list_of_tensors(call):
    items = [vector(), vector() + 1]
    call.state = items

    def f(x):
        items[0] = items[0] * 2
        return x + items[0] + items[-1]

    steps(call, f, lambda: items.append(vector() * 9), lambda: items.__setitem__(1, torch.ones(3, dtype=torch.float64)))


@program
def dict_content_and_order(call):
    table = {"a": 1.0, "b": 2.0}

    def f(x):
        for weight in table.values():
            x = x * weight + 1
        return x

    steps(
        call, f, lambda: table.update(a=5.0), lambda: table.update(a=table.pop("a")), lambda: table.update(c=3.0),
        lambda: table.pop("b"), lambda: table.clear(),
    )  # fmt: skip


@program
def dict_key_asked(call):
    table = {"a": 1}

    def f(x):
        return x * (2 if "b" in table else 3) * table.get("c", 5)

    steps(
        call,
        f,
        lambda: table.update(b=1),
        lambda: table.update(c=1),
        lambda: table.pop("b"),
        lambda: table.update(c=None),
    )


@program
def dict_length_only(call):
    table = {"a": 1}

    def f(x):
        return x * len(table) * (2 if table else 3)

    steps(call, f, lambda: table.update(b=1), lambda: table.clear(), lambda: table.update(z=1))


@program
def dict_keys_of_every_kind(call):
    class Key:
        pass

    key, other = Key(), Key()
    table = {
        1: 1.0,
        "a": 2.0,
        None: 3.0,
        (1, "x"): 4.0,
        key: 5.0,
        Key: 6.0,
        torch.float32: 7.0,
        len: 8.0,
        2.5: 9.0,
        frozenset({1}): 10.0,
    }

    def f(x):
        return x * sum(table[k] for k in (1, "a", None, (1, "x"), key, Key, torch.float32, len, 2.5, frozenset({1})))

    steps(call, f, *[lambda k=k: table.update({k: table[k] + 1}) for k in list(table)])
    steps(call, f, lambda: table.update({other: 1.0}), lambda: table.pop(key))


@program
def dict_keys_equal_but_other(call):
    table = {1: 2.0}

    def f(x):
        return x * sum(5 if type(key) is bool else 7 if type(key) is float else 1 for key in table)

    steps(
        call, f, lambda: (table.clear(), table.update({True: 2.0})), lambda: (table.clear(), table.update({1.0: 2.0}))
    )


@program
def dict_tensor_keys(call):
    first, second = vector(), vector()
    table = {first: 2.0, second: 3.0}

    def f(x):
        return x * table[first]

    steps(call, f, lambda: table.update({first: 7.0}), lambda: table.pop(first))


@program
def dict_view_held(call):
    table = {"a": 1.0}
    values = table.values()

    def f(x):
        return x * sum(values)

    steps(call, f, lambda: table.update(a=2.0), lambda: table.update(b=3.0), lambda: table.clear())


@program
def mapping_proxy(call):
    table = {"a": 1.0}
    proxy = types.MappingProxyType(table)

    def f(x):
        return x * proxy["a"] * len(proxy)

    steps(call, f, lambda: table.update(a=2.0), lambda: table.update(b=3.0), lambda: table.clear())


@program
def set_content(call):
    items = {1, 2}

    def f(x):
        return x * len(items) * (2 if 7 in items else 3) + sum(items)

    steps(call, f, lambda: items.add(7), lambda: items.discard(1), lambda: items.add(1), lambda: items.clear())


@program
def set_of_strings(call):
    items = {"a"}

    def f(x):
        return x * len("".join(sorted(items)))

    steps(call, f, lambda: items.add("bcd"), lambda: items.remove("a"))


@program
def deque_content(call):
    items = collections.deque([1.0, 2.0], maxlen=3)
    call.state = items

    def f(x):
        items.append(items[0] + 1)
        return x * items[-1] + len(items)

    steps(call, f, lambda: None, lambda: items.rotate(1), lambda: items.clear(), lambda: items.append(4.0))


@program
def deque_maximum(call):
    box = types.SimpleNamespace(items=collections.deque([1], maxlen=3))
    call.across(
        changed(box, "items", collections.deque([1], maxlen=5)),
        lambda x: x * box.items.maxlen + len(box.items),
        vector(),
    )


def ordered(call, make):
    table = make()
    table.update(a=1.0, b=2.0, c=3.0)

    def f(x):
        for weight in table.values():
            x = x * weight + 1
        return x, next(iter(table)), list(reversed(table))

    steps(
        call, f, lambda: table.move_to_end("a"), lambda: table.move_to_end("a", last=False), lambda: table.popitem(False),
        lambda: table.update(a=4.0), lambda: table.move_to_end("b"),
    )  # fmt: skip


@program
def ordered_dict(call):
    ordered(call, collections.OrderedDict)


@program
def ordered_dict_subclass(call):
    class Table(collections.OrderedDict):
        pass

    ordered(call, Table)


@program
def ordered_dict_subclass_argument(call):
    class Table(collections.OrderedDict):
        pass

    table = Table(a=1.0, b=2.0)

    def f(x, table):
        for key, weight in table.items():
            x = x * weight + len(key)
        return x

    steps(call, f, lambda: table.move_to_end("a"), lambda: table.update(c=5.0), args=(table,))


@program
def ordered_dict_moved_by_the_program(call):
    table = collections.OrderedDict(a=1.0, b=2.0, c=3.0)
    call.state = table

    def f(x):
        table.move_to_end(next(iter(table)))
        return x * next(iter(table.values()))

    steps(call, f, lambda: None, lambda: None, lambda: table.move_to_end("a", last=False))


@program
def ordered_dict_compared(call):
    left, right = collections.OrderedDict(a=1, b=2), collections.OrderedDict(a=1, b=2)

    def f(x):
        return x * (2 if left == right else 3)

    steps(call, f, lambda: left.move_to_end("a"), lambda: left.move_to_end("b"), lambda: right.update(c=1))


@program
def default_dict(call):
    table = collections.defaultdict(lambda: 5)
    call.state = table

    def f(x, key):
        return x * table[key] + len(table)

    call(f, vector(), "a")
    call(f, vector(), "a")
    table["a"] = 7
    call(f, vector(), "a")
    table.default_factory = lambda: 9
    call(f, vector(), "b")
    table.default_factory = None
    call(f, vector(), "c")


@program
def counter(call):
    counts = collections.Counter("aab")

    def f(x):
        return x * counts["a"] + counts["z"] + counts.most_common(1)[0][1]

    steps(call, f, lambda: counts.update("bbbb"), lambda: counts.clear())


@program
def chain_map(call):
    low, high = {"a": 1.0}, {}
    chained = collections.ChainMap(high, low)

    def f(x):
        return x * chained["a"]

    steps(call, f, lambda: high.update(a=5.0), lambda: high.clear(), lambda: low.update(a=7.0), lambda: low.clear())


@program
def list_subclass(call):
    class Items(list):
        k = 2

    items = Items([1, 2])

    def f(x):
        return x * sum(items) * items.k

    steps(
        call, f, lambda: items.append(3), lambda: setattr(items, "k", 5), lambda: delattr(items, "k"),
        lambda: setattr(Items, "k", 7),
    )  # fmt: skip


@program
def dict_subclass(call):
    class Table(dict):
        pass

    table = Table(a=1)
    table.k = 2

    def f(x):
        return x * table["a"] * table.k

    steps(call, f, lambda: table.update(a=3), lambda: setattr(table, "k", 5), lambda: table.pop("a"))


@program
def tuple_subclass_attribute(call):
    class Pair(tuple):
        pass

    pair = Pair((2, 3))
    pair.k = 4

    def f(x):
        return x * pair[0] * pair.k

    call.across(changed(pair, "k", 5), f, vector())


@program
def namespace_fields(call):
    space = types.SimpleNamespace(a=1, sub=types.SimpleNamespace(b=2))

    def f(x):
        return x * space.a * space.sub.b * (3 if hasattr(space, "c") else 4)

    call.across(
        [
            changed(space, "a", 5), changed(space.sub, "b", 6), changed(space, "c", 1), removed(space, "a"),
            changed(space, "sub", types.SimpleNamespace(b=9)),
        ],
        f, vector(),
    )  # fmt: skip


@program
def instance_dict_replaced(call):
    class Thing:
        pass

    thing = Thing()
    thing.k = 2
    call.across(changed(thing, "__dict__", {"k": 5}), lambda x: x * thing.k, vector())


@program
def instance_dict_order(call):
    space = types.SimpleNamespace(a=2.0, b=3.0)

    def f(x):
        for value in vars(space).values():
            x = x * value + 1
        return x

    def reorder():
        value = space.a
        del space.a
        space.a = value

    steps(call, f, reorder, lambda: setattr(space, "c", 4.0))


@program
def shared_list(call):
    left = [1]
    box = types.SimpleNamespace(left=left, right=left)

    def f(x):
        box.left.append(2)
        return x * len(box.right)

    call.state = box
    call.across(changed(box, "right", [1, 1, 1, 1, 1]), f, vector())


@program
def two_arguments_the_same_list(call):
    def f(x, a, b):
        a.append(1)
        return x * len(b)

    items = [1]
    call(f, vector(), items, items)
    call(f, vector(), [1], [1])
    call(f, vector(), items, items)


@program
def array_and_bytearray(call):
    import array

    numbers, raw = array.array("d", [1.0, 2.0]), bytearray(b"ab")

    def f(x):
        return x * numbers[0] + raw[1]

    with between(lambda: None, lambda: None):
        steps(call, f, lambda: numbers.__setitem__(0, 5.0), lambda: raw.__setitem__(1, 1))


@program
def user_dict(call):
    table = collections.UserDict(a=1)

    def f(x):
        return x * table["a"]

    steps(call, f, lambda: table.update(a=2), lambda: setattr(table, "data", {"a": 5}))


@program
def set_order(call):
    names = [f"{n}" for n in range(9)]
    backwards = names[::-1]
    box = types.SimpleNamespace(items=set(names))

    def f(x):
        for place, name in enumerate(box.items):
            x = x * int(name) + place
        return x

    def refilled():
        box.items.clear()
        for name in backwards:
            box.items.add(name)

    steps(
        call, f, lambda: setattr(box, "items", set(backwards)), refilled, lambda: box.items.discard("3"),
        lambda: setattr(box, "items", frozenset(box.items)), lambda: setattr(box, "items", frozenset(names)),
    )  # fmt: skip
