"""Expressions as text to be read, by people and by `parse_expr`.

Flows in: an expression, or its text. Flows out: the other. `//` and `%` have Python's meaning; other functions stand by name.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import sympy
from sympy import Expr, Symbol
from sympy.printing.str import StrPrinter

from symshapes.expr.floats import constant
from symshapes.expr.functions import FloorDiv, Mod
from symshapes.expr.plain import function_named


class _Printer(StrPrinter):
    def _print_FloorDiv(self, expr: Expr) -> str:
        return self._between(expr, " // ")

    def _print_Mod(self, expr: Expr) -> str:
        return self._between(expr, " % ")

    def _between(self, expr: Expr, sign: str) -> str:
        # In parentheses wherever it stands: sympy knows no strength of these two.
        texts = (
            f"({self._print(arg)})" if arg.is_Add or arg.is_Mul or arg.is_Pow else self._print(arg) for arg in expr.args
        )
        return f"({sign.join(texts)})"

    def _print_Float(self, expr: Expr) -> str:
        return repr(float(expr))  # all digits


def expr_text(expr: Expr) -> str:
    """The text of an expression, such as `4*i0 + (i1 // 8)`."""
    text = str(_Printer().doprint(expr))
    return text[1:-1] if isinstance(expr, (FloorDiv, Mod)) else text


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.FloorDiv: FloorDiv,
    ast.Mod: Mod,
}


def parse_expr(text: str, symbols: Mapping[str, Symbol]) -> Expr:
    """The expression that `expr_text` printed.

    Args:
        symbols: by name.

    Raises:
        ValueError: the text is no expression, or has a name that is none of `symbols`.
    """

    def read(node: ast.expr) -> Any:
        match node:
            case ast.Constant(bool()):
                return sympy.sympify(node.value)
            case ast.Constant(int(number)):
                return sympy.Integer(number)
            case ast.Constant(float(number)):
                return constant(number)
            case ast.Name(name) if name in symbols:
                return symbols[name]
            case ast.UnaryOp(ast.USub(), part):
                return -read(part)
            case ast.BinOp(left, sign, right) if type(sign) in _OPERATORS:
                return _OPERATORS[type(sign)](read(left), read(right))
            case ast.Call(ast.Name(name), args, []) if function := function_named(name):
                return function(*map(read, args))
        raise ValueError(f"{ast.unparse(node)!r} in {text!r} is no expression over {', '.join(symbols)}")

    try:
        parsed = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise ValueError(f"{text!r} is no expression: {error}") from error
    return read(parsed.body)
