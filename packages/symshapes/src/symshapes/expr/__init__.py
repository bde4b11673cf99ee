"""Integer expressions over symbols: floor division, remainder, simplification, printing. sympy beneath."""

from sympy import Max, Min

from symshapes.expr import functions, printers, simplify
from symshapes.expr.evaluate import evaluate
from symshapes.expr.floats import IntFunction
from symshapes.expr.functions import FloorDiv, Mod
from symshapes.expr.plain import ExprWriter, read_exprs
from symshapes.expr.printers import print_expr
from symshapes.expr.simplify import simplify_with_ranges
from symshapes.expr.symbols import SYMBOLIC, expr_of, hint_of, index_symbol, is_open, is_unbacked, size_symbol
from symshapes.expr.text import expr_text, parse_expr

__all__ = [
    "SYMBOLIC",
    "ExprWriter",
    "FloorDiv",
    "IntFunction",
    "Max",
    "Min",
    "Mod",
    "evaluate",
    "expr_of",
    "expr_text",
    "hint_of",
    "index_symbol",
    "is_open",
    "is_unbacked",
    "parse_expr",
    "print_expr",
    "read_exprs",
    "reset_caches",
    "simplify_with_ranges",
    "size_symbol",
]


def reset_caches() -> None:
    """Forget all memoised expressions and text (each memo is bounded; this frees them now)."""
    for module in (functions, printers, simplify):
        module.reset_caches()
