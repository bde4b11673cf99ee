"""What a class itself is asked: its slots, its name, its dictionary, its order of resolution, its metaclass."""

from __future__ import annotations

import torch

from .classes import family_of_three
from .table import changed, family, removed, vector

program = family("classes")


@program
def class_of_instance(call):
    class One:
        def scale(self, x):
            return x * 2

    class Two:
        def scale(self, x):
            return x * 3

    thing = One()
    call.across(changed(thing, "__class__", Two), lambda x: thing.scale(x), vector())


@program
def slots(call):
    class Box:
        __slots__ = ("k",)

    box = Box()
    box.k = 2
    call.across([changed(box, "k", 3), removed(box, "k")], lambda x: x * box.k, vector())


@program
def slot_shadowed(call):
    class Box:
        __slots__ = ("k",)

    class Leaf(Box):
        __slots__ = ()

    leaf = Leaf()
    leaf.k = 2
    call.across(changed(Leaf, "k", 9), lambda x: x * leaf.k, vector())


@program
def slots_of_argument(call):
    class Box:
        __slots__ = ("items", "k")

    box = Box()
    box.k, box.items = 2, [1]

    def f(x, box):
        box.items.append(box.k)
        return x * len(box.items)

    call.across(changed(box, "k", 3), f, vector(), box)


@program
def name_of_class(call):
    class Thing:
        pass

    thing = Thing()
    call.across(
        [changed(Thing, "__name__", "T"), changed(Thing, "__qualname__", "U"), changed(Thing, "__module__", "m")],
        lambda x: x * len(type(thing).__name__) + len(Thing.__qualname__) + len(Thing.__module__),
        vector(),
    )


@program
def class_dict_asked(call):
    _Base, _Middle, Leaf = family_of_three()
    call.across(changed(Leaf, "extra", 3), lambda x: x * (2 if "extra" in Leaf.__dict__ else 3), vector())


@program
def order_of_resolution_asked(call):
    Base, Middle, Leaf = family_of_three()
    Other = type("Other", (Base,), {})
    call.across(changed(Leaf, "__bases__", (Middle, Other)), lambda x: x * len(Leaf.__mro__), vector())


@program
def class_of_class_attribute(call):
    class Inner:
        k = 2

    class Outer:
        inner = Inner

    class Other:
        k = 3

    call.across([changed(Outer, "inner", Other), changed(Inner, "k", 4)], lambda x: x * Outer.inner.k, vector())


@program
def class_attribute_written_by_program(call):
    class Counter:
        n = 0

    def f(x):
        Counter.n += 1
        return x * Counter.n

    for _ in range(3):
        call(f, vector())
    Counter.n = 10
    call(f, vector())
    call.note(Counter.n)


@program
def enum_member_class_attribute(call):
    import enum

    class Mode(enum.Enum):
        A = 1

        @property
        def weight(self):
            return 2

    def f(x):
        return x * Mode.A.weight

    call.across(changed(Mode, "weight", property(lambda self: 3)), f, vector())


@program
def exception_class_hierarchy(call):
    class Base(Exception):
        pass

    class Other(Exception):
        pass

    class Problem(Base):
        pass

    def f(x):
        try:
            raise Problem("p")
        except Other:
            return x * 2
        except Exception as error:
            return x * 3, str(error)

    call.across(changed(Problem, "__bases__", (Other,)), f, vector())


@program
def named_tuple_field_shadowed(call):
    import collections

    Point = collections.namedtuple("Point", "a b")
    point = Point(2, 3)
    call.across(changed(Point, "a", property(lambda self: 50)), lambda x: x * point.a, vector())


@program
def torch_function_class(call):
    class Tagged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})

    x = vector().as_subclass(Tagged)

    def f(x):
        return (x * 2).sum()

    def other(cls, func, types, args=(), kwargs=None):
        return torch.tensor(5.0)

    call.across(changed(Tagged, "__torch_function__", classmethod(other)), f, x)


@program
def subclasses(call):
    import contextlib

    class Base:
        k = 1

    class First(Base):
        k = 2

    class Second(First):
        k = 3

    def f(x):
        seen, waiting = [], Base.__subclasses__()
        while waiting:
            cls = waiting.pop()
            waiting += type.__subclasses__(cls)
            seen.append(cls.k)
        return x * sum(seen), seen

    kept = []

    @contextlib.contextmanager
    def another_below(cls):
        kept.append(type("Another", (cls,), {"k": 10 + len(kept)}))
        yield

    call.across(
        [another_below(Base), another_below(Second), changed(First, "__bases__", (torch.nn.Module,))], f, vector()
    )


@program
def subclasses_of_one_made_here(call):
    class Base:
        pass

    def f(x):
        class Below(Base):
            pass

        return x * len(Base.__subclasses__()), Below.__subclasses__()

    import gc

    for _ in range(3):
        call(f, vector())
        gc.collect()
