"""Plain values that a program reads: numbers, strings, containers as constants, enums, named tuples, types of numbers."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import re
import types
import uuid

import numpy as np
import torch

from .table import changed, family, vector

program = family("values")


def read(value_name="value"):
    """A holder and a function that scales by a number that depends on what it holds."""
    holder = types.SimpleNamespace(value=None)

    def f(x, weigh):
        return x * weigh(holder.value)

    return holder, f


def through(call, first, *others, weigh=lambda v: 2.0 if v else 3.0):
    holder, f = read()
    holder.value = first
    call.across([changed(holder, "value", other) for other in others], f, vector(), weigh)


@program
def integer(call):
    through(call, 2, 3, 4, weigh=lambda v: v)


@program
def integer_becomes_bool(call):
    through(call, 1, True, weigh=lambda v: 5 if v is True else 7)


@program
def integer_becomes_float(call):
    through(call, 1, 1.0, weigh=lambda v: 5 if type(v) is float else 7)


@program
def float_signed_zero(call):
    through(call, 0.0, -0.0, weigh=lambda v: v)


@program
def float_nan(call):
    through(call, float("nan"), 1.0, float("inf"), weigh=lambda v: v)


@program
def float_nan_is_not_itself(call):
    through(call, 1.0, float("nan"), weigh=lambda v: 2 if v == v else 3)


@program
def complex_signed_zero(call):
    through(call, complex(0, 0.0), complex(0, -0.0), complex(-0.0, 0.0), weigh=lambda v: 1 + v)


@program
def big_integer(call):
    through(call, 2**70, 2**70 + 1, weigh=lambda v: v % 7)


@program
def integer_beyond_small_cache_is_compared_by_value(call):
    through(call, int("1000"), int("1000"), 1001, weigh=lambda v: v)


@program
def string(call):
    through(call, "ab", "abc", "ab" + "", weigh=len)


@program
def bytes_and_string(call):
    through(call, "a", b"a", weigh=lambda v: 2 if isinstance(v, str) else 3)


@program
def none_and_false(call):
    through(call, None, False, 0, "", weigh=lambda v: 2 if v is None else 3 if v is False else 4)


@program
def ellipsis_and_not_implemented(call):
    through(call, ..., None, weigh=lambda v: 2 if v is ... else 3)


@program
def tuple_nested(call):
    through(call, (1, (2, 3)), (1, (2, 4)), weigh=lambda v: v[1][1])


@program
def tuple_of_equal_numbers_of_other_types(call):
    through(
        call, (1, 1), (1, 1.0), (True, 1), weigh=lambda v: 2 if type(v[0]) is bool else 3 if type(v[1]) is int else 4
    )


@program
def range_value(call):
    through(call, range(3), range(4), range(0, 3, 2), weigh=lambda v: len(v) + v[-1])


@program
def slice_value(call):
    def f(x, s):
        return x[s.value] + 1

    holder = types.SimpleNamespace(value=slice(0, 2))
    call.across(
        [changed(holder, "value", slice(1, 3)), changed(holder, "value", slice(None, None, 2))], f, vector(), holder
    )


@program
def frozenset_value(call):
    through(call, frozenset({1, 2}), frozenset({1, 3}), weigh=lambda v: 2 if 2 in v else 3)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Flags(enum.Flag):
    A = 1
    B = 2


@program
def enum_member(call):
    through(call, Colour.RED, Colour.BLUE, weigh=lambda v: v.value + (10 if v is Colour.BLUE else 0))


@program
def int_enum_and_int(call):
    through(call, Level.LOW, 1, Level.HIGH, weigh=lambda v: v + (5 if isinstance(v, Level) else 0))


@program
def flags(call):
    through(call, Flags.A, Flags.A | Flags.B, weigh=lambda v: 2 if Flags.B in v else 3)


@program
def enum_value_changed(call):
    class Mode(enum.Enum):
        ON = 2

    def f(x):
        return x * Mode.ON._value_

    call.across(changed(Mode.ON, "_value_", 5), f, vector())


Point = collections.namedtuple("Point", "x y")


@program
def named_tuple(call):
    through(call, Point(1, 2), Point(1, 3), (1, 4), weigh=lambda v: v[1] + (v.x if hasattr(v, "x") else 0))


@dataclasses.dataclass
class Settings:
    scale: float = 2.0
    sub: object = None


@program
def dataclass_field(call):
    settings = Settings(2.0, Settings(3.0))

    def f(x):
        return x * settings.scale * settings.sub.scale

    call.across([changed(settings, "scale", 4.0), changed(settings.sub, "scale", 5.0)], f, vector())


@dataclasses.dataclass(frozen=True)
class Frozen:
    scale: float


@program
def frozen_dataclass(call):
    through(call, Frozen(2.0), Frozen(3.0), weigh=lambda v: v.scale)


@program
def frozen_dataclass_forced(call):
    settings = Frozen(2.0)

    def f(x):
        return x * settings.scale

    call(f, vector())
    object.__setattr__(settings, "scale", 3.0)
    call(f, vector())


class Centimetres(int):
    pass


@program
def int_subclass(call):
    through(call, Centimetres(3), 3, weigh=lambda v: 2 * v if type(v) is Centimetres else v)


@program
def int_subclass_attribute(call):
    length = Centimetres(3)
    length.factor = 2

    def f(x):
        return x * length * length.factor

    call.across(changed(length, "factor", 5), f, vector())


@program
def str_subclass(call):
    class Text(str):
        pass

    through(call, "a", Text("a"), weigh=lambda v: 2 if type(v) is str else 3)


@program
def float_subclass_with_attribute(call):
    class Marked(float):
        pass

    value = Marked(2.0)
    value.mark = 1

    def f(x):
        return x * (value + value.mark)

    call.across(changed(value, "mark", 3), f, vector())


@program
def fraction(call):
    through(call, fractions.Fraction(1, 2), fractions.Fraction(3, 4), weigh=lambda v: float(v))


@program
def decimal_number(call):
    through(call, decimal.Decimal("1.5"), decimal.Decimal("1.50"), decimal.Decimal("2"), weigh=lambda v: len(str(v)))


@program
def date(call):
    through(call, datetime.date(2020, 1, 2), datetime.date(2021, 1, 2), weigh=lambda v: v.year - 2000)


@program
def path(call):
    through(call, pathlib.PurePosixPath("/a/b"), pathlib.PurePosixPath("/a"), weigh=lambda v: len(v.parts))


@program
def unique_id(call):
    through(call, uuid.UUID(int=1), uuid.UUID(int=2), weigh=lambda v: v.int)


@program
def pattern(call):
    through(call, re.compile("a+"), re.compile("b+"), weigh=lambda v: 2 if v.match("aa") else 3)


@program
def numpy_scalar(call):
    through(call, np.float32(2), np.float64(2), np.int64(3), weigh=lambda v: float(v) + v.dtype.itemsize)


@program
def numpy_array_content(call):
    array = np.array([1.0, 2.0, 3.0], dtype=np.float32)

    def f(x):
        return x * torch.from_numpy(array)

    call(f, vector())
    array[0] = 7.0
    call(f, vector())
    array[0] = 1.0
    call(f, vector())


@program
def numpy_array_replaced(call):
    through(call, np.zeros(2), np.zeros(3), np.zeros(3, dtype=np.int32), weigh=lambda v: v.size * v.dtype.itemsize)


@program
def dtype(call):
    def f(x, holder):
        return x.to(holder.value)

    holder = types.SimpleNamespace(value=torch.float64)
    call.across([changed(holder, "value", torch.int32), changed(holder, "value", torch.float16)], f, vector(), holder)


@program
def device(call):
    def f(x, holder):
        return x.to(holder.value) + (2 if holder.value.type == "cpu" else 3)

    holder = types.SimpleNamespace(value=torch.device("cpu"))
    call.across(changed(holder, "value", torch.device("meta")), lambda x, h: f(x, h).shape, vector(), holder)


@program
def size(call):
    through(
        call, torch.Size([1, 2]), torch.Size([1, 3]), (1, 3), weigh=lambda v: v.numel() if hasattr(v, "numel") else 9
    )


@program
def memory_format(call):
    def f(x, holder):
        return x.clone(memory_format=holder.value)

    holder = types.SimpleNamespace(value=torch.contiguous_format)
    x = torch.arange(16.0).reshape(1, 4, 2, 2)
    call.across(changed(holder, "value", torch.channels_last), f, x, holder)


@program
def class_as_value(call):
    through(call, int, float, Colour, weigh=lambda v: 2 if v is int else 3 if issubclass(v, float) else 4)


@program
def module_as_value(call):
    import cmath
    import math

    through(call, math, cmath, weigh=lambda v: abs(v.sqrt(4)) + (1 if hasattr(v, "phase") else 0))
