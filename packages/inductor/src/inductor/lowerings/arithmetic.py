"""Elementwise arithmetic, comparison, logic and elementary functions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from inductor.host import HOST
from inductor.ir.builder import Builder
from inductor.ir.operations import Expr
from inductor.ir.scalar import Scalar, convert, prim, rounded, settled, truth, where
from inductor.ir.tensor import TensorValue
from inductor.lowerings.registry import elementwise, lowering, pointwise


def _unary(name: str, primitive: str) -> None:
    @pointwise(name)
    def function(self: Scalar) -> Scalar:
        return getattr(prim, primitive)(self)


for _name in [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "lgamma",
    "sigmoid",
    "neg",
    "bitwise_not",
]:
    _unary(_name, _name)


def _rounding(name: str, primitive: str) -> None:
    @pointwise(name)
    def function(self: Scalar) -> Scalar:
        return getattr(prim, primitive)(self) if self.dtype.is_floating_point else self


for _name, _primitive in (
    ("floor", "floor"),
    ("ceil", "ceil"),
    ("trunc", "trunc"),
    ("round", "round"),
    ("fix", "trunc"),
):
    _rounding(_name, _primitive)


@pointwise("abs")
def absolute(self: Scalar) -> Scalar:
    """The size without the sign; bools and uint8 have none."""
    return self if self.dtype in (torch.bool, torch.uint8) else prim.abs(self)


@pointwise("sign", "sgn")
def sign(self: Scalar) -> Scalar:
    """-1, 0 or 1; of a bool itself."""
    return self if self.dtype is torch.bool else prim.sign(self)


@pointwise("square")
def square(self: Scalar) -> Scalar:
    """x x; of bools `and`."""
    return self & self if self.dtype is torch.bool else self * self


@pointwise("positive")
def positive(self: Scalar) -> Scalar:
    """x itself."""
    return self


@pointwise("deg2rad")
def deg2rad(self: Scalar) -> Scalar:
    """Degrees as radians."""
    return self * (math.pi / 180)


@pointwise("rad2deg")
def rad2deg(self: Scalar) -> Scalar:
    """Radians as degrees."""
    return self * (180 / math.pi)


# Sums and products. Of bools they are or and and.


def _scaled(value: Scalar, alpha: Any) -> Scalar:
    if isinstance(alpha, int | float) and alpha == 1:
        return value
    if value.dtype is torch.bool:
        return value & bool(alpha)
    return value * alpha


@pointwise("add.Tensor", "add.Scalar")
def add(self: Scalar, other: Scalar, alpha: Scalar) -> Scalar:
    """self + alpha other; of bools `or`."""
    other = _times(other, alpha)
    return self | other if self.dtype is torch.bool else self + other


@pointwise("sub.Tensor", "sub.Scalar")
def sub(self: Scalar, other: Scalar, alpha: Scalar) -> Scalar:
    """self - alpha other."""
    return self - _times(other, alpha)


@pointwise("rsub.Scalar")
def rsub(self: Scalar, other: Scalar, alpha: Scalar) -> Scalar:
    """other - alpha self."""
    return other - _times(self, alpha)


def _times(value: Scalar, alpha: Scalar) -> Scalar:
    if alpha.is_one:
        return value
    return value & alpha if value.dtype is torch.bool else value * alpha


@pointwise("mul.Tensor", "mul.Scalar", wide=("other",))
def mul(self: Scalar, other: Scalar) -> Scalar:
    """The product; of bools `and`."""
    return self & other if self.dtype is torch.bool else self * other


@pointwise("div.Tensor", "div.Scalar", "true_divide.Tensor", wide=("other",))
def div(self: Scalar, other: Scalar) -> Scalar:
    """The quotient, of integers as floats."""
    return self / other


@pointwise("addcmul")
def addcmul(self: Scalar, tensor1: Scalar, tensor2: Scalar, *, value: Any = 1) -> Scalar:
    """self + value tensor1 tensor2."""
    return self + _scaled(tensor1, value) * tensor2


@pointwise("addcdiv")
def addcdiv(self: Scalar, tensor1: Scalar, tensor2: Scalar, *, value: Any = 1) -> Scalar:
    """self + value tensor1 / tensor2."""
    return self + _scaled(tensor1, value) / tensor2


# Integer division by zero raises in eager on the CPU: integer division stays with ATen unless the divisor is known.


def _divisor_may_be_zero(other: Any, dtype: torch.dtype) -> bool:
    # A number is converted to the dtype without a check, and of 256 there is nothing left in 8 bits.
    return not dtype.is_floating_point and not (isinstance(other, int) and other % (1 << 8 * dtype.itemsize) != 0)


@lowering("div.Tensor_mode", "div.Scalar_mode")
def div_mode(builder: Builder, self: Any, other: Any, *, rounding_mode: str | None) -> Any:
    """The quotient, rounded towards zero or down if asked to. Not where an integer divisor may be 0, for which eager raises."""
    if rounding_mode is not None and _divisor_may_be_zero(other, builder.meta().dtype):
        return NotImplemented
    dtype = builder.meta().dtype
    by_tensor = isinstance(other, TensorValue) and bool(other.size)

    def trunc_div(self: Scalar, other: Scalar) -> Scalar:
        if not dtype.is_floating_point:
            return prim.truncdiv(self, other)
        quotient = settled(self) / settled(other)
        # Eager's quotient of tensors has the result's precision before it is cut, that by a number has not.
        return prim.trunc(rounded(quotient, dtype) if by_tensor else quotient)

    function = {None: div, "floor": _floor_div, "trunc": trunc_div}[rounding_mode]
    return elementwise(builder, function, {"self": self, "other": other}, wide=("other",))


@lowering("floor_divide.Scalar")
def floor_divide(builder: Builder, self: Any, other: Any) -> Any:
    """The quotient rounded down."""
    return div_mode(builder, self, other, rounding_mode="floor")


def _floor_div(self: Scalar, other: Scalar) -> Scalar:
    return prim.floordiv(self, other)


@lowering("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor", "fmod.Tensor", "fmod.Scalar")
def remainder(builder: Builder, self: Any, other: Any) -> Any:
    """What a division leaves, with the divisor's sign or (`fmod`) the dividend's. Not where an integer divisor may be 0."""
    if _divisor_may_be_zero(other, builder.meta().dtype):
        return NotImplemented
    assert builder.node is not None
    primitive = prim.fmod if "fmod" in str(builder.node.target) else prim.remainder
    return elementwise(builder, lambda self, other: primitive(self, other), {"self": self, "other": other})


# Powers


@lowering("pow.Tensor_Scalar")
def pow_scalar(builder: Builder, self: TensorValue, exponent: Any) -> Any:
    """A power, for common exponents by products and roots."""
    short: dict[float, Callable[..., Scalar]] = {
        1: lambda x: x,
        2: lambda x: x * x,
        3: lambda x: x * x * x,
    }
    if builder.meta().dtype.is_floating_point:
        short |= {
            0.5: prim.sqrt,
            -0.5: prim.rsqrt,
            -1: prim.reciprocal,
            -2: lambda x: prim.reciprocal(x * x),
        }
    function = short.get(exponent) if isinstance(exponent, int | float) else None
    if function is not None:
        return elementwise(builder, function, {"self": self})
    return power(builder, self, exponent)


@lowering("pow.Tensor_Tensor", "pow.Scalar")
def power(builder: Builder, self: Any, exponent: Any) -> Any:
    """A power. Not of integers to what may be negative."""
    if not builder.meta().dtype.is_floating_point and not (isinstance(exponent, int) and exponent >= 0):
        # Negative powers of integers have eager's own rules.
        return NotImplemented
    return elementwise(builder, lambda self, exponent: prim.pow(self, exponent), {"self": self, "exponent": exponent})


# Comparison and logic


def _comparison(names: list[str], primitive: str) -> None:
    @pointwise(*names, promote=True)
    def function(self: Scalar, other: Scalar) -> Scalar:
        return getattr(prim, primitive)(self, other)


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _comparison([f"{_name}.Tensor", f"{_name}.Scalar"], _name)


def _logical(name: str, primitive: str) -> None:
    @pointwise(name, own=("self", "other"))
    def function(self: Scalar, other: Scalar) -> Scalar:
        return getattr(prim, primitive)(truth(self), truth(other))


_logical("logical_and", "bitwise_and")
_logical("logical_or", "bitwise_or")
_logical("logical_xor", "bitwise_xor")


@pointwise("logical_not", own=("self",))
def logical_not(self: Scalar) -> Scalar:
    """Whether x is 0."""
    return prim.logical_not(self)


@pointwise("isnan", own=("self",))
def isnan(self: Scalar) -> Scalar:
    """Whether x is NaN, which no integer is."""
    return prim.isnan(self) if self.dtype.is_floating_point else prim.ne(self, self)


@pointwise("isinf", own=("self",))
def isinf(self: Scalar) -> Scalar:
    """Whether x is infinite, which no integer is."""
    return prim.isinf(self) if self.dtype.is_floating_point else prim.ne(self, self)


@pointwise("isfinite", own=("self",))
def isfinite(self: Scalar) -> Scalar:
    """Whether x is neither infinite nor NaN."""
    if not self.dtype.is_floating_point:
        return prim.eq(self, self)
    return prim.lt(prim.abs(self), math.inf)


@pointwise("isposinf", own=("self",))
def isposinf(self: Scalar) -> Scalar:
    """Whether x is infinity."""
    return prim.eq(self, math.inf) if self.dtype.is_floating_point else prim.ne(self, self)


@pointwise("isneginf", own=("self",))
def isneginf(self: Scalar) -> Scalar:
    """Whether x is minus infinity."""
    return prim.eq(self, -math.inf) if self.dtype.is_floating_point else prim.ne(self, self)


@pointwise("signbit", own=("self",))
def signbit(self: Scalar) -> Scalar:
    """Whether x is negative, as -0.0 is too."""
    if self.dtype.is_floating_point:
        return prim.signbit(self)
    return prim.lt(self, 0) if self.dtype not in (torch.bool, torch.uint8) else prim.ne(self, self)


def _bitwise(names: list[str], primitive: str) -> None:
    @pointwise(*names)
    def function(self: Scalar, other: Scalar) -> Scalar:
        return getattr(prim, primitive)(self, other)


for _name in ("and", "or", "xor"):
    _bitwise([f"bitwise_{_name}.{kind}" for kind in ("Tensor", "Scalar", "Scalar_Tensor")], f"bitwise_{_name}")


@lowering(
    "bitwise_left_shift.Tensor",
    "bitwise_left_shift.Tensor_Scalar",
    "bitwise_right_shift.Tensor",
    "bitwise_right_shift.Tensor_Scalar",
    "__lshift__.Tensor",
    "__lshift__.Scalar",
    "__rshift__.Tensor",
    "__rshift__.Scalar",
)
def shift(builder: Builder, self: TensorValue, other: Any) -> Any:
    """Bits moved left or right by a number below the width. Others have eager's own rules."""
    dtype = builder.meta().dtype
    # Shifts by the width or more, or of floats, have eager's own rules.
    if dtype.is_floating_point or not (isinstance(other, int) and 0 <= other < dtype.itemsize * 8):
        return NotImplemented
    assert builder.node is not None
    name = str(builder.node.target)
    primitive = prim.lshift if "left" in name or "lshift" in name else prim.rshift
    return elementwise(builder, lambda self, other: primitive(self, other), {"self": self, "other": other})


# Larger and smaller


def _larger(a: Scalar, b: Scalar) -> Scalar:
    return a | b if a.dtype is torch.bool else prim.maximum(a, b)


def _smaller(a: Scalar, b: Scalar) -> Scalar:
    return a & b if a.dtype is torch.bool else prim.minimum(a, b)


@pointwise("maximum")
def maximum(self: Scalar, other: Scalar) -> Scalar:
    """The larger one; NaN if one is."""
    return _larger(self, other)


@pointwise("minimum")
def minimum(self: Scalar, other: Scalar) -> Scalar:
    """The smaller one; NaN if one is."""
    return _smaller(self, other)


@pointwise("relu")
def relu(self: Scalar) -> Scalar:
    """x where it is positive, else 0."""
    return prim.maximum(self, 0)


@pointwise("relu6")
def relu6(self: Scalar) -> Scalar:
    """x between 0 and 6."""
    return prim.minimum(prim.maximum(self, 0), 6)


@pointwise("fmax")
def fmax(self: Scalar, other: Scalar) -> Scalar:
    """The larger one; the other one if one is NaN."""
    if not self.dtype.is_floating_point:
        return _larger(self, other)
    return where(prim.isnan(self), other, where(prim.isnan(other), self, prim.maximum(self, other)))


@pointwise("fmin")
def fmin(self: Scalar, other: Scalar) -> Scalar:
    """The smaller one; the other one if one is NaN."""
    if not self.dtype.is_floating_point:
        return _smaller(self, other)
    return where(prim.isnan(self), other, where(prim.isnan(other), self, prim.minimum(self, other)))


@lowering("clamp")
def clamp(builder: Builder, self: TensorValue, min: Any = None, max: Any = None) -> Any:
    """x between bounds, either of which may be missing. Not where one alone may be NaN and this torch's kernel ignores that."""
    bounds = [bound for bound in (min, max) if bound is not None]
    if len(bounds) == 1 and _may_be_nan(bounds[0]) and not _spreads_nan_bounds():
        return NotImplemented

    def function(self: Scalar, min: Scalar | None, max: Scalar | None) -> Scalar:
        if min is not None:
            self = _larger(self, min)
        return self if max is None else _smaller(self, max)

    return elementwise(builder, function, {"self": self, "min": min, "max": max})


@pointwise("clamp_min")
def clamp_min(self: Scalar, min: Scalar) -> Scalar:
    """The larger one, and NaN where either is."""
    return _larger(self, min)


@pointwise("clamp_max")
def clamp_max(self: Scalar, max: Scalar) -> Scalar:
    """The smaller one, and NaN where either is."""
    return _smaller(self, max)


def _may_be_nan(number: Any) -> bool:
    return number != number or (isinstance(number, Expr) and not number.is_integer)


@functools.cache
def _spreads_nan_bounds() -> bool:
    """Whether a lower bound that is NaN makes all of a result NaN, as with torch 2.13 and not with 2.11."""
    return bool(torch.clamp(torch.zeros(1, device=HOST), min=math.nan).isnan())


# Of two arguments


@pointwise("atan2")
def atan2(self: Scalar, other: Scalar) -> Scalar:
    """The angle of the point (other, self), in radians."""
    return prim.atan2(self, other)


def hypotenuse(x: Scalar, y: Scalar) -> Scalar:
    """√(x² + y²) of numbers of at most 32 bits, through 64, where no square is too large or too small: infinite if one of them is."""
    wide, other = (convert(value, torch.float64) for value in (x, y))
    found = convert(prim.sqrt(wide * wide + other * other), x.dtype)
    return where(prim.isinf(x) | prim.isinf(y), math.inf, found)


@lowering("hypot")
def hypot(builder: Builder, self: TensorValue, other: TensorValue) -> Any:
    """√(x² + y²). Not of float64, whose squares nothing wider holds, and not of what is no float, as in eager."""
    if builder.meta().dtype is torch.float64 or not builder.meta().dtype.is_floating_point:
        return NotImplemented
    return elementwise(builder, hypotenuse, {"self": self, "other": other})


@pointwise("copysign.Tensor", "copysign.Scalar")
def copysign(self: Scalar, other: Scalar) -> Scalar:
    """The size of the first with the sign of the second."""
    return prim.copysign(self, other)


@pointwise("xlogy.Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self")
def xlogy(self: Scalar, other: Scalar) -> Scalar:
    """self log(other): 0 where self is 0, unless other is NaN."""
    product = where(prim.eq(self, 0), 0, self * prim.log(other))
    return where(prim.isnan(other), other, product)


@pointwise("logaddexp")
def logaddexp(self: Scalar, other: Scalar) -> Scalar:
    """log(eˣ + eʸ) as the larger plus log(1 + exp(-|x - y|))."""
    high = prim.maximum(self, other)
    gap = prim.log1p(prim.exp(-prim.abs(self - other)))
    # Equal infinities differ by NaN.
    return where(prim.bitwise_and(prim.isinf(self), prim.eq(self, other)), self, high + gap)


@pointwise("heaviside")
def heaviside(self: Scalar, values: Scalar) -> Scalar:
    """0 below 0, 1 above, `values` at 0."""
    return where(prim.eq(self, 0), values, convert(prim.gt(self, 0), self.dtype))


# Selection


@pointwise("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar", own=("condition",))
def where_(condition: Scalar, self: Scalar, other: Scalar) -> Scalar:
    """`self` where the condition is true, else `other`."""
    return where(truth(condition), self, other)


@lowering("nan_to_num")
def nan_to_num(
    builder: Builder,
    self: TensorValue,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> TensorValue:
    """x with other numbers for NaN and the infinities: by default 0 and the largest and smallest of the dtype."""
    dtype = builder.meta().dtype

    def function(self: Scalar) -> Scalar:
        if not dtype.is_floating_point:
            return self
        limits = torch.finfo(dtype)
        high = limits.max if posinf is None else posinf
        low = limits.min if neginf is None else neginf
        infinite = where(prim.eq(self, -math.inf), low, where(prim.eq(self, math.inf), high, self))
        return where(prim.isnan(self), 0.0 if nan is None else nan, infinite)

    return elementwise(builder, function, {"self": self})
