"""Symbolic shapes and fake tensors for PyTorch."""

from symshapes.expr import (
    FloorDiv,
    Max,
    Min,
    Mod,
    evaluate,
    expr_of,
    hint_of,
    index_symbol,
    print_expr,
    simplify_with_ranges,
    size_symbol,
)
from symshapes.fake import FakeMode, FakeTensor, reset_rules
from symshapes.ranges import ValueRange, bound
from symshapes.rules import DataDependentError, missing_rules, register_rule

__all__ = [
    "DataDependentError",
    "FakeMode",
    "FakeTensor",
    "FloorDiv",
    "Max",
    "Min",
    "Mod",
    "ValueRange",
    "bound",
    "evaluate",
    "expr_of",
    "hint_of",
    "index_symbol",
    "missing_rules",
    "print_expr",
    "register_rule",
    "reset_rules",
    "simplify_with_ranges",
    "size_symbol",
]
