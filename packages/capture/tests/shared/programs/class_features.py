# ruff: noqa
"""What classes have: metaclasses, descriptors, properties, slots, subclasses of built-ins, class and static methods."""

from __future__ import annotations

import abc
import functools
import importlib
import operator
import sys
import types
import typing

import torch

from .registry import program


class Meta(type):
    def __call__(cls, *args, **kwargs):
        made = super().__call__(*args, **kwargs)
        made.called = True
        return made

    def __getitem__(cls, key):
        return (cls.__name__, key)

    def __len__(cls):
        return 7

    def __contains__(cls, value):
        return value == 3

    def __iter__(cls):
        return iter("abc")

    @property
    def shout(cls):
        return cls.__name__.upper()

    def helper(cls):
        return cls, 1


class Made(metaclass=Meta):
    def __init__(self, v):
        self.v = v


@program
def metaclass_calls(x):
    m = Made(x)
    return m.called, m.v, Made["k"], len(Made), 3 in Made, list(Made), Made.shout, Made.helper()[1], type(Made) is Meta


class Singleton(type):
    made: dict = {}

    def __call__(cls, *args):
        return ("made by", cls.__name__, args)


class Single(metaclass=Singleton):
    pass


@program
def metaclass_replaces_call(x):
    return Single(1, 2), x


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


class Reads(type):
    scale = 5

    def __getattribute__(cls, name):
        if name == "magic":
            return 7
        if name == "gone":
            raise AttributeError("gone, so")
        return super().__getattribute__(name)

    def __getattr__(cls, name):
        if name.startswith("x"):
            return len(name)
        raise AttributeError(name)


class Read(metaclass=Reads):
    k = 3

    def __init__(self):
        self.z = 2

    def f(self):
        return self.k

    @classmethod
    def c(cls):
        return cls.magic + cls.k

    @staticmethod
    def s(a):
        return a * 2


class ReadToo(Read):
    k = 4

    @classmethod
    def c(cls):
        return super().c() + 1


class ReadsByType(type):
    def __getattribute__(cls, name):
        return type.__getattribute__(cls, name)


class ReadByType(metaclass=ReadsByType):
    v = 2

    def g(self, x):
        return x * type(self).v


@program
def metaclass_reads_attributes(x):
    return (
        x + Read.magic,
        Read.k,
        ReadToo.k,
        ReadToo.c(),
        Read.s(x),
        Read.scale,
        Read().f() + ReadToo().f(),
        Read.f(ReadToo()),
    )


@program
def metaclass_has_none_of_an_attribute(x):
    try:
        Read.gone
    except AttributeError as error:
        told = str(error)
    return x, told, Read.xyz, getattr(Read, "nope", 9), hasattr(Read, "nope"), hasattr(Read, "k"), Read.__name__


@program
def metaclass_reads_by_type(x):
    by = ReadByType
    return x + by.v, by().g(x), by.__name__, by.__class__ is ReadsByType, by.__mro__[0] is by, isinstance(by(), by)


@program
def metaclass_reads_of_a_class_made_here(x):
    class Made(metaclass=Reads):
        k = 1

        def f(self):
            return 5

    return Made.magic + Made.k + Made().f() + x, Made.xq


class _Plain:
    pass


class _ReadsByType(type):
    def __getattribute__(cls, name):
        return super().__getattribute__(name)


class _ReadByType(metaclass=_ReadsByType):
    pass


@program
def attributes_by_what_is_no_name(x):
    asks = (
        lambda: type.__getattribute__(list, type),
        lambda: super(_ReadsByType, _ReadByType).__getattribute__(3),
        lambda: object.__getattribute__(_Plain(), 3),
        lambda: object.__setattr__(_Plain(), 3, 4),
        lambda: object.__delattr__(_Plain(), 3),
        lambda: _Plain().__getattribute__(None),
        lambda: operator.attrgetter(3),
        lambda: operator.attrgetter("real", 3),
        lambda: operator.methodcaller(3, 4),
        lambda: __import__([]),
    )
    told = []
    for ask in asks:
        try:
            told.append(ask())
        except Exception as error:
            told.append((type(error), error.args))
    return x + 1, told


@program
def module_attributes_by_what_is_no_name_break(x):
    try:
        return torch.nn.Module().__setattr__(3, 4)
    except TypeError as error:
        return x + 1, error.args
