# ruff: noqa
"""Classes made by the program itself that others see: over graph breaks, in what a class tells its bases, metaclass or hooks, and let out."""

from __future__ import annotations

import functools
import gc
import time

import torch

from .local_classes import Base
from .registry import program


def told(cls):
    """What a class says of itself."""
    return (
        cls.__name__,
        cls.__qualname__,
        cls.__module__,
        cls.__doc__,
        [b.__name__ for b in cls.__mro__],
        sorted(vars(cls)),
    )


class Registered:
    """Tells of its subclasses."""


class Hooked:
    made = []

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__()
        cls.options = kwargs
        Hooked.made.append(cls.__name__)


class Meta(type):
    def __new__(mcls, name, bases, namespace, **kwargs):
        namespace["told"] = sorted(kwargs)
        return super().__new__(mcls, name, bases, namespace)

    def __init__(cls, name, bases, namespace, **kwargs):
        super().__init__(name, bases, namespace)


class Named:
    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner):
        return self.name


def class_escapes(x):
    y = x * 2

    class Escaping(Base):
        """Documented."""

        kept = y

        def __init__(self, z):
            self.z = z

        def add(self, w):
            return self.z + self.kept + w + len(__class__.__name__)

        @staticmethod
        def plain(a):
            return a + 1

        @classmethod
        def named(cls, a):
            return cls.__name__, a

        @property
        def double(self):
            return self.z * 2

        @double.setter
        def double(self, value):
            self.z = value / 2

    return Escaping(x), Escaping


def use(made):
    obj, cls = made
    first = obj.add(1), obj.double, cls.plain(1), cls.named(2), obj.plain(3), type(obj) is cls, told(cls), obj.run(3)
    obj.double = torch.ones(3, 4)
    return first, obj.z, cls.kept, isinstance(cls.__dict__["double"], property)


def use_break(made):
    time.perf_counter_ns()  # a graph break: what follows is done with the real class
    return use(made)


@program
def class_escapes_over_break(x):
    return use_break(class_escapes(x))


@program
def another_class_each_call_break(x):
    def make():
        class Fresh:
            pass

        return Fresh

    a, b = make(), make()
    time.perf_counter_ns()
    return a is b, a is a, isinstance(a(), b), isinstance(a(), a), x + 1


@program
def subclasses_are_told_break(x):
    gc.collect()

    class Sub(Registered):
        pass

    return [c.__name__ for c in Registered.__subclasses__()], x + 1


@program
def subclasses_unused_are_told_break(x):
    def run():
        class Sub(Registered):
            pass

        kept = Sub
        time.perf_counter_ns()
        return len(Registered.__subclasses__()) > 0, kept.__name__

    return run(), x + 1


@program
def class_with_hooks_break(x):
    class Sub(Hooked, option=3):
        pass

    return Sub.options, Hooked.made[-1], x + 1


@program
def class_with_metaclass_break(x):
    class Sub(metaclass=Meta, one=1, two=2):
        pass

    return Sub.told, type(Sub) is Meta, x + 1


@program
def class_with_set_name_break(x):
    class Sub:
        first = Named()

    return Sub.first, Sub().first, x + 1


@program
def class_body_prints_break(x):
    seen = []

    class Body:
        seen.append("before")
        time.perf_counter_ns()
        seen.append("after")

    return seen, Body.__name__, x + 1


@program
def class_body_changes_outside(x):
    seen = []

    class Body:
        seen.append("body")
        seen.append(x + 1)

    return seen


def class_body_raises(x):
    try:

        class Body:
            a = 1
            b = [][3]

    except IndexError as error:
        return str(error), x + 1


@program
def class_body_raises_break(x):
    return class_body_raises(x)


@program
def class_attributes_set_later_break(x):
    class Changing:
        a = 1

        def get(self):
            return self.a

    class Derived(Changing):
        pass

    d = Derived()
    Changing.a = x
    Changing.own = d
    Derived.z = Changing
    time.perf_counter_ns()
    return d.get(), Changing.own is d, Derived.z is Changing, sorted(k for k in vars(Changing) if not k.startswith("_"))


@program
def methods_decorated_escape_break(x):
    def twice(f):
        @functools.wraps(f)
        def run(self, *args):
            return f(self, *args) * 2

        return run

    class Decorated(Base):
        def by_name(self):
            return Decorated

        @twice
        def run(self, x):
            return super().run(x) + 1

    d = Decorated()
    time.perf_counter_ns()
    return d.run(x), d.by_name() is Decorated, Decorated.run.__name__


@program
def class_by_name_in_itself_break(x):
    def make():
        class Node:
            def __init__(self, v, n=0):
                self.v = v
                self.next = Node(v + 1, n - 1) if n else None

        return Node

    cls = make()
    node = cls(x, 2)
    time.perf_counter_ns()
    return node.next.next.v, type(node.next) is cls, cls(x, 1).next.v


@program
def class_reached_from_what_it_holds_break(x):
    table = {}

    class Entry:
        held = table

    table["entry"] = Entry
    time.perf_counter_ns()
    return table["entry"] is Entry, Entry.held is table, x + 1


@program
def method_is_a_method_of_what_it_makes_break(x):
    class Counter:
        total = 0

        def add(self, n):
            self.total += n
            return self

    add = Counter().add
    time.perf_counter_ns()
    return add(3).total, add.__self__.total, add.__func__ is Counter.add, x


def _lets_out(x):
    class Own(Exception):
        def __init__(self, n):
            super().__init__(n)
            self.n = n

    raise Own(x.shape[0])


@program
def exception_of_its_own_is_let_out_break(x):
    try:
        _lets_out(x)
    except Exception as error:
        return type(error).__qualname__, error.n, error.args


@program
def class_that_is_global(x):
    global Global

    class Global:
        v = 3

        def m(self):
            return x + self.v

    return Global().m()


@program
def subclasses_of_one_in_frame_break(x):
    class A:
        pass

    class B(A):
        pass

    return [c.__name__ for c in A.__subclasses__()], x


@program
def hook_of_a_class_in_frame_break(x):
    class A:
        def __init_subclass__(cls, **kwargs):
            cls.told = kwargs

    class B(A, k=1):
        pass

    return B.told, x
