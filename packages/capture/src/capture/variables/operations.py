"""The operators of the language: by symbol the function that computes it for real, and the methods that classes define."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

#: Symbol -> (function, method name without underscores).
BINARY: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "+": (operator.add, "add"),
    "-": (operator.sub, "sub"),
    "*": (operator.mul, "mul"),
    "/": (operator.truediv, "truediv"),
    "//": (operator.floordiv, "floordiv"),
    "%": (operator.mod, "mod"),
    "**": (operator.pow, "pow"),
    "@": (operator.matmul, "matmul"),
    "&": (operator.and_, "and"),
    "|": (operator.or_, "or"),
    "^": (operator.xor, "xor"),
    "<<": (operator.lshift, "lshift"),
    ">>": (operator.rshift, "rshift"),
}
#: With what is no operator, and yet goes by the methods of both operands.
DISPATCHED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {**BINARY, "divmod()": (divmod, "divmod")}
INPLACE: dict[str, Callable[[Any, Any], Any]] = {
    symbol + "=": getattr(operator, "i" + name) for symbol, (_, name) in BINARY.items()
}
COMPARE: dict[str, tuple[Callable[[Any, Any], Any], str, str]] = {
    "<": (operator.lt, "__lt__", "__gt__"),
    "<=": (operator.le, "__le__", "__ge__"),
    "==": (operator.eq, "__eq__", "__eq__"),
    "!=": (operator.ne, "__ne__", "__ne__"),
    ">": (operator.gt, "__gt__", "__lt__"),
    ">=": (operator.ge, "__ge__", "__le__"),
}
UNARY: dict[str, tuple[Callable[[Any], Any], str]] = {
    "-": (operator.neg, "__neg__"),
    "+": (operator.pos, "__pos__"),
    "~": (operator.invert, "__invert__"),
    "abs": (operator.abs, "__abs__"),
}
