# ruff: noqa
"""What CPython's own tests found: containers that change while they are iterated, compared, sorted or looked up, and hashes asked meanwhile."""

from __future__ import annotations

import collections
import functools
import gc
import types

from .registry import outcome, program


class Dying:
    log: list = []

    def __init__(self, name):
        self.name = name

    def __del__(self):
        self.log.append(self.name)


@program
def objects_with_finalizers_break(x):
    def drop():
        Dying("a")

    Dying.log.clear()
    y = x + 1
    drop()
    return list(Dying.log), y


@program
def set_changed_while_iterated(x):
    s = {1, 2, 3}

    def go():
        for v in s:
            s.add(v + 10)

    return outcome(go), x + 1


@program
def ordered_dict_changed_while_iterated(x):
    d = collections.OrderedDict(a=1, b=2)

    def go():
        for k in d:
            del d[k]
            d[k] = 0

    return outcome(go), x + 1


class Mutating:
    def __init__(self, target):
        self.target = target

    def __eq__(self, other):
        self.target.clear()
        return False


@program
def deque_changed_while_compared(x):
    d = collections.deque([1, 2])
    e = collections.deque([1, 2])
    return outcome(lambda: Mutating(d) in d), outcome(lambda: e.count(Mutating(e))), x


@program
def lists_changed_while_compared(x):
    a, b = [1, 2], [1, 2]
    a[0] = Mutating(b)
    return a == b, len(b), x


@program
def frozen_sets_made_anew(x):
    f = frozenset([1])
    return f.copy() is f, frozenset(f) is f, f.union() is f, f.intersection() == f, f | set() is f if False else 1, x


class Backwards(dict):
    def __iter__(self):
        return iter(list(self.keys())[::-1])

    def keys(self):
        return list(super().keys())[::-1]


@program
def dict_of_a_dict_with_an_order_of_its_own(x):
    b = Backwards(a=x, b=2)
    return list(dict(b)), list({**b})


class Counting:
    def __init__(self):
        self.asked = 0

    def __hash__(self):
        self.asked += 1
        return 7

    def __eq__(self, other):
        return self is other


@program
def hashes_are_asked_once(x):
    keys = [Counting(), Counting()]
    d = dict.fromkeys(keys)
    s = set(d)
    dict.fromkeys(s)
    return [k.asked for k in keys], len(s), x


class Changing:
    def __init__(self):
        self.fail = False

    def __hash__(self):
        if self.fail:
            raise ValueError("fails")
        return 42


@program
def hash_that_changes_break(x):
    c = Changing()
    d = {c: 1}
    c.fail = True
    return outcome(lambda: d.pop(c)), list(d.values()), x


@program
def unpacking_asks_for_no_more(x):
    asked = []

    def numbers():
        for i in range(10):
            asked.append(i)
            yield i

    it = numbers()

    def go():
        a, b = it

    return outcome(go), asked, next(it), x


@program
def membership_stops_early(x):
    asked = []

    def numbers():
        for i in range(10):
            asked.append(i)
            yield i

    it = numbers()
    return 2 in it, asked, next(it), x


@program
def dictionary_of_an_object_with_other_keys_break(x):
    o = Dying.__new__(Mutating)
    o.__dict__[1] = 2
    return sorted(map(str, o.__dict__)), x


@program
def views_are_not_changed_in_place(x):
    held = {"a": 0}
    view = types.MappingProxyType(held)

    def join(other):
        nonlocal view
        view |= other

    return (
        outcome(lambda: join({"b": 1})),
        outcome(lambda: join([("b", 1)])),
        dict(view),
        view | {"c": 2},
        held,
        x + 1,
    )


@program
def lists_changed_while_sorted(x):
    items = []

    def put_in_and_out(a, b):
        items.append(3)
        items.pop()
        return a - b

    def cleared(a, b):
        items.append(3)
        del items[:]
        return a - b

    def untouched(a, b):
        items.clear()
        items.extend(())
        items.reverse()
        return a - b

    found = []
    for compared in (put_in_and_out, cleared, untouched):
        items[:] = [2, 1]
        found.append((outcome(lambda: items.sort(key=functools.cmp_to_key(compared))), list(items)))
    return found, x + 1


@program
def list_changed_and_emptied_while_sorted_outside_break(x):
    items = [2, 1]

    def compared(a, b):
        items.append(3)
        items.pop()
        gc.isenabled()
        return a - b

    return outcome(lambda: items.sort(key=functools.cmp_to_key(compared))), items, x + 1
