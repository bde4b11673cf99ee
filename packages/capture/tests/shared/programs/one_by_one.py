# ruff: noqa
"""What takes an iterable's elements one after the other acts on each before it asks for the next, which may look, or raise."""

from __future__ import annotations

import collections
import functools

from .registry import program


class Number:
    def __init__(self, n, told):
        self.n, self.told = n, told

    def __add__(self, other):
        self.told.append(("add", self.n))
        return Number(self.n + other.n, self.told)

    def __radd__(self, other):
        self.told.append(("radd", self.n))
        return Number(self.n + other, self.told)

    def __gt__(self, other):
        self.told.append(("gt", self.n))
        return self.n > other.n

    def __hash__(self):
        self.told.append(("hash", self.n))
        return self.n

    def __eq__(self, other):
        return self.n == other.n


class Numbers:
    def __init__(self, told):
        self.n, self.told = 0, told

    def __iter__(self):
        return self

    def __next__(self):
        self.n += 1
        self.told.append(("next", self.n))
        if self.n > 3:
            raise StopIteration
        return Number(self.n, self.told)


class Counted:
    """Tells when it is asked how many it has."""

    def __init__(self, told, fault=None):
        self.told, self.fault = told, fault

    def __iter__(self):
        self.told.append("iter")
        return iter([1, 2])

    def __len__(self):
        self.told.append("len")
        if self.fault is not None:
            raise self.fault
        return 2


class Guess:
    def __init__(self, told):
        self.told = told

    def __iter__(self):
        return iter([1, 2])

    def __length_hint__(self):
        self.told.append("hint")
        return NotImplemented


@program
def folded(x):
    told = []
    y = x + 1
    functools.reduce(lambda a, b: told.append("fold") or a + b, Numbers(told))
    total = sum(Numbers(told)).n
    most = max(Numbers(told)).n
    least = min(Numbers(told), key=lambda each: told.append("key") or -each.n).n
    return y * total, most, least, told


@program
def keyed(x):
    told = []
    y = x + 1
    made = set(Numbers(told))
    grown = {Number(9, told)}
    grown.update(Numbers(told))
    named = dict.fromkeys(Numbers(told), 1)
    return y, len(made), len(grown), len(named), told


@program
def seen_while_extended(x):
    y = x + 1
    plain, added, ends, limited = [], [5], collections.deque(), collections.deque(maxlen=2)
    plain.extend(len(plain) for _ in range(3))
    added += (len(added) for _ in range(2))
    ends.extendleft(len(ends) for _ in range(3))
    limited.extend(len(limited) for _ in range(4))
    known = set()
    known.update(len(known) for _ in range(3))
    return y, plain, added, ends, limited, known


def until_it_raises(x):
    yield x * 2
    yield 7
    raise ValueError("halfway")


@program
def left_halfway(x):
    made, added, ends, known = [x], [x], collections.deque([x]), {1}
    for take in made.extend, added.__iadd__, ends.extend, ends.extendleft:
        try:
            take(until_it_raises(x))
        except ValueError as error:
            made.append(str(error))
    try:
        known.update(until_it_raises(4))
    except ValueError as error:
        made.append(str(error))
    return made, added, list(ends), sorted(known), x + 1


@program
def asked_how_many(x):
    told, y = [], x + 1
    found = [list(Counted(told)), [*Counted(told)], sorted(Counted(told)), tuple(Counted(told)), (0, *Counted(told))]
    more = [3]
    more.extend(Counted(told))
    more += Counted(told)
    more[:1] = Counted(told)
    found += [set(Counted(told)), dict.fromkeys(Counted(told)), collections.deque(Counted(told)), sum(Counted(told))]
    found += [(lambda *args: args)(*Counted(told)), list(map(str, Counted(told))), list(Guess(told)), more]
    return y, found, told


@program
def refused_a_length(x):
    told, y = [], x + 1
    for each in Counted(told, ValueError("of length")), Counted(told, TypeError("none")):
        try:
            told.append(list(each))
        except (TypeError, ValueError) as error:
            told.append(repr(error))
    return y, told


class Colliding:
    def __init__(self, n, told):
        self.n, self.told = n, told

    def __hash__(self):
        return 1

    def __eq__(self, other):
        self.told.append((self.n, other.n))
        return self.n == other.n


@program
def asked_of_keys_once(x):
    told = []
    made = {Colliding(i, told): i for i in range(4)}
    told.append(made[Colliding(2, told)])
    made[Colliding(3, told)] = 9
    made.setdefault(Colliding(4, told), 1)
    return x + 1, len(made), told


class Ordered:
    def __init__(self, n, told):
        self.n, self.told = n, told

    def __lt__(self, other):
        self.told.append((self.n, other.n))
        if self.n == 13:
            raise ValueError("thirteen")
        return self.n < other.n

    def __repr__(self):
        return f"Ordered({self.n})"


@program
def asked_by_sorting(x):
    told = []
    made = [Ordered(7 * i % 11, told) for i in range(30)]
    found = sorted(made)
    made.sort(key=lambda each: Ordered(-each.n, told), reverse=True)
    return x + 1, repr(found), repr(made), told


@program
def sorted_as_far_as_it_came(x):
    told = []
    made = [Ordered(n, told) for n in (3, 2, 7, 1, 5, 13, 0)]
    other = [*made]
    for each, reverse in (made, False), (other, True):
        try:
            each.sort(reverse=reverse)
        except ValueError as error:
            told.append(str(error))
    return x + 1, repr(made), repr(other), told


@program
def of_equal_elements(x):
    """An intersection has those of what is iterated."""
    whole, mixed, single = {1, 2}, {True, 3}, {1.0}
    found = [
        whole & mixed,
        mixed & whole,
        whole & single,
        single & whole,
        whole.intersection([1.0]),
        frozenset(whole) & mixed,
    ]
    whole &= mixed
    return x + 1, repr([*found, whole])


class Taking:
    """Takes from a list as it is compared."""

    def __init__(self, n, held):
        self.n, self.held = n, held

    def __eq__(self, other):
        if self.held:
            self.held.pop()
        return self.n == other


@program
def lists_that_comparing_changes(x):
    held = []
    held += [Taking(i, held) for i in range(6)]
    counted = held.count(1), len(held)
    held += [Taking(i, held) for i in range(4)]
    other = []
    other += [Taking(i, other) for i in range(3)]
    try:
        other.remove(1)
    except ValueError as error:
        counted += (str(error),)
    return x + 1, counted, len(held), len(other)


def pairs_until_it_raises():
    yield "a", 1
    yield "b", 2
    raise ValueError("halfway")


@program
def a_dictionary_left_halfway(x):
    made = {"z": x}
    for take in made.update, made.__ior__:
        try:
            take(pairs_until_it_raises())
        except ValueError as error:
            made[str(error)] = len(made)
        try:
            take([("c", 3), ("d",)])
        except ValueError as error:
            made[str(error)] = len(made)
    return x + 1, made
