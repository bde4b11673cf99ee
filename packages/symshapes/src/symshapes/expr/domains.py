"""Where Python's functions of numbers have a value: elsewhere they raise, or give a complex number.

Flows in: an application and the ranges of its symbols. Flows out: the condition under which it has a value, if it is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import sympy
from sympy import Expr, S, Symbol

from symshapes.expr.floats import FLOAT_FUNCTIONS, FloatFunction, constant, is_int
from symshapes.expr.ranges import UNKNOWN, ValueRange, bound

_MACHINE = ValueRange(-(2**63), 2**63 - 1)
"""What sizes, and ints that come from outside, can be."""

_TOTAL = frozenset(
    {
        "FloatAdd", "FloatSub", "FloatMul", "FloatNeg", "FloatAbs", "FloatMax", "FloatMin", "FloatSum", "Fabs", "Copysign", "Atan2", "Hypot",
        "IsReal", "FloatIsInteger", "Isnan", "Isinf", "Isfinite", "Gcd", "Lcm", "BitAnd", "BitOr", "BitXor", "BitLength", "BitCount",
        "IntRoundTo",
    }
)  # fmt: skip
_DIVISIONS = frozenset({"FloatDiv", "FloatMod", "FloatFloorDiv", "IntTrueDiv"})
_NOT_NEGATIVE = {"IntPow": 1, "LShift": 1, "RShift": 1, "Isqrt": 0}
"""By name the argument, an int, that must not be negative."""


def _has_corners(function: Callable[..., Any]) -> Callable[..., bool]:
    """Whether a function that is monotone, with values between wherever two arguments have one, has one over whole ranges."""

    def answer(*parts: ValueRange) -> bool:
        if any(part.lower == -inf or part.upper == inf for part in parts):
            return False
        try:
            function(*[part.lower for part in parts]), function(*[part.upper for part in parts])
            if len(parts) == 2:
                function(parts[0].lower, parts[1].upper), function(parts[0].upper, parts[1].lower)
        except (ArithmeticError, ValueError):
            return False
        return True

    return answer


_MONOTONE = (
    "sqrt", "cbrt", "exp", "exp2", "expm1", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "acosh", "atanh", "erf", "erfc", "degrees", "radians",
)  # fmt: skip  # (the waves have a value wherever the argument is finite)
_SURE: dict[str, Callable[..., bool]] = {
    **{name.capitalize(): _has_corners(getattr(math, name)) for name in _MONOTONE},
    **{f"Float{name.capitalize()}": _has_corners(getattr(math, name)) for name in ("floor", "ceil", "trunc")},
    "FloatRound": _has_corners(round),
    "ToFloat": _has_corners(float),
    "FloatPow": lambda a, b: a.lower > 0 and _has_corners(math.pow)(a, b),
    "MathPow": lambda a, b: a.lower > 0 and _has_corners(math.pow)(a, b),
    "Log": lambda a, *base: a.lower > 0 and all(b.lower > 1 for b in base),
}


def definedness(application: Expr, ranges: Mapping[Symbol, ValueRange]) -> Any:
    """The condition, as a sympy relation, under which a function of `FLOAT_FUNCTIONS` has a value that it promises, or None if it always has.

    Args:
        application: what it is applied to.
        ranges: what the symbols can be.
    """
    name = application.func.__name__
    if not isinstance(application, FloatFunction) or name in _TOTAL:
        return None
    if name == "ToFloat" and application.args[0].is_Symbol:  # most of all applications
        return None
    if name in _DIVISIONS:
        divisor = application.args[1]
        if name != "IntTrueDiv" or _SURE["ToFloat"](*_bounds(application.args[:1], ranges)):
            return sympy.Ne(divisor, S.Zero if is_int(divisor) else constant(0.0), evaluate=False)
    if name in _NOT_NEGATIVE:
        return sympy.Ge(application.args[_NOT_NEGATIVE[name]], S.Zero, evaluate=False)
    sure = _SURE.get(name)
    if sure is not None and sure(*_bounds(application.args, ranges)):
        return None
    # Whatever the condition is: a guard whose evaluation raises does not hold.
    return sympy.Eq(FLOAT_FUNCTIONS["IsReal"](application), S.One, evaluate=False)


def _bounds(args: tuple[Expr, ...], ranges: Mapping[Symbol, ValueRange]) -> list[ValueRange]:
    symbols = {symbol for arg in args for symbol in arg.free_symbols if symbol.is_integer}
    narrowed = {**ranges, **{symbol: ranges.get(symbol, UNKNOWN).intersect(_MACHINE) for symbol in symbols}}
    return [bound(arg, narrowed) for arg in args]
