"""Value ranges: what an expression can at most and at least be, given what its symbols can be.

Flows in: sympy expressions and a `ValueRange` per symbol. Flows out: a `ValueRange`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from math import ceil, floor, inf, isinf, sqrt, trunc
from typing import Any

import sympy
from sympy import Expr, Symbol

from symshapes.expr.floats import FloatFunction
from symshapes.expr.functions import FloorDiv, Mod
from symshapes.records import dataclass

Number = int | float


@dataclass(frozen=True, slots=True)
class ValueRange:
    """All numbers from `lower` to `upper`, both inclusive; an end is an int, or -inf / inf where there is none.

    Of a float expression the ends may be floats, and a range without ends means that it may be NaN as well.
    """

    lower: Number
    upper: Number

    def __post_init__(self) -> None:
        if self.lower > self.upper:
            raise ValueError(f"empty range: {self.lower} to {self.upper}")

    def __contains__(self, value: Number) -> bool:
        return self.lower <= value <= self.upper

    @property
    def is_constant(self) -> bool:
        """Whether exactly one value is left."""
        return self.lower == self.upper

    def intersect(self, other: ValueRange) -> ValueRange:
        """What is in both. Raises ValueError if nothing is."""
        return ValueRange(max(self.lower, other.lower), min(self.upper, other.upper))

    def union(self, other: ValueRange) -> ValueRange:
        """The smallest range that holds both."""
        return ValueRange(min(self.lower, other.lower), max(self.upper, other.upper))

    def __str__(self) -> str:
        return f"[{self.lower}, {self.upper}]"


UNKNOWN = ValueRange(-inf, inf)
NON_NEGATIVE = ValueRange(0, inf)
POSITIVE = ValueRange(1, inf)


def _add(a: Number, b: Number) -> Number:
    # A Python int may be too large for the float that int + inf would make of it.
    if isinstance(a, float):
        return a
    return b if isinstance(b, float) else a + b


def _mul(a: Number, b: Number) -> Number:
    if a == 0 or b == 0:
        return 0
    if isinstance(a, float) or isinstance(b, float):
        return inf if (a > 0) == (b > 0) else -inf
    return a * b


def _quotient(a: Number, b: Number) -> Number:
    if isinstance(b, float):
        return _quotient_by_infinity(a, b)
    if isinstance(a, float):
        return a if b > 0 else -a
    return a // b


def _quotient_by_infinity(a: Number, b: float) -> Number:
    if isinstance(a, float):
        # Both ends unbounded: every quotient occurs on the way, the largest in magnitude against the other end.
        return 0 if (a > 0) == (b > 0) else -1
    return 0 if a == 0 or (a > 0) == (b > 0) else -1


def _corners(function: Callable[[Number, Number], Number], a: ValueRange, b: ValueRange) -> ValueRange:
    values = [function(x, y) for x in (a.lower, a.upper) for y in (b.lower, b.upper)]
    return ValueRange(min(values), max(values))


def _signs(divisor: ValueRange) -> Iterable[ValueRange]:
    """The divisor's negative and positive parts; zero is left out, being an error of the program."""
    if divisor.lower < 0:
        yield ValueRange(divisor.lower, min(divisor.upper, -1))
    if divisor.upper > 0:
        yield ValueRange(max(divisor.lower, 1), divisor.upper)


def _union(parts: list[ValueRange]) -> ValueRange:
    if not parts:
        return UNKNOWN
    result = parts[0]
    for part in parts[1:]:
        result = result.union(part)
    return result


def add(a: ValueRange, b: ValueRange) -> ValueRange:
    """The range of a sum."""
    return ValueRange(_add(a.lower, b.lower), _add(a.upper, b.upper))


def mul(a: ValueRange, b: ValueRange) -> ValueRange:
    """The range of a product."""
    return _corners(_mul, a, b)


def floor_div(a: ValueRange, b: ValueRange) -> ValueRange:
    """The range of a quotient rounded down; the parts of `b` on either side of 0 are looked at one by one."""
    return _union([_corners(_quotient, a, part) for part in _signs(b)])


def mod(a: ValueRange, b: ValueRange) -> ValueRange:
    """The range of a remainder, which has the sign of the divisor as in Python."""
    parts = []
    for part in _signs(b):
        if part.lower > 0:
            if a.lower >= 0 and a.upper < part.lower:
                parts.append(a)
            else:
                top = _add(part.upper, -1)
                parts.append(ValueRange(0, min(top, a.upper) if a.lower >= 0 else top))
        elif a.upper <= 0 and a.lower > part.upper:
            parts.append(a)
        else:
            bottom = _add(part.lower, 1)
            parts.append(ValueRange(max(bottom, a.lower) if a.upper <= 0 else bottom, 0))
    return _union(parts)


def power(base: ValueRange, exponent: int) -> ValueRange:
    """A range to a constant power of at least one."""
    if exponent % 2 == 0 and base.lower < 0:
        largest = max(-base.lower, base.upper)
        smallest = 0 if base.upper >= 0 else -base.upper
        base = ValueRange(smallest, largest)
    return ValueRange(_power(base.lower, exponent), _power(base.upper, exponent))


def _power(base: Number, exponent: int) -> Number:
    if isinstance(base, float):
        return inf if base > 0 or exponent % 2 == 0 else -inf
    return base**exponent


def _fold(function: Callable[[ValueRange, ValueRange], ValueRange]) -> Callable[..., ValueRange]:
    def folded(*parts: ValueRange) -> ValueRange:
        result = parts[0]
        for part in parts[1:]:
            result = function(result, part)
        return result

    return folded


def _monotone(function: Callable[..., Any]) -> Callable[..., ValueRange]:
    """The rule of a float function that is monotone in each argument: rounding keeps the order, so corners are exact."""

    def rule(*parts: ValueRange) -> ValueRange:
        if UNKNOWN in parts:
            return UNKNOWN
        try:
            values = [function(*corner) for corner in product(*[(part.lower, part.upper) for part in parts])]
        except (OverflowError, ValueError, ZeroDivisionError):  # an end where Python has no value
            return UNKNOWN
        if any(value != value for value in values):
            return UNKNOWN
        return ValueRange(min(values), max(values))

    return rule


def _quotient_of_floats(a: ValueRange, b: ValueRange) -> ValueRange:
    return UNKNOWN if b.lower <= 0 <= b.upper else _monotone(operator.truediv)(a, b)


def _keeping_infinity(function: Callable[[float], int]) -> Callable[..., ValueRange]:
    return _monotone(lambda x: x if isinf(x) else function(x))


def _about(function: Callable[..., float]) -> Callable[..., ValueRange]:
    """The rule of a function that would be monotone if it were exact: C's library is some units in the last place off."""
    rule = _monotone(function)

    def wider(*parts: ValueRange) -> ValueRange:
        found = rule(*parts)
        lower, upper = (
            end if isinf(end) else end + sign * math.ulp(end) for end, sign in ((found.lower, -8), (found.upper, 8))
        )
        return ValueRange(lower, upper)

    return wider


def _power_of_floats(a: ValueRange, b: ValueRange) -> ValueRange:
    return _about(math.pow)(a, b) if a.lower > 0 else UNKNOWN


def _wave(a: ValueRange) -> ValueRange:
    return UNKNOWN if isinf(a.lower) or isinf(a.upper) else ValueRange(-1.0, 1.0)


def _bits_of_both(a: ValueRange, b: ValueRange) -> ValueRange:
    ends = [int(part.upper) for part in (a, b) if part.lower >= 0 and part.upper != inf]
    return ValueRange(0, min(ends)) if ends else UNKNOWN


def _power_of_ints(a: ValueRange, b: ValueRange) -> ValueRange:
    if a.lower < 1 or b.lower < 0:
        return UNKNOWN
    # An end with more bits than a size has is as good as none.
    return ValueRange(a.lower ** min(b.lower, 64), a.upper**b.upper if a.upper <= 64 and b.upper <= 64 else inf)


def _largest(a: ValueRange) -> ValueRange:
    return ValueRange(0, max(abs(a.lower), abs(a.upper)))


_ASCENDING = (
    "cbrt", "exp", "exp2", "expm1", "log1p", "log2", "log10", "asin", "atan", "sinh", "tanh", "asinh", "acosh", "atanh", "erf",
    "degrees", "radians",
)  # fmt: skip
_FLOAT_RULES: dict[str, Callable[..., ValueRange]] = {
    "ToFloat": _monotone(float),
    "FloatAdd": _monotone(operator.add),
    "FloatSub": _monotone(operator.sub),
    "FloatMul": _monotone(operator.mul),
    "FloatDiv": _quotient_of_floats,
    "IntTrueDiv": _quotient_of_floats,
    "FloatNeg": _monotone(operator.neg),
    "FloatMax": _monotone(max),
    "FloatMin": _monotone(min),
    "Sqrt": _monotone(sqrt),
    "FloatFloor": _keeping_infinity(floor),
    "FloatCeil": _keeping_infinity(ceil),
    "FloatTrunc": _keeping_infinity(trunc),
    "FloatRound": _keeping_infinity(round),
    "FloatPow": _power_of_floats,
    "Sin": _wave,
    "Cos": _wave,
    "Copysign": lambda a, b: UNKNOWN if UNKNOWN in (a, b) else _largest(a).union(_monotone(operator.neg)(_largest(a))),
    **{name.capitalize(): _about(getattr(math, name)) for name in _ASCENDING},
    "Log": lambda a, *base: UNKNOWN if base else _about(math.log)(a),
    "IntPow": _power_of_ints,
    "BitAnd": _bits_of_both,
    "BitLength": lambda a: ValueRange(
        0, _largest(a).upper if isinf(_largest(a).upper) else int(_largest(a).upper).bit_length()
    ),
    "Isqrt": lambda a: ValueRange(
        math.isqrt(int(max(a.lower, 0))), a.upper if isinf(a.upper) else math.isqrt(int(a.upper))
    ),
    "Gcd": lambda *parts: NON_NEGATIVE,
    "Lcm": lambda *parts: NON_NEGATIVE,
    **dict.fromkeys(("IsReal", "FloatIsInteger", "Isnan", "Isinf", "Isfinite"), lambda *parts: ValueRange(0, 1)),
}
_RULES: dict[Any, Callable[..., ValueRange]] = {
    sympy.Add: _fold(add),
    sympy.Mul: _fold(mul),
    FloorDiv: floor_div,
    Mod: mod,
    sympy.Max: _fold(lambda a, b: ValueRange(max(a.lower, b.lower), max(a.upper, b.upper))),
    sympy.Min: _fold(lambda a, b: ValueRange(min(a.lower, b.lower), min(a.upper, b.upper))),
    sympy.Abs: lambda a: ValueRange(
        0 if a.lower <= 0 <= a.upper else min(abs(a.lower), abs(a.upper)), max(abs(a.lower), abs(a.upper))
    ),
}


def _by_assumption(expr: Expr) -> ValueRange:
    if expr.is_positive and expr.is_integer:
        return POSITIVE
    return NON_NEGATIVE if expr.is_nonnegative else UNKNOWN


def bound(expr: Any, ranges: Mapping[Symbol, ValueRange]) -> ValueRange:
    """A range that holds every value of an expression.

    Args:
        expr: integer or float expression (or int).
        ranges: what the symbols can be; one that is missing goes by its sympy assumptions (positive, nonnegative).
    """
    if isinstance(expr, int):
        return ValueRange(int(expr), int(expr))
    if expr.is_Integer:
        number = int(expr)
        return ValueRange(number, number)
    if expr.is_Number:
        value = float(expr)
        return UNKNOWN if value != value else ValueRange(value, value)
    if expr.is_Symbol:
        found = ranges.get(expr)
        return found if found is not None else _by_assumption(expr)
    if expr.is_Pow:
        base, exponent = expr.args
        if exponent.is_Integer and int(exponent) > 0:
            return power(bound(base, ranges), int(exponent))
        return _by_assumption(expr)
    rule = _FLOAT_RULES.get(expr.func.__name__) if isinstance(expr, FloatFunction) else _RULES.get(expr.func)
    if rule is None:
        return UNKNOWN
    return rule(*[bound(arg, ranges) for arg in expr.args])
