"""Index expressions: their C++ text (on `kernel.h`, without the standard library) and their stride in a loop variable.

Flows in: sympy expressions over loop variables, size symbols and indirect symbols. Flows out: C++ over `Index` (int64).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

import sympy

from symshapes import bound

Expr: TypeAlias = sympy.Expr
Symbol: TypeAlias = sympy.Symbol


@lru_cache(maxsize=1 << 14)
def stride(expr: Expr, variable: Symbol) -> Expr | None:
    """By how much `expr` grows when `variable` grows by one, if that is the same everywhere; else None."""
    if variable not in expr.free_symbols:
        return sympy.S.Zero
    step = sympy.S.Zero
    for term in sympy.Add.make_args(sympy.expand(expr) if _has_product_of_sum(expr) else expr):
        if variable not in term.free_symbols:
            continue
        if term == variable:
            step += 1
            continue
        if not isinstance(term, sympy.Mul) or variable not in term.args:
            return None
        rest = sympy.Mul(*(factor for factor in term.args if factor != variable))
        if variable in rest.free_symbols:
            return None
        step += rest
    return step


def _has_product_of_sum(expr: Expr) -> bool:
    return any(
        isinstance(term, sympy.Mul) and any(isinstance(factor, sympy.Add) for factor in term.args)
        for term in sympy.Add.make_args(expr)
    )


class IndexPrinter:
    """Prints index expressions as C++. `names` gives the text of symbols that are not printed by their own name.

    Raises:
        NotImplementedError: for an expression with no integer C++ form.
    """

    def __init__(self, names: Mapping[Symbol, str]) -> None:
        self.names = names

    def __call__(self, expr: Expr) -> str:
        return self._print(expr, 0)

    def factor(self, expr: Expr) -> str:
        """The text as it can stand in a product or a pointer sum: in parentheses unless it is one term."""
        return self._print(expr, 1)

    def product(self, factors: Iterable[Expr | int]) -> str:
        """The text of a product as a factor. Its numbers are multiplied here: C++ would multiply literals as ints, which are too narrow."""
        return self.factor(sympy.Mul(*factors))

    def _print(self, expr: Expr, precedence: int) -> str:
        """`precedence`: 0 in a sum or argument, 1 as a factor."""
        if isinstance(expr, sympy.Integer):
            value = int(expr)
            if abs(value) >= 2**31:
                return f"Index({value})" if abs(value) < 2**63 else self._refuse(expr)
            return str(value) if value >= 0 or precedence == 0 else f"({value})"
        if isinstance(expr, sympy.Symbol):
            return self.names.get(expr, expr.name)
        if isinstance(expr, sympy.Add):
            text = self._sum(expr)
            return text if precedence == 0 else f"({text})"
        if isinstance(expr, sympy.Mul):
            if not all(factor.is_integer for factor in expr.args):
                return self._refuse(expr)
            return " * ".join(self._print(factor, 1) for factor in expr.args)
        if isinstance(expr, sympy.Pow):
            base, exponent = expr.args
            if isinstance(exponent, sympy.Integer) and 1 <= int(exponent) <= 8:
                text = " * ".join([self._print(base, 1)] * int(exponent))
                return text if precedence == 0 else f"({text})"
            return self._refuse(expr)
        return self._function(expr)

    def _sum(self, expr: Expr) -> str:
        text = ""
        # The constant last, the larger terms first: as one would write an offset.
        for term in sorted(expr.args, key=lambda t: (t.is_number, str(t))):
            negative = term.could_extract_minus_sign()
            part = self._print(-term if negative else term, 0 if not negative else 1)
            if not text:
                text = f"-{part}" if negative else part
            else:
                text += f" - {part}" if negative else f" + {part}"
        return text

    def _function(self, expr: Expr) -> str:
        kind = type(expr).__name__
        if kind in ("FloorDiv", "Mod", "PythonMod"):
            a, b = expr.args
            text_a, text_b = self._print(a, 0), self._print(b, 0)
            if bound(a, {}).lower >= 0 and bound(b, {}).lower > 0:
                return f"(({text_a}) {'/' if kind == 'FloorDiv' else '%'} ({text_b}))"
            return f"{'floor_div' if kind == 'FloorDiv' else 'modulo'}({text_a}, {text_b})"
        if isinstance(expr, sympy.floor):
            numerator, denominator = sympy.fraction(sympy.together(expr.args[0]))
            if numerator.is_integer and denominator.is_integer:
                return f"floor_div({self._print(numerator, 0)}, {self._print(denominator, 0)})"
        if isinstance(expr, sympy.Max | sympy.Min):
            name = "at_least" if isinstance(expr, sympy.Max) else "at_most"
            first, *rest = (self._print(arg, 0) for arg in expr.args)
            for other in rest:
                first = f"{name}({first}, {other})"
            return first
        if isinstance(expr, sympy.Abs):
            (arg,) = expr.args
            return f"at_least({self._print(arg, 0)}, {self._print(-arg, 0)})"
        return self._refuse(expr)

    @staticmethod
    def _refuse(expr: Expr) -> str:
        raise NotImplementedError(f"no C++ for the index expression {expr}")
