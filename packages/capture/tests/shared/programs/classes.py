# ruff: noqa
"""Classes, instances, data classes, named tuples and enumerations."""

from __future__ import annotations

import collections
import dataclasses
import enum
from typing import Any, NamedTuple

from .registry import program


class Plain:
    scale = 3

    def __init__(self, v):
        self.v = v
        self.log = []

    @property
    def double(self):
        return self.v * 2

    @double.setter
    def double(self, value):
        self.v = value / 2

    @classmethod
    def make(cls, v):
        return cls(v + 1)

    @staticmethod
    def helper(v):
        return v - 1

    def __add__(self, other):
        return Plain(self.v + (other.v if isinstance(other, Plain) else other))

    __radd__ = __add__

    def __call__(self, y):
        self.log.append(len(self.log))
        return self.v * y * self.scale

    def __len__(self):
        return 4

    def __getitem__(self, i):
        if i >= 2:
            raise IndexError(i)
        return self.v + i

    def __eq__(self, other):
        return isinstance(other, Plain)

    def __hash__(self):
        return 1

    def __repr__(self):
        return "Plain!"


class Child(Plain):
    def __init__(self, v):
        super().__init__(v)
        self.extra = v + 1

    def __call__(self, y):
        return super().__call__(y) + self.extra

    def __getattr__(self, name):
        if name.startswith("dyn_"):
            return self.v + len(name)
        raise AttributeError(name)


@program
def objects(x):
    p = Plain(x)
    p.double = x * 4
    q = Plain.make(x) + p + 1
    c = Child(x)
    c.new = 5
    return (
        p.double, q.v, p(2), p.log, c(x), c.dyn_a, hasattr(c, "nope"), len(p), p[1], bool(p), p == q, Plain.helper(x),
        c.new, f"{p}", str(p), isinstance(c, Plain), type(c) is Child, 1 + p == p,
    )  # fmt: skip


@program
def returned_object(x):
    p = Child(x)
    p.self = p
    return p.v, p.extra, p.self is p


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


@program
def slots(x):
    s = Slotted(x)
    s.a = s.a + 1
    return s.a, hasattr(s, "b")


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = 2
    tags: list = dataclasses.field(default_factory=list)

    def norm(self):
        return self.x * self.x + self.y


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int
    b: Any = None


@program
def dataclass(x):
    p = Point(x)
    p.tags.append("t")
    q = dataclasses.replace(p, y=5)
    return p.norm(), q.y, p.tags, [f.name for f in dataclasses.fields(p)], Frozen(1).a, Frozen(1, x).b


class Pair(NamedTuple):
    first: Any
    second: int = 7

    def both(self):
        return self.first + self.second


Triple = collections.namedtuple("Triple", "a b c")


@program
def namedtuples(x):
    p = Pair(x)
    t = Triple(1, x, c=3)
    a, b, c = t
    return p, p.both(), p.second, t, t._replace(a=5).a, b + c, t._asdict()["a"], p[0], Pair._fields


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    def other(self):
        return Color.BLUE if self is Color.RED else Color.RED


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Name(str, enum.Enum):
    A = "a"


@program
def enums(x):
    c = Color.RED
    return (
        x * c.value,
        c.name,
        c.other() is Color.BLUE,
        Color(2) is Color.BLUE,
        Color["RED"] == c,
        [k.name for k in Color],
        x + Level.HIGH,
        Level.LOW < 2,
        Name.A == "a",
        {Color.RED: 1}[c],
    )
