# ruff: noqa
"""Subclasses of built-in classes."""

from __future__ import annotations

import collections
import functools
import types


from .registry import program


class MyInt(int):
    def __add__(self, other):
        return MyInt(int(self) + int(other) + 100)

    def double(self):
        return self * 2


class MyStr(str):
    def shout(self):
        return self.upper() + "!"

    def __eq__(self, other):
        return "eq"

    __hash__ = str.__hash__


class MyTuple(tuple):
    def first(self):
        return self[0]


class MyList(list):
    def append(self, v):
        super().append(v)
        super().append(v)


class MyDict(dict):
    def __setitem__(self, k, v):
        super().__setitem__(k, ("set", v))


class MyFloat(float):
    pass


@program
def subclass_of_int(x):
    n = MyInt(5)
    return (
        n + 1,
        type(n + 1).__name__,
        n.double(),
        n * 2,
        n == 5,
        x[: int(MyInt(2))],
        isinstance(n, int),
        -n,
        hash(n) == hash(5),
        n < 6,
        3 + int(n),
    )


@program
def subclass_of_str(x):
    s = MyStr("ab")
    return (
        s.shout(),
        s + "c",
        len(s),
        s == "zz",
        s.upper(),
        "a" in s,
        {s: 1}[MyStr("ab")] if False else 1,
        s[0],
        isinstance(s, str),
        f"{s}",
        x,
    )


@program
def subclass_of_tuple(x):
    t = MyTuple([x, 1])
    return t.first(), t[1], len(t), t + (2,), type(t[:1]).__name__, [*t][1], isinstance(t, tuple)


@program
def subclass_of_list(x):
    a = MyList()
    a.append(x)
    a.extend([1])
    return len(a), a[0], list(a)[2], a == [x, x, 1] if False else 1, isinstance(a, list), type(a[:1]).__name__


@program
def subclass_of_dict(x):
    d = MyDict(a=1)
    d["b"] = x
    d.update(c=2)
    return d["a"], d["b"], d["c"], len(d), isinstance(d, dict), dict(d)["a"]


@program
def subclass_of_float(x):
    f = MyFloat(1.5)
    return f + 1, x * float(f), type(f).__name__, f > 1, round(f), int(f)


class _Mapping(dict):
    pass


class _MadeInPython:
    def __new__(cls, *args):
        return object.__new__(cls)


class _PythonFirst(_MadeInPython, dict):
    pass


@program
def new_of_another_layout(x):
    def tried(make, *args):
        try:
            return type(make(*args)).__name__
        except TypeError as error:
            return str(error)

    class Own(dict):
        pass

    made = [tried(int.__new__, cls) for cls in (bool, str, 3, int)]
    made += [tried(base.__new__, cls) for base in (object, dict) for cls in (_Mapping, _PythonFirst, Own)]
    return made, tried(object.__new__, _MadeInPython), x + 1


@program
def class_methods_in_c_of_a_class_that_the_frame_makes_break(x):
    foo = "bar"

    class Hexed(bytes):
        def __new__(cls, value):
            made = bytes.__new__(cls, value)
            made.foo = foo
            return made

    class Counts(dict):
        def __setitem__(self, key, value):
            super().__setitem__(key, (value, foo))

    made = Hexed.fromhex("1a2b")
    return bytes(made), made.foo, dict(Counts.fromkeys("ab", 1)), x + 1


class Remembering(property):
    """Keeps what it is made of beside."""

    def __init__(self, get, note):
        property.__init__(self, get)
        self.note = note


@program
def subclass_of_property(x):
    def get(owner):
        """What it gets."""
        return x + 1

    made = Remembering(get, x * 2)
    return isinstance(made, property), made.note, made.__doc__, type(made).__name__


def made_property(x):
    def get(owner):
        return x + 1

    return Remembering(get, 3)


@program
def subclass_of_property_handed_out(x):
    made = made_property(x)
    return made.fget(None) if isinstance(made, dict) else x, [made][0].note


@program
def subclass_of_property_within_a_class(x):
    class Owner:
        scale = 2

        def _set(self, value):
            self.scale = value

        @functools.partial(Remembering, note=3)
        def read(self):
            """What it reads."""
            return self.scale + 1

        written = Remembering(lambda self: self.scale * 3, "a note")

    owner = Owner()
    owner.scale = 5
    return x * owner.read, owner.written, Owner.read.note, Owner.read.__doc__, type(Owner.written).__name__


class DoubledProperty(property):
    def __get__(self, owner, cls=None):
        return 7 if owner is None else super().__get__(owner, cls) * 2

    def __set__(self, owner, value):
        super().__set__(owner, value * 10)


class OtherMethod(staticmethod):
    def __get__(self, owner, cls=None):
        return lambda x: x * 50


class OtherClassMethod(classmethod):
    def __get__(self, owner, cls=None):
        return lambda x: x * 60


class OtherCache(functools.cached_property):
    def __get__(self, owner, cls=None):
        return 70


class ReadsOtherwise:
    value = 1

    @DoubledProperty
    def doubled(self):
        return self.value

    @doubled.setter
    def doubled(self, value):
        self.value = value

    @OtherMethod
    def static(x):
        return x

    @OtherClassMethod
    def of_class(cls, x):
        return x

    @OtherCache
    def cached(self):
        return 1


@program
def subclasses_of_descriptors_read_otherwise_break(x):
    made = ReadsOtherwise()
    made.doubled = 3
    return x * made.doubled, ReadsOtherwise.doubled, made.static(x), made.of_class(x), made.cached, made.value


@program
def subclasses_of_descriptors_in_a_class_break(x):
    class Owner:
        @DoubledProperty
        def doubled(self):
            return x

    return Owner().doubled, Owner.doubled


class AsksForTheClass:
    def __eq__(self, other):
        return type(other).__name__

    __hash__ = None


@program
def read_only_views_compared_with_objects(x):
    def compared(made, other):
        view = types.MappingProxyType(made)
        return (
            view == made,
            made == view,
            view != made,
            view == other,
            other == view,
            view == AsksForTheClass(),
            AsksForTheClass() == view,
        )

    return (
        x + 1,
        compared(MyDict(a=1), MyDict(a=2)),
        compared({"a": 1}, MyDict(a=1)),
    )


VIEW = types.MappingProxyType(collections.OrderedDict(a=1))


@program
def read_only_views_from_outside_compared_with_objects_break(x):
    return x + 1, VIEW == AsksForTheClass(), AsksForTheClass() == VIEW, VIEW == MyDict(a=1)


class NamedOtherwise(functools.cached_property):
    def __set_name__(self, owner, name):
        super().__set_name__(owner, f"_{name}")


class Keeping:
    def __init__(self):
        self.asked = 0

    def __setattr__(self, name, value):
        self.__dict__.setdefault("set", []).append(name)
        object.__setattr__(self, name, value)

    @functools.cached_property
    def cached(self):
        self.asked += 1
        return self.asked

    @NamedOtherwise
    def renamed(self):
        self.asked += 1
        return self.asked


class Unnamed:
    pass


Unnamed.cached = functools.cached_property(lambda self: 1)


@program
def what_a_cached_property_keeps_is_not_set_as_an_attribute(x):
    made = Keeping()
    return x + made.cached, made.cached, made.renamed, made.renamed, dict(vars(made))


@program
def a_cached_property_without_a_name_breaks(x):
    try:
        return x + Unnamed().cached
    except TypeError as error:
        return x, str(error)
