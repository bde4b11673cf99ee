# ruff: noqa
"""Classes that the program has made for it: named tuples, dataclasses, enumerations, what ``abc`` and ``typing`` make, ``type()``; another one each call."""

from __future__ import annotations

import abc
import collections
import dataclasses
import enum
import time
import typing

import torch

from .classes_handed_on import told
from .local_classes import Base
from .registry import program


@program
def abstract_in_frame(x):
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self): ...

        @property
        @abc.abstractmethod
        def name(self): ...

    class Square(Shape):
        def area(self):
            return x * 2

        name = "square"

    return Square().area(), Square().name, isinstance(Square(), Shape), issubclass(Square, Shape)


@program
def abstract_is_not_made_break(x):
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self): ...

    try:
        Shape()
    except TypeError as error:
        return "abstract" in str(error), x + 1


@program
def type_of_three(x):
    made = type("Made", (Base,), {"scale": 3, "double": lambda self, y: y * 2})
    return made().run(x), made().double(x), made.__name__, made.__module__, made.__qualname__


@program
def type_of_three_escapes_break(x):
    made = type("Made", (Base,), {"scale": 3, "kept": x})
    time.perf_counter_ns()
    return told(made), made().run(x), made.kept


@program
def named_tuple_in_frame(x):
    Pair = collections.namedtuple("Pair", "a b", defaults=(3,))
    p = Pair(x)
    a, b = p
    q = p._replace(b=4)
    return (
        p.a + p.b,
        a is x,
        b,
        q.b,
        p._fields,
        Pair._make([1, 2]).b,
        p._asdict()["b"],
        Pair.__name__,
        isinstance(p, tuple),
    )


@program
def named_tuple_escapes_break(x):
    Pair = collections.namedtuple("Pair", "a b")
    p = Pair(x, x + 1)
    time.perf_counter_ns()
    return p.a, p.b, type(p) is Pair, Pair.__module__, repr(Pair(1, 2)), told(Pair)[0]


@program
def typed_named_tuple_in_frame(x):
    class Point(typing.NamedTuple):
        a: torch.Tensor
        b: int = 2

        def total(self):
            return self.a + self.b

    p = Point(x)
    return p.total(), p.b, Point._fields, Point._field_defaults["b"], p == (x, 2) if False else None


@program
def typed_named_tuple_escapes_break(x):
    class Point(typing.NamedTuple):
        """A point."""

        a: torch.Tensor
        b: int = 2

        def total(self):
            return self.a + self.b

    p = Point(x)
    time.perf_counter_ns()
    return p.total(), type(p) is Point, Point.__doc__, Point.__annotations__, Point.__bases__


@program
def dataclass_in_frame(x):
    @dataclasses.dataclass
    class Config:
        a: torch.Tensor
        b: int = 3
        c: list = dataclasses.field(default_factory=list)
        d: int = dataclasses.field(default=5, repr=False)

        def total(self):
            return self.a * self.b

    c, other = Config(x), Config(x, 4)
    c.c.append(1)
    return c.total(), other.total(), c.c, other.c, c.d, Config.b, Config.d, hasattr(Config, "c")


@program
def dataclass_with_options(x):
    @dataclasses.dataclass(frozen=True, order=True)
    class Config:
        a: int
        b: int = 3

    @dataclasses.dataclass(eq=False)
    class Derived(Config if False else object):
        c: int = 2

        def __post_init__(self):
            self.d = self.c * 2

    try:
        Config(1).a = 3
    except dataclasses.FrozenInstanceError as error:
        return (
            str(error),
            Config(1) < Config(2),
            Config(1) == Config(1),
            hash(Config(1)) == hash(Config(1)),
            Derived(3).d,
            x,
        )


@program
def dataclass_escapes_break(x):
    @dataclasses.dataclass
    class Config:
        a: torch.Tensor
        b: int = 3

    c = Config(x)
    time.perf_counter_ns()
    return (
        c.a,
        c.b,
        type(c) is Config,
        [f.name for f in dataclasses.fields(c)],
        repr(Config(1)),
        Config.__doc__,
        told(Config)[0],
    )


@program
def enumeration_in_frame(x):
    class Color(enum.Enum):
        RED = 1
        GREEN = 2
        ALIAS = 1

        def describe(self):
            return self.name.lower()

    class Size(enum.IntEnum):
        SMALL = enum.auto()
        LARGE = enum.auto()

    return (
        x + Color.GREEN.value, Color.RED is Color.ALIAS, Color(2).name, Color["RED"].value, Color.RED.describe(), len(Color),
        [c.name for c in Color], Size.LARGE + 1, isinstance(Color.RED, Color), Color.RED == Color.GREEN, {Color.RED: 3}[Color.RED],
    )  # fmt: skip


@program
def enumeration_escapes_break(x):
    class Color(enum.Enum):
        """Colors."""

        RED = 1
        GREEN = "g"

        def describe(self):
            return self.name.lower(), __class__.__name__

    red = Color.RED
    time.perf_counter_ns()
    return red is Color.RED, red.describe(), Color("g").name, Color.__doc__, list(Color.__members__)


@program
def flag_in_frame(x):
    class Permission(enum.Flag):
        READ = enum.auto()
        WRITE = enum.auto()

    both = Permission.READ | Permission.WRITE
    return Permission.READ in both, both.value, bool(Permission.READ & Permission.WRITE), x


@program
def generic_in_frame_break(x):
    T = typing.TypeVar("T")

    class Box(typing.Generic[T]):
        def __init__(self, item):
            self.item = item

    return Box(x).item + 1, Box[int](x).item, Box.__parameters__ == (T,)


@program
def protocol_in_frame_break(x):
    @typing.runtime_checkable
    class Runs(typing.Protocol):
        def run(self, x): ...

    return isinstance(Base(), Runs), isinstance(3, Runs), x + 1


@program
def typed_dict_in_frame(x):
    class Movie(typing.TypedDict):
        name: str
        year: int

    return Movie(name="a", year=3)["year"], x


@program
def named_tuple_with_methods(x):
    class Point(collections.namedtuple("Point", "a b")):
        __slots__ = ()

        def total(self):
            return self.a + self.b

    return Point(1, x).total(), Point._fields


@program
def dataclasses_of_dataclasses(x):
    @dataclasses.dataclass
    class A:
        a: int

    @dataclasses.dataclass
    class B(A):
        b: int = 2

    one = B(1)
    return one.b, repr(one), one == B(1), dataclasses.replace(one, b=5).b, dataclasses.asdict(one), x


@program
def integer_flags_escape_break(x):
    class F(enum.IntFlag):
        A = 1
        B = 2

    both = F.A | F.B
    one = F.A
    time.perf_counter_ns()
    return both.value, one is F.A, repr(both), x


@program
def members_bound_twice_break(x):
    try:

        class Colour(enum.Enum):
            red = 1
            green = 2
            red = 3

    except TypeError as error:
        return str(error), x + 1
