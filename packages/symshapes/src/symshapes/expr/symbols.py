"""Symbols and conversions. Flows in: Python ints and `torch.SymInt`s. Flows out: expressions and hints."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from sympy import Expr, Symbol

from symshapes.expr.functions import as_expr

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
"""The classes of symbolic numbers, for `isinstance`."""


@lru_cache(maxsize=1 << 14)
def index_symbol(name: str) -> Symbol:
    """A symbol for a loop index: an integer from zero."""
    return Symbol(name, integer=True, nonnegative=True)


@lru_cache(maxsize=1 << 14)
def size_symbol(name: str) -> Symbol:
    """A symbol for a size that is at least one."""
    return Symbol(name, integer=True, positive=True)


STORAGE_BYTES = size_symbol("storage_bytes")
"""Of the storages of fakes, which have none: that something fits in one is nothing to check."""


def expr_of(value: Any) -> Expr:
    """The sympy expression of an int, a `torch.SymInt` (SymFloat, SymBool) or an expression."""
    if type(value) is not int and isinstance(value, SYMBOLIC):
        return value.node.expr
    return as_expr(value)


def is_unbacked(value: Any) -> bool:
    """Whether it is a symbolic number that only the run can tell."""
    return isinstance(value, SYMBOLIC) and not value.node.has_hint()


def is_open(value: Any) -> bool:
    """Whether it is a symbolic size that may be 1 as well as more (`DimPolicy.OPEN`), or made of some."""
    return isinstance(value, SYMBOLIC) and bool(value.node.env.has_open)


def hint_of(value: Any) -> Any:
    """The number that a symbolic value had when the program was captured, a guess if only the run can tell; of a plain
    number, itself."""
    if not isinstance(value, SYMBOLIC):
        return value
    return value.node.hint if value.node.has_hint() else value.node.env.guess(value.node.expr)
