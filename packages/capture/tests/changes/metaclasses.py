"""Metaclasses, and what decides whether something is an instance."""

from __future__ import annotations

import abc
import collections.abc
import types

from .table import changed, family, vector

program = family("classes")


@program
def metaclass_attribute(call):
    class Meta(type):
        k = 2

    class Thing(metaclass=Meta):
        pass

    call.across([changed(Meta, "k", 3), changed(Thing, "k", 4)], lambda x: x * Thing.k, vector())


@program
def metaclass_property_shadows(call):
    class Meta(type):
        pass

    class Thing(metaclass=Meta):
        k = 2

    call.across(changed(Meta, "k", property(lambda cls: 7)), lambda x: x * Thing.k, vector())


@program
def metaclass_call(call):
    class Meta(type):
        pass

    class Thing(metaclass=Meta):
        def __init__(self, k):
            self.k = k

    def f(x):
        return x * Thing(2).k

    call.across(changed(Meta, "__call__", lambda cls, k: types.SimpleNamespace(k=9)), f, vector())


@program
def metaclass_replaced(call):
    class Meta(type):
        k = 2

    class Other(type):
        k = 3

    class Thing(metaclass=Meta):
        pass

    call.across(changed(Thing, "__class__", Other), lambda x: x * Thing.k, vector())


@program
def instance_check(call):
    class Meta(type):
        pass

    class Thing(metaclass=Meta):
        pass

    item = types.SimpleNamespace()

    def f(x):
        return x * (2 if isinstance(item, Thing) else 3)

    call.across(changed(Meta, "__instancecheck__", lambda cls, obj: True), f, vector())


@program
def subclass_check(call):
    class Meta(type):
        pass

    class Thing(metaclass=Meta):
        pass

    def f(x):
        return x * (2 if issubclass(int, Thing) else 3)

    call.across(changed(Meta, "__subclasscheck__", lambda cls, obj: True), f, vector())


@program
def abstract_registration(call):
    class Shape(abc.ABC):
        pass

    class Square:
        pass

    square = Square()

    def f(x):
        return x * (2 if isinstance(square, Shape) else 3) + (1 if issubclass(Square, Shape) else 0)

    call(f, vector())
    Shape.register(Square)
    call(f, vector())


@program
def abstract_container_protocol(call):
    class Bag:
        pass

    bag = Bag()

    def f(x):
        return x * (2 if isinstance(bag, collections.abc.Sized) else 3)

    call(f, vector())
    collections.abc.Sized.register(Bag)
    call(f, vector())


@program
def subclass_hook(call):
    class Shape(abc.ABC):
        @classmethod
        def __subclasshook__(cls, other):
            return hasattr(other, "area")

    class Square:
        pass

    class Round:
        area = 3

    def f(x, item):
        return x * (2 if isinstance(item, Shape) else 3)

    call(f, vector(), Square())
    call(f, vector(), Round())
    call(f, vector(), Square())
