"""Evaluation of expressions on numbers. Flows in: an expression and a value per symbol. Flows out: a Python number."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import sympy
from sympy import Symbol

from symshapes.expr.floats import FloatFunction, number_of
from symshapes.expr.functions import FloorDiv, Mod

_MEANING: dict[Any, Callable[..., Any]] = {
    sympy.Add: lambda *args: sum(args),
    sympy.Mul: lambda *args: prod(args),
    sympy.Pow: operator.pow,
    FloorDiv: operator.floordiv,
    Mod: operator.mod,
    sympy.Max: max,
    sympy.Min: min,
    sympy.Abs: abs,
    sympy.Eq: operator.eq,
    sympy.Ne: operator.ne,
    sympy.Lt: operator.lt,
    sympy.Le: operator.le,
    sympy.Gt: operator.gt,
    sympy.Ge: operator.ge,
    sympy.Not: operator.not_,
    sympy.And: lambda *args: all(args),
    sympy.Or: lambda *args: any(args),
}


def evaluate(expr: Any, values: Mapping[Symbol, int | float]) -> Any:
    """The value of `expr`: an int, a float or a bool.

    Raises:
        KeyError: a symbol without a value.
        ZeroDivisionError: as Python's.
        NotImplementedError: a function that is not one of this package's.
    """
    if isinstance(expr, (int, float)):
        return expr
    if expr.is_Number:
        return number_of(expr)
    if expr.is_Symbol:
        return values[expr]
    if expr is sympy.true:
        return True
    if expr is sympy.false:
        return False
    meaning = expr.compute if isinstance(expr, FloatFunction) else _MEANING.get(expr.func)
    if meaning is None:
        raise NotImplementedError(f"no meaning for {expr.func} in {expr}")
    return meaning(*[evaluate(arg, values) for arg in expr.args])
