"""Descriptors, and properties that remember."""

from __future__ import annotations

import functools
import types

from .table import changed, family, removed, vector

program = family("classes")


@program
def descriptor_class_changed(call):
    class Descriptor:
        def __get__(self, instance, owner):
            return 2

    class Thing:
        d = Descriptor()

    thing = Thing()
    call.across(changed(Descriptor, "__get__", lambda self, i, o: 3), lambda x: x * thing.d, vector())


@program
def descriptor_becomes_data_descriptor(call):
    class Descriptor:
        def __get__(self, instance, owner):
            return 2

    class Thing:
        d = Descriptor()

    thing = Thing()
    thing.__dict__["d"] = 5
    call.across(changed(Descriptor, "__set__", lambda self, i, v: None), lambda x: x * thing.d, vector())


@program
def descriptor_stops_being_one(call):
    class Descriptor:
        k = 7

        def __get__(self, instance, owner):
            return types.SimpleNamespace(k=2)

    class Thing:
        d = Descriptor()

    thing = Thing()
    call.across(removed(Descriptor, "__get__"), lambda x: x * thing.d.k, vector())


@program
def cached_property(call):
    seen = []

    class Thing:
        k = 2

        @functools.cached_property
        def p(self):
            seen.append(self.k)
            return self.k * 2

    thing = Thing()
    call.state = seen

    def f(x):
        return x * thing.p

    call(f, vector())
    call(f, vector())
    del thing.p
    thing.k = 3
    call(f, vector())
    thing.p = 9
    call(f, vector())
