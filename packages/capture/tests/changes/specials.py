"""Special methods that a class gets, loses or changes after it was used."""

from __future__ import annotations

import types

import torch

from .table import changed, family, removed, vector

program = family("specials")


def late(call, f, **methods):
    """``f(x, thing)`` across each special method being given to the class of ``thing``; then with two of a kind in turn."""

    class Base:
        k = 2

    class Thing(Base):
        pass

    thing = Thing()
    for name, method in methods.items():
        call.across([changed(Thing, name, method), changed(Base, name, method)], f, vector(), thing)
        if isinstance(method, types.FunctionType):
            held = types.SimpleNamespace(thing=thing)
            call.across(changed(Thing, name, method), lambda x, held=held: f(x, held.thing), vector())


@program
def truth(call):
    late(call, lambda x, t: x * (2 if t else 3), __bool__=lambda self: False, __len__=lambda self: 0)


@program
def length(call):
    late(call, lambda x, t: x * len(t), __len__=lambda self: 4)


@program
def equality(call):
    late(call, lambda x, t: x * (2 if t == 5 else 3), __eq__=lambda self, other: True)


@program
def equality_in_list(call):
    late(call, lambda x, t: x * [4, t, 5].index(5), __eq__=lambda self, other: True)


@program
def inequality(call):
    late(call, lambda x, t: x * (2 if t != 5 else 3), __ne__=lambda self, other: False, __eq__=lambda self, other: True)


@program
def ordering(call):
    late(call, lambda x, t: x * (2 if t < 5 else 3), __lt__=lambda self, other: True)


@program
def hashing(call):
    late(call, lambda x, t: x * (hash(t) if type(t).__hash__ is not object.__hash__ else 3), __hash__=lambda self: 7)


@program
def hashing_in_dict(call):
    class Key:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            return self.n == other.n

        def __hash__(self):
            return 1

    table, key = {Key(1): 2.0, Key(2): 3.0}, Key(1)

    def f(x):
        return x * table[key]

    call.across([changed(key, "n", 2), changed(Key, "__eq__", lambda a, b: b.n == 2)], f, vector())


@program
def addition(call):
    late(call, lambda x, t: x * (t + 2), __add__=lambda self, other: other + 5)


@program
def reflected_addition(call):
    late(call, lambda x, t: x * (2 + t), __radd__=lambda self, other: other + 5)


@program
def in_place_addition(call):
    def f(x, t):
        t += 2
        return x * t

    late(call, f, __add__=lambda self, other: 5, __iadd__=lambda self, other: 7)


@program
def reflected_with_tensor(call):
    late(call, lambda x, t: x * t, __rmul__=lambda self, other: other + 5)


@program
def negation_and_absolute(call):
    late(call, lambda x, t: x * (-t) * abs(t), __neg__=lambda self: 3, __abs__=lambda self: 5)


@program
def missing_attribute(call):
    late(call, lambda x, t: x * t.absent, __getattr__=lambda self, name: 4)


@program
def missing_attribute_with_default(call):
    late(call, lambda x, t: x * getattr(t, "absent", 3), __getattr__=lambda self, name: 4)


@program
def every_attribute(call):
    late(call, lambda x, t: x * t.k, __getattribute__=lambda self, name: 4)


@program
def setting_attributes(call):
    seen = []
    call.state = seen

    def f(x, t):
        t.written = 3
        return x * 2

    late(call, f, __setattr__=lambda self, name, value: seen.append(name))


@program
def deleting_attributes(call):
    seen = []
    call.state = seen

    def f(x, t):
        t.__dict__["d"] = 1
        del t.d
        return x * 2

    late(call, f, __delattr__=lambda self, name: seen.append(name))


@program
def iteration(call):
    late(call, lambda x, t: x * sum(t), __iter__=lambda self: iter([1, 2]), __getitem__=lambda self, i: [1, 2, 3][i])


@program
def iteration_next(call):
    class Steps:
        def __init__(self):
            self.n = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.n += 1
            if self.n > 3:
                raise StopIteration
            return self.n

    def other(self):
        raise StopIteration

    def f(x):
        return x * sum(Steps())

    call.across(changed(Steps, "__next__", other), f, vector())


@program
def containment(call):
    late(
        call,
        lambda x, t: x * (2 if 5 in t else 3),
        __contains__=lambda self, item: True,
        __iter__=lambda self: iter([5]),
    )


@program
def indexing(call):
    late(call, lambda x, t: x * t[3], __getitem__=lambda self, i: i + 1)


@program
def item_assignment(call):
    def f(x, t):
        t[3] = 4
        return x * t.k

    def setitem(self, key, value):
        self.k = key + value

    late(call, f, __setitem__=setitem)


@program
def class_item(call):
    class Thing:
        pass

    def f(x):
        return x * Thing[3]

    call.across(changed(Thing, "__class_getitem__", classmethod(lambda cls, i: i + 1)), f, vector())


@program
def missing_key(call):
    class Table(dict):
        pass

    table = Table(a=2)

    def f(x):
        return x * table["b"]

    call.across(
        [changed(Table, "__missing__", lambda self, key: 7), changed(Table, "__getitem__", lambda self, key: 8)],
        f,
        vector(),
    )


@program
def calling(call):
    late(call, lambda x, t: t(x), __call__=lambda self, x: x * 6)


@program
def entering(call):
    def f(x, t):
        with t as k:
            return x * k

    class Guarded:
        def __enter__(self):
            return 2

        def __exit__(self, *exc):
            return False

    guarded = Guarded()
    call.across(
        [changed(Guarded, "__enter__", lambda self: 3), removed(Guarded, "__enter__"), removed(Guarded, "__exit__")],
        f,
        vector(),
        guarded,
    )


@program
def leaving(call):
    class Guarded:
        def __enter__(self):
            return 2

        def __exit__(self, *exc):
            return False

    guarded = Guarded()

    def f(x):
        with guarded:
            raise ValueError("inside")
        return x * 2

    call.across(changed(Guarded, "__exit__", lambda self, *exc: True), f, vector())


@program
def formatting(call):
    late(call, lambda x, t: x * len(f"{t:a}"), __format__=lambda self, spec: spec * 5)


@program
def text(call):
    late(
        call,
        lambda x, t: x * len(str(t)) if "object at" not in str(t) else x,
        __str__=lambda self: "four",
        __repr__=lambda self: "fives",
    )


@program
def representation_printed(call):
    class Thing:
        def __repr__(self):
            return "one"

    thing = Thing()

    def f(x):
        print(thing, [thing])
        return x + 1

    call.across(
        [changed(Thing, "__repr__", lambda self: "two"), changed(Thing, "__str__", lambda self: "three")], f, vector()
    )


@program
def index_of_range(call):
    late(call, lambda x, t: x * len(range(t)), __index__=lambda self: 4)


@program
def index_of_tensor(call):
    late(call, lambda x, t: x[t] + 1, __index__=lambda self: 1)


@program
def conversion(call):
    late(
        call,
        lambda x, t: x * int(t) * float(t),
        __int__=lambda self: 3,
        __float__=lambda self: 2.5,
        __index__=lambda self: 4,
    )


@program
def torch_function(call):
    late(
        call,
        lambda x, t: torch.add(x, t),
        __torch_function__=classmethod(lambda cls, func, types, args=(), kwargs=None: args[0] * 9),
    )


@program
def descriptor_get_added(call):
    class Descriptor:
        k = 2

    class Thing:
        d = Descriptor()

    thing = Thing()
    call.across(
        changed(Descriptor, "__get__", lambda self, i, o: types.SimpleNamespace(k=5)), lambda x: x * thing.d.k, vector()
    )


@program
def descriptor_set_added(call):
    seen = []

    class Descriptor:
        pass

    class Thing:
        d = Descriptor()

    thing = Thing()
    call.state = seen, thing

    def f(x):
        thing.d = 3
        return x * 2

    call.across(changed(Descriptor, "__set__", lambda self, i, v: seen.append(v)), f, vector())


@program
def instance_does_not_carry_special_methods(call):
    class Thing:
        def __len__(self):
            return 2

    thing = Thing()
    call.across(changed(thing, "__len__", lambda: 50), lambda x: x * len(thing), vector())


@program
def set_name_and_subclass_init(call):
    seen = []
    call.state = seen

    class Base:
        pass

    def f(x):
        class Leaf(Base):
            k = 2

        return x * Leaf.k

    hook = classmethod(lambda cls, **kwargs: seen.append(cls.__name__))
    call.across(changed(Base, "__init_subclass__", hook), f, vector())


@program
def reversed_and_rounded(call):
    late(
        call,
        lambda x, t: x * (next(iter(list(reversed(t)))) if hasattr(t, "__reversed__") else 3) * round(t),
        __round__=lambda self: 3,
        __reversed__=lambda self: iter([5]),
    )


@program
def dir_and_vars(call):
    late(call, lambda x, t: x * (2 if "zz" in dir(t) else 3) + len(vars(t)), __dir__=lambda self: ["zz"])


@program
def matrix_product(call):
    late(call, lambda x, t: x * (t @ 2), __matmul__=lambda self, other: other + 5)


@program
def bool_of_subclassed_list(call):
    class Items(list):
        pass

    items = Items([1])

    def f(x):
        return x * (2 if items else 3) * len(items)

    call.across(
        [changed(Items, "__bool__", lambda self: False), changed(Items, "__len__", lambda self: 7)], f, vector()
    )


@program
def iteration_of_subclassed_dict(call):
    class Table(dict):
        pass

    table = Table(a=1, b=2)

    def f(x):
        return x * sum(table[key] for key in table) + sum(table.values())

    call.across(
        [changed(Table, "__iter__", lambda self: iter(["b"])), changed(Table, "values", lambda self: [9])], f, vector()
    )
