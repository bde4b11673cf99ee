"""The primitives of the loop IR: all that is true of one, on whatever device, is its row here.

Flows in: nothing. Flows out: `PRIMITIVES` and `REDUCTIONS`, which the recorder, the interpreter, lowerings and the scheduler
read. How a device writes a primitive is a row of its printer's own table.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

import torch
from torch import Tensor

from inductor.philox import random_bits
from symshapes import dataclass


class ResultType(enum.Enum):
    """How an operation's result dtype follows from its operands, which share one dtype."""

    SAME = "same"
    BOOL = "bool"


BOOL = ResultType.BOOL


@dataclass(frozen=True)
class Primitive:
    """One elementwise primitive of `arity` values, all of one dtype: lowerings insert `to_dtype`."""

    name: str
    doc: str
    arity: int
    function: Callable[..., Tensor]
    """What the interpreter runs on tensors."""
    result: ResultType = ResultType.SAME
    discrete: bool = False
    """Whether a small change of an operand can make the result jump: then an operand of bfloat16 or float16 that was kept
    in float32 is rounded first, so that the answer is the one that eager finds in memory."""
    keeps_rounding: bool = False
    """Whether rounding the result is the same as rounding the operands."""
    expensive: bool = False
    """Whether it takes many instructions: then rather kept in memory than computed again."""

    def result_dtype(self, operands: torch.dtype) -> torch.dtype:
        """The result's dtype for operands of this one."""
        return torch.bool if self.result is ResultType.BOOL else operands


def _floor_divide(a: Tensor, b: Tensor) -> Tensor:
    return torch.div(a, b, rounding_mode="floor")


def _truncating_divide(a: Tensor, b: Tensor) -> Tensor:
    return torch.div(a, b, rounding_mode="trunc")


PRIMITIVES: dict[str, Primitive] = {
    row.name: row
    for row in (
        Primitive("neg", "-x", 1, torch.neg, keeps_rounding=True),
        Primitive("abs", "|x|", 1, torch.abs, keeps_rounding=True),
        Primitive("exp", "e**x", 1, torch.exp, expensive=True),
        Primitive("exp2", "2**x", 1, torch.exp2, expensive=True),
        Primitive("expm1", "e**x - 1", 1, torch.expm1, expensive=True),
        Primitive("log", "natural logarithm", 1, torch.log, expensive=True),
        Primitive("log1p", "log(1 + x)", 1, torch.log1p, expensive=True),
        Primitive("log2", "logarithm to base 2", 1, torch.log2, expensive=True),
        Primitive("log10", "logarithm to base 10", 1, torch.log10, expensive=True),
        Primitive("sqrt", "square root", 1, torch.sqrt),
        Primitive("rsqrt", "1 / sqrt(x)", 1, torch.rsqrt),
        Primitive("reciprocal", "1 / x", 1, torch.reciprocal),
        Primitive("sin", "sine", 1, torch.sin, expensive=True),
        Primitive("cos", "cosine", 1, torch.cos, expensive=True),
        Primitive("tan", "tangent", 1, torch.tan, expensive=True),
        Primitive("asin", "inverse sine", 1, torch.asin, expensive=True),
        Primitive("acos", "inverse cosine", 1, torch.acos, expensive=True),
        Primitive("atan", "inverse tangent", 1, torch.atan, expensive=True),
        Primitive("sinh", "hyperbolic sine", 1, torch.sinh, expensive=True),
        Primitive("cosh", "hyperbolic cosine", 1, torch.cosh, expensive=True),
        Primitive("tanh", "hyperbolic tangent", 1, torch.tanh, expensive=True),
        Primitive("asinh", "inverse hyperbolic sine", 1, torch.asinh, expensive=True),
        Primitive("acosh", "inverse hyperbolic cosine", 1, torch.acosh, expensive=True),
        Primitive("atanh", "inverse hyperbolic tangent", 1, torch.atanh, expensive=True),
        Primitive("erf", "error function", 1, torch.erf, expensive=True),
        Primitive("erfc", "1 - erf(x)", 1, torch.erfc, expensive=True),
        Primitive("lgamma", "log of |gamma(x)|", 1, torch.lgamma, expensive=True),
        Primitive("sigmoid", "1 / (1 + e**-x)", 1, torch.sigmoid, expensive=True),
        Primitive("bitwise_not", "~x; for bool the negation", 1, torch.bitwise_not),
        Primitive("floor", "largest integer not above x", 1, torch.floor, discrete=True),
        Primitive("ceil", "smallest integer not below x", 1, torch.ceil, discrete=True),
        Primitive("trunc", "integer part, toward zero", 1, torch.trunc, discrete=True),
        Primitive("round", "nearest integer, ties to even", 1, torch.round, discrete=True),
        Primitive("sign", "-1, 0 or 1; 0 for NaN, as in torch", 1, torch.sign, discrete=True),
        Primitive("isnan", "x is not a number", 1, torch.isnan, BOOL, discrete=True),
        Primitive("isinf", "x is plus or minus infinity", 1, torch.isinf, BOOL, discrete=True),
        Primitive("signbit", "the sign bit is set", 1, torch.signbit, BOOL, discrete=True),
        Primitive("logical_not", "x == 0", 1, torch.logical_not, BOOL, discrete=True),
        Primitive(
            "tf32",
            "x, of which a product of matrices may read no more than the leading 10 bits behind the point",
            1,
            torch.clone,
            keeps_rounding=True,
        ),
        Primitive("add", "x + y", 2, torch.add),
        Primitive("sub", "x - y", 2, torch.sub),
        Primitive("mul", "x * y", 2, torch.mul),
        Primitive("truediv", "x / y of floats", 2, torch.true_divide),
        Primitive("pow", "x ** y", 2, torch.pow, expensive=True),
        Primitive("maximum", "the larger; NaN if either is NaN", 2, torch.maximum, keeps_rounding=True),
        Primitive("minimum", "the smaller; NaN if either is NaN", 2, torch.minimum, keeps_rounding=True),
        Primitive("atan2", "angle of the point (y, x): atan2(x_operand, y_operand)", 2, torch.atan2, expensive=True),
        Primitive("copysign", "|x| with the sign of y", 2, torch.copysign),
        Primitive("bitwise_and", "x & y", 2, torch.bitwise_and),
        Primitive("bitwise_or", "x | y", 2, torch.bitwise_or),
        Primitive("bitwise_xor", "x ^ y", 2, torch.bitwise_xor),
        Primitive("lshift", "x << y", 2, torch.bitwise_left_shift),
        Primitive("rshift", "x >> y, arithmetic", 2, torch.bitwise_right_shift),
        Primitive(
            "floordiv",
            "x // y rounding toward minus infinity, floats as Python's (integers: division by zero is undefined)",
            2,
            _floor_divide,
            discrete=True,
        ),
        Primitive("truncdiv", "x / y rounding toward zero, integers", 2, _truncating_divide, discrete=True),
        Primitive(
            "fmod", "remainder with the sign of x (C's fmod and %)", 2, torch.fmod, discrete=True, expensive=True
        ),
        Primitive(
            "remainder", "remainder with the sign of y (Python's %)", 2, torch.remainder, discrete=True, expensive=True
        ),
        Primitive("eq", "x == y", 2, torch.eq, BOOL, discrete=True),
        Primitive("ne", "x != y", 2, torch.ne, BOOL, discrete=True),
        Primitive("lt", "x < y", 2, torch.lt, BOOL, discrete=True),
        Primitive("le", "x <= y", 2, torch.le, BOOL, discrete=True),
        Primitive("gt", "x > y", 2, torch.gt, BOOL, discrete=True),
        Primitive("ge", "x >= y", 2, torch.ge, BOOL, discrete=True),
        Primitive("logical_and", "x != 0 and y != 0", 2, torch.logical_and, BOOL, discrete=True),
        Primitive("logical_or", "x != 0 or y != 0", 2, torch.logical_or, BOOL, discrete=True),
        Primitive(
            "short_log",
            "natural logarithm of 0 < x <= 1 in float32, at most 0, to 2**-20: of what is random anyway",
            1,
            torch.log,
        ),
        Primitive("short_cos", "cosine of |x| < 6 in float32, to 2**-18: of what is random anyway", 1, torch.cos),
        Primitive("random_bits", "64 random bits for seed x at position y, both int64", 2, random_bits, expensive=True),
    )
}
"""Every elementwise primitive by name."""


@dataclass(frozen=True)
class Reduction:
    """One kind of reduction, for `ops.reduce(kind, value)`."""

    name: str
    doc: str
    function: Callable[[Tensor, torch.dtype], Tensor]
    """What the interpreter runs: over the last dimension, with a result of the dtype given."""
    result: torch.dtype | None = None
    """The result's dtype; None: the operand's."""
    discrete: bool = False
    """As for a primitive; also where the result is one of the values: whoever asks which one finds it only if both are
    rounded alike."""

    @property
    def of_truth(self) -> bool:
        """Whether it combines which values are not zero, instead of the values."""
        return self.result is torch.bool

    @property
    def finds_position(self) -> bool:
        """Whether the result is a position in the flattened inner space, whose order then has to stay."""
        return self.result is torch.int64


REDUCTIONS: dict[str, Reduction] = {
    row.name: row
    for row in (
        Reduction("sum", "sum of the values, in the dtype given", lambda x, dtype: x.sum(-1, dtype=dtype)),
        Reduction("prod", "product of the values", lambda x, dtype: x.prod(-1, dtype=dtype)),
        Reduction("max", "largest value; NaN if any is NaN", lambda x, _: x.amax(-1), discrete=True),
        Reduction("min", "smallest value; NaN if any is NaN", lambda x, _: x.amin(-1), discrete=True),
        Reduction(
            "argmax",
            "position in the flattened reduction space of the first largest value (a NaN counts as largest)",
            lambda x, _: _comparable(x).argmax(-1),
            torch.int64,
            discrete=True,
        ),
        Reduction(
            "argmin",
            "position in the flattened reduction space of the first smallest value (a NaN counts as smallest)",
            lambda x, _: _comparable(x).argmin(-1),
            torch.int64,
            discrete=True,
        ),
        Reduction("any", "some value is nonzero", lambda x, _: (x != 0).any(-1), torch.bool, discrete=True),
        Reduction("all", "no value is zero", lambda x, _: (x != 0).all(-1), torch.bool, discrete=True),
    )
}
"""Reduction kinds by name."""


@dataclass(frozen=True)
class Prefix:
    """One kind of running result, for `ops.scan(kind, value)`: of an operation that may be grouped in any way."""

    name: str
    doc: str
    function: Callable[[Tensor], Tensor]
    """What the interpreter runs: along the last dimension."""


SCANS: dict[str, Prefix] = {
    row.name: row
    for row in (
        Prefix("sum", "sum of the values so far", lambda x: x.cumsum(-1, dtype=x.dtype)),
        Prefix("prod", "product of the values so far", lambda x: x.cumprod(-1, dtype=x.dtype)),
        Prefix("max", "largest value so far; NaN if any was NaN", lambda x: x.cummax(-1).values),
        Prefix("min", "smallest value so far; NaN if any was NaN", lambda x: x.cummin(-1).values),
        Prefix("logaddexp", "log of the sum of the exponentials so far", lambda x: x.logcumsumexp(-1)),
    )
}
"""Kinds of running results by name."""


def _comparable(values: Tensor) -> Tensor:
    return values.to(torch.uint8) if values.dtype is torch.bool else values
