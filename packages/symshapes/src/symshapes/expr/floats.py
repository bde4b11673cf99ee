"""Floating point as opaque functions, so that nothing is reordered: a symbolic float rounds exactly as Python's would.

Flows in: sympy expressions. Flows out: applications that fold only when all their arguments are constants.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import sympy
from sympy import Expr, Function, Integer

from symshapes.expr.functions import as_expr


class FloatFunction(Function):
    """A function of floats (and ints) that yields a float; `compute` is its Python meaning, `text` Python's word."""

    is_commutative = True
    is_real = True
    compute: Callable[..., Any]
    text: str

    def __new__(cls, *args: Any, **_: Any) -> Expr:
        exprs = [as_expr(arg) for arg in args]
        if all(arg.is_Number for arg in exprs):
            return constant(cls.compute(*[number_of(arg) for arg in exprs]))
        return Expr.__new__(cls, *exprs)


class IntFunction(FloatFunction):
    """A function of floats that yields an int."""

    is_integer = True


def is_int(expr: Expr) -> bool:
    """Whether an expression is an int to Python. sympy's `is_integer` would deduce it, at a hundred times the cost.

    Sums, products, divisions and so on are only ever built of ints: floats have their own functions.
    """
    if expr.is_Symbol:
        return bool(expr.is_integer)
    if isinstance(expr, FloatFunction):
        return isinstance(expr, IntFunction)
    return not expr.is_Float


def number_of(expr: Expr) -> int | float:
    """The Python number of a constant."""
    if expr.is_Integer:
        return int(expr)
    return float(expr)


def constant(value: int | float) -> Expr:
    """A Python number as a constant; a float keeps all its 53 bits."""
    return Integer(value) if isinstance(value, int) else sympy.Float(value, 17 if math.isfinite(value) else 15)


Computation = Callable[..., Any]
_ELEMENTARY = ("sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "log2")

# name: (Python's function or operator sign, what it computes)
_FLOAT: dict[str, tuple[str, Computation]] = {
    "ToFloat": ("float", float),
    "FloatAdd": ("+", operator.add),
    "FloatSub": ("-", operator.sub),
    "FloatMul": ("*", operator.mul),
    "FloatDiv": ("/", operator.truediv),
    "IntTrueDiv": ("/", operator.truediv),
    "FloatPow": ("pow", operator.pow),
    "FloatMod": ("operator.mod", operator.mod),
    "FloatFloorDiv": ("operator.floordiv", operator.floordiv),
    "FloatNeg": ("-", operator.neg),
    "FloatAbs": ("abs", abs),
    "FloatMax": ("max", lambda a, b: float(max(a, b))),
    "FloatMin": ("min", lambda a, b: float(min(a, b))),
    **{name.capitalize(): (f"math.{name}", getattr(math, name)) for name in _ELEMENTARY},
}
_INT: dict[str, tuple[str, Computation]] = {
    "FloatFloor": ("math.floor", math.floor),
    "FloatCeil": ("math.ceil", math.ceil),
    "FloatTrunc": ("math.trunc", math.trunc),
    "FloatRound": ("round", round),
}


def _function(base: type[FloatFunction], name: str, text: str, compute: Computation) -> type[FloatFunction]:
    return type(name, (base,), {"compute": staticmethod(compute), "text": text, "__module__": __name__})


FLOAT_FUNCTIONS: dict[str, type[FloatFunction]] = {
    name: _function(base, name, *entry)
    for base, table in ((FloatFunction, _FLOAT), (IntFunction, _INT))
    for name, entry in table.items()
}
"""By name: `FloatAdd`, `IntTrueDiv`, `FloatFloor`..."""
