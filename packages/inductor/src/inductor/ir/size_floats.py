"""Floats computed from sizes, such as `x.size(-1) ** 0.5`, as values inside a body.

In: an expression of `symshapes`' float functions, whose order of operations is the program's. Out: float64 primitives.
"""

from __future__ import annotations

import functools
from typing import Any

import sympy
import torch

from inductor.ir.operations import Ref
from inductor.ops import ops
from inductor.primitives import PRIMITIVES

_NAMED_ALIKE = "Add Sub Mul Pow Neg Abs Floor Ceil Trunc Round"
#: Primitives by the functions of `symshapes` over floats; a function of one float (`Sqrt`) has its own name in lower case.
_PRIMITIVES = {f"Float{name}": name.lower() for name in _NAMED_ALIKE.split()}
_PRIMITIVES |= {"FloatFloorDiv": "floordiv", "FloatMod": "remainder", "FloatMax": "maximum", "FloatMin": "minimum"}
_PRIMITIVES |= dict.fromkeys(("FloatDiv", "IntTrueDiv"), "truediv")


def is_size_float(expr: Any) -> bool:
    """Whether Python would compute with floats to evaluate the expression; its result may be an int all the same."""
    return any(isinstance(part, sympy.Float) or _is_float_function(part) for part in sympy.preorder_traversal(expr))


def _is_float_function(expr: Any) -> bool:
    return isinstance(expr, sympy.Function) and (expr.func.__name__ in _PRIMITIVES or not expr.is_integer)


def _remainder(a: Ref, b: Ref) -> Ref:
    """`a % b` of Python: a remainder of zero has the sign of `b`."""
    zero, rest = ops.constant(0.0, torch.float64), ops.remainder(a, b)
    return ops.where(ops.eq(rest, zero), ops.copysign(zero, b), rest)


def size_float(expr: Any) -> Ref:
    """Record the operations of `expr`.

    Raises:
        NotImplementedError: a function without a primitive.
    """
    if expr.is_Number:
        return ops.constant(float(expr), torch.float64)
    if not is_size_float(expr):
        return ops.to_dtype(ops.index_expr(expr, torch.int64), torch.float64)
    name = expr.func.__name__
    operands = [size_float(arg) for arg in expr.args]
    if name == "ToFloat":
        return operands[0]
    if name == "FloatMod":
        return _remainder(*operands)
    primitive = _PRIMITIVES.get(name, name.lower())
    if primitive not in PRIMITIVES:
        raise NotImplementedError(f"no primitive for {name} in {expr}")
    if name in ("Add", "Mul"):
        return functools.reduce(getattr(ops, primitive), operands)
    made: Ref = getattr(ops, primitive)(*operands)
    return made
