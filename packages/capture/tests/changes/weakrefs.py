"""Weak references whose targets change, die or are replaced."""

from __future__ import annotations

import gc
import types
import weakref

from .table import changed, family, vector

program = family("weakrefs")


class Thing:
    def __init__(self, k):
        self.k = k


@program
def target_dies(call):
    space = types.SimpleNamespace(thing=Thing(2))
    ref = weakref.ref(space.thing)

    def f(x):
        thing = ref()
        return x * (9 if thing is None else thing.k)

    call(f, vector())
    space.thing.k = 3
    call(f, vector())
    del space.thing
    gc.collect()
    call(f, vector())


@program
def target_replaced(call):
    one, two = Thing(2), Thing(3)
    space = types.SimpleNamespace(ref=weakref.ref(one))

    def f(x):
        return x * space.ref().k

    call.across([changed(space, "ref", weakref.ref(two)), changed(one, "k", 7)], f, vector())


@program
def reference_argument(call):
    one, two = Thing(2), Thing(3)

    def f(x, ref):
        return x * (ref().k if ref() else 9)

    for thing in (one, two, one):
        call(f, vector(), weakref.ref(thing))
    dead = weakref.ref(Thing(1))
    call(f, vector(), dead)


@program
def proxy(call):
    thing = Thing(2)
    held = weakref.proxy(thing)

    def f(x):
        return x * held.k

    call(f, vector())
    thing.k = 3
    call(f, vector())
    del thing
    call(f, vector())


@program
def value_dictionary(call):
    table, one = weakref.WeakValueDictionary(), Thing(2)
    table["a"] = one

    def f(x):
        return x * (table["a"].k if "a" in table else 9)

    call(f, vector())
    one.k = 5
    call(f, vector())
    del one
    call(f, vector())
    two = Thing(7)
    table["a"] = two
    call(f, vector())


@program
def key_dictionary(call):
    table, one = weakref.WeakKeyDictionary(), Thing(2)
    table[one] = 3

    def f(x):
        return x * (len(table) + 1)

    call(f, vector())
    del one
    call(f, vector())


@program
def weak_set(call):
    items, one = weakref.WeakSet(), Thing(2)
    items.add(one)

    def f(x):
        return x * (len(items) + 1)

    call(f, vector())
    del one
    call(f, vector())


@program
def weak_method(call):
    class Scale(Thing):
        def up(self, x):
            return x * self.k

    scale = Scale(2)
    ref = weakref.WeakMethod(scale.up)

    def f(x):
        method = ref()
        return x if method is None else method(x)

    call(f, vector())
    scale.k = 3
    call(f, vector())
    del scale
    call(f, vector())


@program
def tensor_target(call):
    weight = vector() * 2
    ref = weakref.ref(weight)

    def f(x):
        return x * (5 if ref() is None else ref())

    call(f, vector())
    weight.add_(1)
    call(f, vector())
    del weight
    call(f, vector())


@program
def identity_after_death(call):
    def f(x, thing):
        return x * thing.k

    for k in range(6):
        call(f, vector(), Thing(k % 3))


@program
def global_object_dies(call):
    def f(x):
        return x * HELD.k  # noqa: F821

    for k in (2, 3, 2):
        with changed(globals(), "HELD", Thing(k)):
            call(f, vector())


@program
def created_within(call):
    def f(x):
        thing = Thing(2)
        ref = weakref.ref(thing)
        alive = ref() is thing
        del thing
        return x * (2 if alive else 3) + (5 if ref() is None else 7)

    call(f, vector())
    call(f, vector())


@program
def callback_is_called(call):
    seen = []
    call.state = seen

    def f(x):
        thing = Thing(2)
        ref = weakref.ref(thing, lambda r: seen.append("dead"))
        seen.append(ref() is thing)
        del thing
        seen.append("after")
        return x + 1

    call(f, vector())
    call(f, vector())


@program
def hash_and_equality(call):
    one, two = Thing(2), Thing(2)
    first, second = weakref.ref(one), weakref.ref(two)

    def f(x, a, b):
        return x * (2 if a == b else 3)

    call(f, vector(), first, second)
    call(f, vector(), first, weakref.ref(one))
    del one
    call(f, vector(), first, second)


@program
def container_that_loses_an_element(call):
    class Held:
        pass

    kept, by_name, known = [], weakref.WeakValueDictionary(), weakref.WeakSet()

    def f(x):
        before = len(by_name), len(known)
        kept.clear()
        return x + 1, before, len(by_name), len(known)

    for _ in range(3):
        kept.append(Held())
        by_name["a"] = kept[0]
        known.add(kept[0])
        call(f, vector())


@program
def reference_that_calls(call):
    class Held:
        pass

    kept, seen, listening = [], [], []

    def f(x):
        kept.clear()
        return x + 1, list(seen)

    for _ in range(3):
        kept.append(Held())
        listening[:] = [weakref.ref(kept[0], lambda reference: seen.append("gone"))]
        call(f, vector())
