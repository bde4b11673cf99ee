# ruff: noqa
"""What attributes of classes decide: descriptors, properties, slots, class and static methods."""

from __future__ import annotations

import functools
import importlib
import sys


from .registry import program


class Typed:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, owner=None):
        return self if obj is None else getattr(obj, self.name, "unset")

    def __set__(self, obj, value):
        if value is None:
            raise ValueError("none")
        setattr(obj, self.name, value)

    def __delete__(self, obj):
        delattr(obj, self.name)


class Lazy:
    def __init__(self, function):
        self.function = function

    def __get__(self, obj, owner):
        value = self.function(obj)
        obj.__dict__[self.function.__name__] = value
        return value


class OnlySet:
    def __set__(self, obj, value):
        obj.__dict__["only"] = ("set", value)


class Described:
    t = Typed()
    only = OnlySet()

    @Lazy
    def lazy(self):
        return [1]

    @property
    def p(self):
        return self._p * 2

    @p.setter
    def p(self, value):
        self._p = value

    @p.deleter
    def p(self):
        del self._p

    @functools.cached_property
    def cached(self):
        return [2]

    @classmethod
    def make(cls, v):
        made = cls()
        made.t = v
        return made

    @staticmethod
    def add(a, b):
        return a + b


@program
def descriptors_data(x):
    d = Described()
    before = d.t
    d.t = x
    got = d.t
    del d.t
    return before, got, d.t, type(Described.t).__name__


@program
def descriptors_non_data(x):
    d = Described()
    first = d.lazy
    return first is d.lazy, "lazy" in d.__dict__, d.cached is d.cached, x


@program
def descriptors_only_set(x):
    d = Described()
    d.only = x
    return d.only[0], d.only[1]


@program
def descriptors_raise(x):
    try:
        Described().t = None
    except ValueError as error:
        return str(error), x


@program
def properties_set_and_deleted(x):
    d = Described()
    d.p = x
    got = d.p
    del d.p
    return got, hasattr(d, "p"), isinstance(Described.p, property)


@program
def methods_of_class(x):
    d = Described.make(x)
    f = d.add
    return d.t, f(1, 2), Described.add(x, 1), Described.make.__self__ is Described


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class MoreSlots(Slots):
    __slots__ = ("c",)


@program
def slots_errors(x):
    s = MoreSlots(x)
    s.c = 1
    out = [s.a, s.c, hasattr(s, "b"), hasattr(s, "__dict__")]
    for f in (lambda: s.b, lambda: setattr(s, "zz", 1), lambda: delattr(s, "b")):
        try:
            f()
        except AttributeError as error:
            out.append(str(error).split(",")[0])
    return out


@program
def plain_object_has_no_dict(x):
    return hasattr(object(), "__dict__"), hasattr(Described(), "__dict__"), x


def another_partial():
    kept = sys.modules.pop("_functools")
    try:
        return importlib.import_module("_functools").partial(max)
    finally:
        sys.modules["_functools"] = kept


READ_ONLY = another_partial()


@program
def read_only_members_break(x):
    seen = []
    for name in ("func", "args", "own"):
        try:
            setattr(READ_ONLY, name, 3)
        except AttributeError as error:
            seen.append(str(error))
    return seen, READ_ONLY.own, x + 1


class Ordered:
    pass


ORDERED = Ordered()


@program
def attributes_that_come_back_are_last(x):
    def order(owner):
        owner.a, owner.b, owner.c = 1, 2, 3
        del owner.a
        owner.a = 4
        vars(owner).pop("b")
        vars(owner)["b"] = 5
        return list(vars(owner)), list(vars(owner).values())

    return order(ORDERED), order(Ordered()), order(ORDERED), x + 1


class _Hidden:
    @property
    def shown(self):
        return self.__dict__["shown"] * 2

    @shown.setter
    def shown(self, value):
        self.__dict__["shown"] = value + 1


@program
def break_with_what_lies_under_a_data_descriptor(x):
    d, h = Described(), _Hidden()
    d.only, h.shown = x, 3
    x.sum() > -1e9 and None
    return d.only[0], d.only[1], h.shown, vars(h)
