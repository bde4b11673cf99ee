# ruff: noqa
"""Structural pattern matching in all its forms."""

from __future__ import annotations

import collections
import dataclasses
import enum

import torch

from .registry import program


def _value(v):
    match v:
        case 1 | 2:
            return "one or two"
        case -3 | 2.5 | 1 + 2j:
            return "signed, float or complex"
        case "a" | b"b":
            return "text"
        case None | True:
            return "singleton"
        case int(n) if n > 100:
            return "large", n
        case int() | float():
            return "number"
        case str(s):
            return "str", s
    return "nothing"


@program
def match_values(x):
    return [_value(v) for v in (1, 2, -3, 2.5, 1 + 2j, "a", b"b", None, True, 500, 7, 0.1, "zz", b"", [])], x


def _sequence(v):
    match v:
        case []:
            return "empty"
        case [one]:
            return "one", one
        case [1, 2, *rest]:
            return "begins", rest
        case [first, *_, last] if first == last:
            return "same ends", first
        case (a, [b, c]):
            return "nested", a, b, c
        case [_, _, *_]:
            return "two or more"
    return "none"


@program
def match_sequences(x):
    return [
        _sequence(v)
        for v in (
            [],
            (5,),
            [1, 2],
            (1, 2, 3, 4),
            [7, 8, 7],
            (1, [2, x]),
            [5, 6, 8],
            "ab",
            range(1),
            collections.deque([3]),
            {1: 2},
        )
    ]


def _mapping(v):
    match v:
        case {"kind": "a", "value": value}:
            return "a", value
        case {"kind": "b", **rest}:
            return "b", rest
        case {1: _, None: n}:
            return "numbers", n
        case {}:
            return "any mapping"
    return "none"


@program
def match_mappings(x):
    return [
        _mapping(v)
        for v in (
            {"kind": "a", "value": x}, {"kind": "b", "p": 1, "q": x}, {1: 2, None: 3}, {}, {"kind": "a"}, [],
            collections.OrderedDict(kind="b"), collections.defaultdict(int),
        )
    ]  # fmt: skip


@dataclasses.dataclass
class Point:
    x: object
    y: object


class Plain:
    __match_args__ = ("a",)

    def __init__(self, a, b):
        self.a, self.b = a, b


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def _class(v):
    match v:
        case Point(0, 0):
            return "origin"
        case Point(0, y=y) | Point(y, 0):
            return "axis", y
        case Point(x=Point(p, _)):
            return "nested", p
        case Plain(a, b=[first, *_]):
            return "plain", a, first
        case Plain(a=1):
            return "plain one"
        case Colour.RED:
            return "red"
        case Colour():
            return "colour"
        case list([int(n), str(s)]):
            return n, s
        case dict(d):
            return "dict", len(d)
        case torch.Tensor() as t:
            return "tensor", t
    return "none"


@program
def match_classes(x):
    return [
        _class(v)
        for v in (
            Point(0, 0), Point(0, 7), Point(5, 0), Point(Point(3, 1), 2), Plain(x, [1, 2]), Plain(1, 0), Plain(2, 0),
            Colour.RED, Colour.BLUE, [1, "s"], {"k": 1}, Point(1, 1),
        )
    ], x  # fmt: skip


@program
def match_too_many_patterns(x):
    try:
        match Plain(1, 2):
            case Plain(a, b):
                return a, b
    except TypeError as error:
        return str(error), x


@program
def match_bindings_stay(x):
    match [1, [x, 3]]:
        case [a, [b, 4]]:
            pass
        case [c, [d, 3] as e]:
            pass
    return c, d, len(e)


@program
def match_guards_run_in_order(x):
    log = []

    def ask(n):
        log.append(n)
        return n == 3

    match x.shape:
        case [_, _] if ask(1):
            r = 1
        case _ if ask(2):
            r = 2
        case (h, w) if ask(3):
            r = h * w
    return r, log, x


@program
def match_shape_of_tensor(x):
    match x:
        case torch.Tensor(shape=(3, w), dtype=torch.float32):
            return x * w
        case _:
            return x
