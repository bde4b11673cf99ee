"""Arithmetic of `SymNode`s, a table row an operation: on integers as expressions, on floats as functions of sympy's.

Flows in: nodes. Flows out: `OPERATIONS`, the methods by name, which `SymNode` takes in.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import sympy
from sympy import Expr, Max, Min, Mul, S

from symshapes.constraints import relation
from symshapes.expr.domains import definedness
from symshapes.expr.floats import FLOAT_FUNCTIONS, IntFunction, constant
from symshapes.expr.functions import FloorDiv, Mod
from symshapes.expr.terms import sum_of, terms_of

_INT: dict[str, tuple[Callable[[Expr, Expr], Expr], Callable[[int, int], int]]] = {
    # Not by `Add`: the first of a process has sympy import its tensors, a tenth of a second.
    "add": (lambda a, b: sum_of([*terms_of(a), *terms_of(b)]), operator.add),
    "sub": (lambda a, b: sum_of([*terms_of(a), *((-c, m) for c, m in terms_of(b))]), operator.sub),
    "mul": (Mul, operator.mul),
    "int_floordiv": (FloorDiv, operator.floordiv),
    "floordiv": (FloorDiv, operator.floordiv),
    "mod": (Mod, operator.mod),
    "sym_max": (Max, max),
    "sym_min": (Min, min),
}
_DIVIDES = frozenset({"int_floordiv", "floordiv", "mod"})
_EXTREMES = {"sym_max": sympy.Ge, "sym_min": sympy.Le}
_FLOAT = {
    "add": "FloatAdd", "sub": "FloatSub", "mul": "FloatMul", "mod": "FloatMod", "float_floordiv": "FloatFloorDiv",
    "float_truediv": "FloatDiv", "int_truediv": "IntTrueDiv", "truediv": "IntTrueDiv", "float_pow": "FloatPow",
    "pow": "FloatPow", "sym_max": "FloatMax", "sym_min": "FloatMin",
}  # fmt: skip
_COMPARE: dict[str, tuple[Any, Callable[[Any, Any], bool]]] = {
    "eq": (sympy.Eq, operator.eq),
    "ne": (sympy.Ne, operator.ne),
    "lt": (sympy.Lt, operator.lt),
    "le": (sympy.Le, operator.le),
    "gt": (sympy.Gt, operator.gt),
    "ge": (sympy.Ge, operator.ge),
}


@lru_cache(maxsize=1 << 15)
def _build_int(name: str, left: Expr, right: Expr) -> Expr:
    return _INT[name][0](left, right)


def _nonzero_divisor(node: Any) -> None:
    """Raise, or guard, so that the result means what Python means by it."""
    if node.hint == 0:
        return  # computing the hint raises Python's own error
    condition = relation(sympy.Ne, node.expr, constant(0) if node.pytype is int else constant(0.0))
    hint = None if node.hint is None else True
    if condition is not S.true and not node.env.expect_true(condition, hint, ZeroDivisionError):
        raise ZeroDivisionError("division by zero")


def applied(name: str, nodes: Sequence[Any]) -> Any:
    """The node of a function of `FLOAT_FUNCTIONS` of other nodes, with a guard that it has a value where that depends.

    Raises what Python raises where it has none, and TypeError where it is complex.
    """
    kind, env = FLOAT_FUNCTIONS[name], nodes[0].env
    hints = [node.hint for node in nodes]
    hint = None if None in hints else kind.compute(*hints)
    if isinstance(hint, complex):
        raise TypeError(f"{name} of {', '.join(map(str, hints))} is complex")
    expr = kind(*[node.expr for node in nodes])
    condition = definedness(expr, env.constraints.ranges)
    if condition is not None:
        condition = relation(condition.func, *condition.args)
        if condition is not S.true and not env.expect_true(condition, None if hint is None else True):
            raise ZeroDivisionError(f"{expr} has no value")
    return type(nodes[0])(expr, env, hint, int if issubclass(kind, IntFunction) else float)


def _binary(name: str) -> Callable[[Any, Any], Any]:
    on_ints, on_floats = _INT.get(name), _FLOAT.get(name)

    def operation(self: Any, other: Any) -> Any:
        if on_ints is not None and self.pytype is int and other.pytype is int:
            key = (name, self, other)
            made = self.env.nodes.get(key)
            if made is not None:
                return made
            if name in _DIVIDES and not other.expr.is_Integer:
                _nonzero_divisor(other)
            hint = None if self.hint is None or other.hint is None else on_ints[1](self.hint, other.hint)
            if name in _EXTREMES:
                # sympy would ask its assumptions, which know less and cost more.
                condition = relation(_EXTREMES[name], self.expr, other.expr)
                known = self.env.statically_known(condition)
                if known is not None:
                    return self if known else other
                if self.env.statically_known(relation(_EXTREMES[name], other.expr, self.expr)):
                    return other
            made = type(self)(_build_int(name, self.expr, other.expr), self.env, hint, int)
            if name not in _EXTREMES:  # of which more may be known the next time
                self.env.remember(key, made)
            return made
        if on_floats is None:
            raise TypeError(f"{name} of {self.pytype.__name__} and {other.pytype.__name__}")
        return applied(on_floats, (self, other))

    operation.__name__ = name
    operation.__doc__ = f"Python's `{name}` of two nodes of one type. Raises TypeError for types without it."
    return operation


def _compare(name: str) -> Callable[[Any, Any], Any]:
    kind, compute = _COMPARE[name]

    def operation(self: Any, other: Any) -> Any:
        if self.pytype is bool:
            return self.wrap_bool(compute(self.guard_bool("", 0), other.guard_bool("", 0)))
        key = (name, self, other)
        made = self.env.nodes.get(key)
        if made is None:
            hint = None if self.hint is None or other.hint is None else compute(self.hint, other.hint)
            made = self.env.remember(key, type(self)(relation(kind, self.expr, other.expr), self.env, hint, bool))
        return made

    operation.__name__ = name
    operation.__doc__ = f"Whether `{name}` holds between two nodes; of two bools their values are guarded."
    return operation


def _rounding(name: str) -> Callable[[Any], Any]:
    def operation(self: Any) -> Any:
        return self if self.pytype is int else applied(f"Float{name.capitalize()}", (self,))

    operation.__name__ = name
    operation.__doc__ = f"`math.{name}` of the node, as an int."
    return operation


def _elementary(name: str) -> Callable[[Any], Any]:
    def operation(self: Any) -> Any:
        return applied(name.capitalize(), (self.sym_float(),))

    operation.__name__ = f"sym_{name}"
    operation.__doc__ = f"`math.{name}` of the node, as a float."
    return operation


_ROUNDING = ("floor", "ceil", "trunc")
_ELEMENTARY = ("sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "log2")

OPERATIONS: dict[str, Callable[..., Any]] = {
    **{name: _binary(name) for name in (*_INT, *_FLOAT)},
    **{name: _compare(name) for name in _COMPARE},
    **{name: _rounding(name) for name in _ROUNDING},
    **{f"sym_{name}": _elementary(name) for name in _ELEMENTARY},
}
"""The methods of `SymNode` that these tables make, by name."""
