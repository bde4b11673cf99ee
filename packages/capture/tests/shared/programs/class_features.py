# ruff: noqa
"""What classes have: bases, generics, construction, special methods; functions' attributes, closures, assignments and deletions."""

from __future__ import annotations

import abc
import functools
import types
import typing

import torch


from .registry import program


class Base:
    def __init_subclass__(cls, tag=None, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.tag = tag

    def who(self):
        return "base"

    def __class_getitem__(cls, item):
        return (cls.__name__, item)


class Left(Base, tag="l"):
    def who(self):
        return "left>" + super().who()


class Right(Base, tag="r"):
    def who(self):
        return "right>" + super().who()


class Both(Left, Right):
    def who(self):
        return "both>" + super().who()


@program
def inheritance_diamond(x):
    b = Both()
    return (
        b.who(),
        Both.tag,
        Left.tag,
        [c.__name__ for c in Both.__mro__],
        super(Left, b).who(),
        Base[int],
        isinstance(b, Right),
        x,
    )


class Abstract(abc.ABC):
    @abc.abstractmethod
    def f(self): ...


class Concrete(Abstract):
    def f(self):
        return super().f()


@program
def abstract_classes(x):
    try:
        Abstract()
    except TypeError as error:
        refused = type(error).__name__
    return refused, Concrete().f(), isinstance(Concrete(), Abstract), x


T = typing.TypeVar("T")


class Box(typing.Generic[T]):
    def __init__(self, v):
        self.v = v


@program
def generic_classes(x):
    return _BOX(x).v, Box(1).v, isinstance(Box(2), Box)


_BOX = Box[int]


class Counted:
    count = 0

    def __new__(cls, *args):
        made = super().__new__(cls)
        made.args = args
        return made

    def __init__(self, *args):
        self.init = len(args)


class Elsewhere:
    def __new__(cls):
        return [1, 2]


@program
def construction_by_new(x):
    c = Counted(x, 1)
    return c.args[1], c.init, Elsewhere(), Counted.__new__(Counted, 5).args


class Formatted:
    def __init__(self):
        self.__format__ = lambda spec: "instance"

    def __format__(self, spec):
        return "class"


@program
def specials_are_looked_up_on_classes(x):
    f = Formatted()
    f.__len__ = lambda: 3
    try:
        len(f)
    except TypeError as error:
        return f"{f}", str(error), x


class Parent:
    def __floordiv__(self, other):
        return "C.floordiv"

    def __rfloordiv__(self, other):
        return "C.rfloordiv"


class Kid(Parent):
    pass


class OtherKid(Parent):
    def __rfloordiv__(self, other):
        return "kid.rfloordiv"


@program
def reflected_only_where_overridden(x):
    return Parent() // Kid(), Parent() // OtherKid(), Kid() // Parent(), 1 // Kid(), x


@program
def attributes_of_functions(x):
    def f():
        return f.count

    f.count = 1
    f.__dict__["other"] = x
    f.count += 1
    return f(), f.other, sorted(f.__dict__), hasattr(f, "zz"), f.__name__


@program
def closures_nonlocal_and_cells(x):
    n = 0

    def up(by=1, *, scale=1):
        nonlocal n
        n += by * scale
        return n

    up()
    up(2, scale=3)
    functions = [lambda i=i: i for i in range(3)]
    late = [lambda: i for i in range(3)]
    return n, [f() for f in functions], [f() for f in late], up.__closure__[0].cell_contents, up.__defaults__, x


@program
def walrus_and_stars(x):
    if (n := len(x.shape)) > 1:
        first, *rest = [n, *range(3), *(k for k in "ab")]
    total = [y := 1, y**2, (y := 5)]
    *init, last = "xyz"
    (a, [b, *c]), d = (1, [2, 3, 4]), {**{"k": 1}, "l": x}
    return first, rest, total, y, init, last, a, b, c, d


@program
def deletions(x):
    a, b = [1, 2, 3, 4], {"k": 1, "l": x}
    del a[0], a[1:], b["k"]
    c = 5
    del c
    try:
        c
    except UnboundLocalError as error:
        return a, list(b), type(error).__name__


@program
def classes_that_only_set_or_only_delete_items(x):
    class Sets:
        def __setitem__(self, key, value):
            """One of two methods that share a slot."""

    class Deletes:
        def __delitem__(self, key):
            """The other one."""

    seen = []
    for value in (Sets(), Deletes(), torch.nn.ParameterList([torch.ones(1)])):
        try:
            value[0] = x
        except Exception as error:
            seen.append((type(error).__name__, str(error)))
        try:
            del value[0]
        except Exception as error:
            seen.append((type(error).__name__, str(error)))
    return seen, x + 1


@program
def augmented_assignments(x):
    a = [1, [2]]
    a[1] += [3]
    a[0] **= 3
    d = {"n": 5}
    d["n"] //= 2
    d["n"] <<= 3
    t = (1,)
    t *= 2
    s = "a"
    s += "b"
    y = x
    y = y + 1
    return a, d, t, s, y


@program
def classes_without_instances(x):
    seen = []
    for cls in (type(functools.cmp_to_key(max)), types.GeneratorType, type(iter([])), type({}.keys()), types.FrameType):
        try:
            seen.append(cls())
        except TypeError as error:
            seen.append(str(error))
    return seen, x + 1
