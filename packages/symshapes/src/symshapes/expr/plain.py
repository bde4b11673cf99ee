"""Expressions as plain data (lists, strings, numbers), to be stored as JSON, and back.

Flows in: expressions. Flows out: one list in which each sub-expression stands once, and expressions by their place in it.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Expr

from symshapes.expr.floats import FLOAT_FUNCTIONS, FloatFunction, constant
from symshapes.expr.functions import FloorDiv, Mod

_FUNCTIONS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(sympy.Add, sympy.Mul, sympy.Pow, FloorDiv, Mod, sympy.Max, sympy.Min, sympy.Abs, sympy.And, sympy.Or),
        *(sympy.Not, sympy.Eq, sympy.Ne, sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge),
    )
}
_SUMS = ("Add", "Mul")
_NAMES: dict[Any, str] = {kind: name for name, kind in _FUNCTIONS.items()}


def function_named(name: str) -> Any:
    """The class of an expression; None if it is none of this package's, nor of those of sympy's that it makes."""
    return _FUNCTIONS.get(name) or FLOAT_FUNCTIONS.get(name)


class ExprWriter:
    """Collects expressions: `place` says where in `rows` one stands."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self._places: dict[Any, int] = {}

    def place(self, expr: Any) -> int:
        """The expression's place, after those of its parts.

        Raises:
            NotImplementedError: a function or a number that is not one of this package's.
        """
        known = self._places.get(expr)
        if known is not None and self.rows[known][0] == _kind(expr):  # to sympy 2 == 2.0
            return known
        row = self._row(expr)
        self._places[expr] = len(self.rows)
        self.rows.append(row)
        return len(self.rows) - 1

    def _row(self, expr: Any) -> list[Any]:
        kind = _kind(expr)
        if kind == "int":
            return [kind, int(expr)]
        if kind == "symbol":
            _, assumptions = expr.__getnewargs_ex__()
            return [kind, expr.name, {name: value for name, value in assumptions.items() if value is not None}]
        if kind == "float":
            return [kind, float(expr).hex()]
        if kind == "bool":
            return [kind, bool(expr)]
        return [kind, *map(self.place, expr.args)]


def _kind(expr: Any) -> str:
    if type(expr) is sympy.Symbol:
        return "symbol"
    if expr.is_Integer:
        return "int"
    if expr.is_Float or expr in (sympy.oo, -sympy.oo, sympy.nan):
        return "float"
    if expr is sympy.true or expr is sympy.false:
        return "bool"
    name = expr.func.__name__ if isinstance(expr, FloatFunction) else _NAMES.get(expr.func)
    if name is None:
        raise NotImplementedError(f"{expr.func} in {expr} can't be written as plain data")
    return name


def read_exprs(rows: list[Any]) -> list[Expr]:
    """The expressions of `ExprWriter.rows`.

    Raises:
        ValueError, KeyError, IndexError, TypeError: the rows are not what a writer made.
    """
    found: list[Any] = []
    for kind, *rest in rows:
        if kind == "int":
            found.append(sympy.Integer(rest[0]))
        elif kind == "symbol":
            found.append(sympy.Symbol(rest[0], **rest[1]))
        elif kind == "float":
            found.append(constant(float.fromhex(rest[0])))
        elif kind == "bool":
            found.append(sympy.true if rest[0] else sympy.false)
        else:
            # What was written is simplified; to do so again imports much of sympy.
            kept = {"evaluate": False} if kind in _SUMS else {}
            if (function := function_named(kind)) is None:
                raise KeyError(kind)
            found.append(function(*[found[place] for place in rest], **kept))
    return found
