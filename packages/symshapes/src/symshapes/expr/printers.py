"""Printing expressions as source text. Flows in: expressions. Flows out: Python, C++ or Triton expressions.

Python's integers are exact. C++ text is int64 arithmetic; in C++ and Triton `/` rounds towards zero, so it stands for
floor division only where both sides are known not to be negative, and calls of the kernel prelude's `floordiv(a, b)`
and `mod(a, b)` stand in otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy
from sympy import Symbol

from symshapes.expr.floats import FloatFunction, is_int
from symshapes.expr.functions import FloorDiv, Mod
from symshapes.expr.ranges import ValueRange, bound

# Binding strengths, as in Python and C++: a child binding weaker than its place is parenthesised.
_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _UNARY, _POWER, _ATOM = range(9)

Ranges = Mapping[Symbol, ValueRange]
Names = Mapping[Symbol, str]
_NO_RANGES: Ranges = {}
_NO_NAMES: Names = {}


class _Printer:
    """One dialect; `text` gives the source and how strongly its outermost operator binds."""

    def __init__(self, ranges: Ranges, names: Names) -> None:
        self.ranges = ranges
        self.names = names

    def at(self, expr: Any, strength: int) -> str:
        text, own = self.text(expr)
        return text if own >= strength else f"({text})"

    def text(self, expr: Any) -> tuple[str, int]:
        if expr.is_Symbol:
            return self.names.get(expr, expr.name), _ATOM
        if expr.is_Integer:
            number = int(expr)
            return self.integer(number), _ATOM if number >= 0 else _SUM
        if expr.is_Add:
            return self.sum(expr), _SUM
        if expr.is_Mul:
            return self.product(expr)
        method = _METHODS.get(expr.func)
        if method is not None:
            return method(self, expr)
        if expr.is_Float or expr in _NOT_FINITE:
            return self.floating(float(expr))
        if expr is sympy.true or expr is sympy.false:
            return self.boolean(bool(expr)), _ATOM
        if isinstance(expr, FloatFunction):
            if expr.text not in "+-*/":
                return self.float_call(expr)
            return self.float_infix(expr) if len(expr.args) > 1 else (f"-{self.at(expr.args[0], _ATOM)}", _SUM)
        raise NotImplementedError(f"cannot print {expr.func} in {expr}")

    def call(self, name: str, args: Any) -> tuple[str, int]:
        return f"{name}({', '.join(self.at(arg, _OR) for arg in args)})", _ATOM

    def integer(self, number: int) -> str:
        return str(number)

    def sum(self, expr: Any) -> str:
        # In the order of the text, which does not depend on hashes; the constant last.
        texts = sorted(
            (arg.is_Number, text[1:], " - ") if text[0] == "-" else (arg.is_Number, text, " + ")
            for arg, text in [(arg, self.at(arg, _SUM)) for arg in expr.args]
        )
        parts = [sign + text for _, text, sign in texts]
        if parts[0].startswith(" + "):
            return parts[0][3:] + "".join(parts[1:])
        return "-" + parts[0][3:] + "".join(parts[1:])

    def product(self, expr: Any) -> tuple[str, int]:
        args = expr.args
        if args[0] == -1:
            # -a*b is (-a)*b, which is the same; -(a % b) and -(a // b) are not (-a) % b and (-a) // b.
            rest = args[1] if len(args) == 2 else sympy.Mul._from_args(args[1:])
            return f"-{self.at(rest, _PRODUCT if rest.is_Mul else _UNARY)}", _SUM
        first = args[0]
        # Left to right: only the first factor may be an operator of the same strength.
        texts = [self.at(arg, _UNARY) for arg in args[1:]]
        head = f"-{self.integer(-int(first))}" if first.is_Integer and int(first) < 0 else self.at(first, _UNARY)
        return "*".join([head, *texts]), _SUM if head.startswith("-") else _PRODUCT

    def power(self, expr: Any) -> tuple[str, int]:
        base, exponent = expr.args
        if exponent.is_Integer and 0 < int(exponent) <= 16:
            return "*".join([self.at(base, _UNARY)] * int(exponent)), _PRODUCT
        raise NotImplementedError(f"cannot print the power {expr}")

    def known_not_negative(self, *exprs: Any) -> bool:
        return all(bound(expr, self.ranges).lower >= 0 for expr in exprs)

    def floor_div(self, expr: Any) -> tuple[str, int]:
        above, below = expr.args
        if self.known_not_negative(above, below):
            return f"{self.at(above, _PRODUCT)} {self.slash} {self.at(below, _UNARY)}", _PRODUCT
        return self.call(self.floor_name, expr.args)

    def mod(self, expr: Any) -> tuple[str, int]:
        above, below = expr.args
        if self.known_not_negative(above, below):
            return f"{self.at(above, _PRODUCT)} % {self.at(below, _UNARY)}", _PRODUCT
        return self.call(self.mod_name, expr.args)

    def compare(self, expr: Any) -> tuple[str, int]:
        left, right = expr.args
        return f"{self.at(left, _SUM)} {_COMPARISONS[expr.func]} {self.at(right, _SUM)}", _COMPARE

    def conjunction(self, expr: Any) -> tuple[str, int]:
        return f" {self.and_word} ".join(sorted(self.at(arg, _NOT) for arg in expr.args)), _AND

    def disjunction(self, expr: Any) -> tuple[str, int]:
        return f" {self.or_word} ".join(sorted(self.at(arg, _AND) for arg in expr.args)), _OR

    def negation(self, expr: Any) -> tuple[str, int]:
        return f"{self.not_word}{self.at(expr.args[0], _ATOM)}", _NOT

    def largest(self, expr: Any) -> tuple[str, int]:
        return self.nested(self.max_name, expr.args)

    def smallest(self, expr: Any) -> tuple[str, int]:
        return self.nested(self.min_name, expr.args)

    def nested(self, name: str, args: Any) -> tuple[str, int]:
        text, *others = sorted(self.at(arg, _OR) for arg in args)
        for other in others:
            text = f"{name}({text}, {other})"
        return text, _ATOM

    def absolute(self, expr: Any) -> tuple[str, int]:
        return self.call(self.abs_name, expr.args)

    def float_infix(self, expr: Any) -> tuple[str, int]:
        # Parenthesised on both sides: floating point must not be regrouped.
        left, right = expr.args
        return f"{self.as_float(left)} {expr.text} {self.as_float(right)}", _OR

    def as_float(self, expr: Any) -> str:
        return self.at(expr, _ATOM)

    def float_call(self, expr: FloatFunction) -> tuple[str, int]:
        return self.call(self.float_name(expr), expr.args)

    slash = "/"
    floor_name, mod_name = "floordiv", "mod"
    max_name, min_name, abs_name = "max", "min", "abs"
    and_word, or_word, not_word = "and", "or", "not "

    def boolean(self, value: bool) -> str:
        return str(value)

    def floating(self, value: float) -> tuple[str, int]:
        raise NotImplementedError(f"no text for the float {value}")

    def float_name(self, expr: FloatFunction) -> str:
        raise NotImplementedError(f"no text for {expr}")


class _Python(_Printer):
    slash = "//"

    def known_not_negative(self, *exprs: Any) -> bool:
        return True  # Python's // and % round down for all signs

    def power(self, expr: Any) -> tuple[str, int]:
        base, exponent = expr.args
        return f"{self.at(base, _ATOM)}**{self.at(exponent, _ATOM)}", _POWER

    def floating(self, value: float) -> tuple[str, int]:
        text = repr(value)
        return (text, _ATOM) if text[0].isdigit() else (f'float("{text}")' if text[-1] in "fn" else f"({text})", _ATOM)

    def float_call(self, expr: FloatFunction) -> tuple[str, int]:
        if expr.text == "isinstance":
            return f"isinstance({self.at(expr.args[0], _OR)}, (int, float))", _ATOM
        if expr.packed:
            return f"{expr.text}(({', '.join(self.at(arg, _OR) for arg in expr.args)},))", _ATOM
        return self.call(expr.text, expr.args)


class _Cpp(_Printer):
    max_name, min_name, abs_name = "std::max<int64_t>", "std::min<int64_t>", "std::abs"
    and_word, or_word, not_word = "&&", "||", "!"

    def integer(self, number: int) -> str:
        # The suffix keeps a product of two literals from overflowing a 32-bit int.
        return f"{number}LL" if abs(number) >= 1 << 31 else str(number)

    def boolean(self, value: bool) -> str:
        return "true" if value else "false"

    def floating(self, value: float) -> tuple[str, int]:
        if value != value:
            return "std::numeric_limits<double>::quiet_NaN()", _ATOM
        if value in (float("inf"), float("-inf")):
            sign = "-" if value < 0 else ""
            return f"({sign}std::numeric_limits<double>::infinity())", _ATOM
        text = repr(value)
        return (text if value >= 0 else f"({text})"), _ATOM

    def as_float(self, expr: Any) -> str:
        if is_int(expr):
            return f"static_cast<double>({self.at(expr, _OR)})"
        return self.at(expr, _ATOM)

    def float_name(self, expr: FloatFunction) -> str:
        name = _CPP_NAMES.get(expr.text)
        if name is None or len(expr.args) > 2 or (expr.text == "math.log" and len(expr.args) > 1):
            raise NotImplementedError(f"C++ has no function that computes {expr.func.__name__} as Python does")
        return name


class _Triton(_Printer):
    slash = "//"
    max_name, min_name, abs_name = "tl.maximum", "tl.minimum", "tl.abs"
    and_word, or_word, not_word = "and", "or", "not "


_COMPARISONS = {sympy.Eq: "==", sympy.Ne: "!=", sympy.Lt: "<", sympy.Le: "<=", sympy.Gt: ">", sympy.Ge: ">="}
_METHODS: dict[Any, Callable[[Any, Any], tuple[str, int]]] = {
    sympy.Pow: lambda printer, expr: printer.power(expr),
    FloorDiv: lambda printer, expr: printer.floor_div(expr),
    Mod: lambda printer, expr: printer.mod(expr),
    sympy.Max: _Printer.largest,
    sympy.Min: _Printer.smallest,
    sympy.Abs: _Printer.absolute,
    sympy.And: _Printer.conjunction,
    sympy.Or: _Printer.disjunction,
    sympy.Not: _Printer.negation,
    **dict.fromkeys(_COMPARISONS, _Printer.compare),
}
_NOT_FINITE = (sympy.oo, -sympy.oo, sympy.nan)
# By Python's word, where C's library is what CPython itself calls.
_CPP_NAMES = {
    "float": "static_cast<double>", "max": "std::max<double>", "min": "std::min<double>", "abs": "std::abs",
    "pow": "std::pow", "round": "(int64_t)std::nearbyint",
    **{f"math.{name}": f"(int64_t)std::{name}" for name in ("floor", "ceil", "trunc")},
    **{
        f"math.{name}": f"std::{name}"
        for name in (
            "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan",
            "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "atan2", "erf", "erfc", "fabs", "copysign", "pow",
        )
    },
}  # fmt: skip
_DIALECTS: dict[str, type[_Printer]] = {"python": _Python, "cpp": _Cpp, "triton": _Triton}
_MEMO_LIMIT = 1 << 16
_memo: dict[tuple[Any, str], str] = {}


def print_expr(expr: Any, dialect: str = "python", ranges: Ranges | None = None, names: Names | None = None) -> str:
    """Source text of an expression.

    Args:
        expr: a sympy expression or condition, or a Python int.
        dialect: "python", "cpp" or "triton".
        ranges: what the symbols can be, where that is more than their sympy assumptions say; it decides
            between `/` and `floordiv(...)`.
        names: the text of symbols that do not stand under their own name.

    Python text uses only operators, `min`, `max`, `abs` and the modules `math` and `operator`.

    Raises:
        NotImplementedError: a function that the dialect has no text for.
    """
    if type(expr) is int:
        return str(expr)
    if ranges or names:
        return _DIALECTS[dialect](ranges or _NO_RANGES, names or _NO_NAMES).at(expr, _OR)
    key = (expr, dialect)
    text = _memo.get(key)
    if text is None:
        if len(_memo) > _MEMO_LIMIT:
            _memo.clear()
        text = _memo[key] = _DIALECTS[dialect](_NO_RANGES, _NO_NAMES).at(expr, _OR)
    return text


def reset_caches() -> None:
    """Forget all printed text."""
    _memo.clear()
