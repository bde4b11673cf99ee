"""Run anew for each drawn example, before its own text: what values are made of, and ``use``, by which any value matters."""

import builtins
import collections
import copy
import dataclasses
import enum
import functools
import gc
import inspect
import itertools
import math
import operator
import sys
import types
import weakref

import torch
import torch.nn.functional as F
from torch import nn

import capture

__all__ = [
    "builtins",
    "copy",
    "gc",
    "inspect",
    "itertools",
    "math",
    "operator",
    "sys",
    "weakref",
]  # drawn text uses them
LOG = []


@capture.disable
def outside(value):
    """A call that is never captured: a graph break wherever it stands."""
    LOG.append(type(value).__name__)
    return value


def use(x, v, depth=3):
    """A tensor in which any value leaves its trace."""
    if isinstance(v, torch.Tensor):
        return x + v
    if isinstance(v, (bool, int, float)):
        return x * v + 1
    if v is None:
        return x - 1
    if isinstance(v, str):
        return x + len(v)
    if depth == 0:
        return x - 2
    if isinstance(v, dict):
        for key, item in v.items():
            x = use(x, item, depth - 1) * 0.5 + len(str(key))
        return x
    if isinstance(v, (list, tuple, set, frozenset, range, collections.deque)):
        for item in v:
            x = use(x, item, depth - 1) * 0.5
        return x + len(v)
    if isinstance(v, type):
        return x + len(v.__name__)
    if callable(v):
        return v(x)
    return use(x * 3, getattr(v, "v", 7), depth - 1)


def remade(like, value):
    """``value`` as one of the class of another: not of tensors, whose class gives memory as it lies."""
    return value if isinstance(like, torch.Tensor) else type(like)(value)


def double(x):
    return x * 2


def tripled(x, k=3, *, plus=0):
    return x * k + plus


def adder(n):
    def add(x):
        return x + n

    return add


@functools.wraps(F.relu)
def disguised(x):
    return x * 11


class Box:
    """A mutable object with one field."""

    def __init__(self, v=2):
        self.v = v

    def get(self):
        return self.v

    def apply(self, x):
        return use(x, self.v)


KEPT = vars(Box).copy()  # what is captured keeps the functions that it knows, also those replaced since


class Other(Box):
    """Takes a box's place."""

    w = 5

    def get(self):
        return self.w

    def apply(self, x):
        return x - 4


class Op:
    def __init__(self, k):
        self.k = k

    def __call__(self, x):
        return x * self.k

    def method(self, x):
        return x + self.k


class Color(enum.Enum):
    RED = 1
    GREEN = 2.5


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 4


@dataclasses.dataclass
class Point:
    v: object = 1
    w: object = 2


@dataclasses.dataclass(frozen=True)
class Frozen:
    v: object = 1


Pair = collections.namedtuple("Pair", ["v", "w"])


class Slotted:
    __slots__ = ("v", "w")

    def __init__(self, v):
        self.v = v


class Scale(nn.Module):
    def __init__(self, k=2.0):
        super().__init__()
        self.k = k
        self.weight = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
        self.register_buffer("shift", torch.tensor(0.5))

    def forward(self, x):
        return use(x * self.weight, self.k) + self.shift


class Shift(Scale):
    def forward(self, x):
        return x - self.weight


space = types.SimpleNamespace


class Cells:
    """A function's closure as an object: its cells' contents are attributes."""

    def __init__(self, fn):
        object.__setattr__(self, "of", dict(zip(fn.__code__.co_freevars, fn.__closure__)))

    def __getattr__(self, name):
        try:
            return object.__getattribute__(self, "of")[name].cell_contents
        except (KeyError, ValueError) as error:
            raise AttributeError(name) from error

    def __setattr__(self, name, value):
        object.__getattribute__(self, "of")[name].cell_contents = value

    def __delattr__(self, name):
        del object.__getattribute__(self, "of")[name].cell_contents


class Callable:
    """What is called through ``forward``, and is no module."""

    def __call__(self, *args):
        return self.forward(*args)
