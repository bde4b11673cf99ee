"""Numbers that torch computed of sizes, as the program would have: in, one of its symbolic numbers, and tensors of whose sizes it was made;
out, the variable that the graph computes it by."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

import torch

from capture.variables.base import Interpreter, Variable
from capture.variables.constants import Constant
from capture.variables.tensors import Tensor
from symshapes import FloorDiv, expr_of


def number_of_sizes(m: Interpreter, number: torch.SymInt, tensors: Iterable[Tensor]) -> Variable | None:
    """None where it is made in another way, or of what no sizes tell, of these tensors and those in the graph."""
    places: dict[Any, tuple[Tensor, int]] = {}
    for tensor in (*tensors, *m.recorder.fakes.values()):
        for dim, size in enumerate(tensor.fake.shape):
            if isinstance(size, torch.SymInt):
                places.setdefault(expr_of(size), (tensor, dim))
    return _made(m, expr_of(number), places)


def _made(m: Interpreter, expr: Any, places: dict[Any, tuple[Tensor, int]]) -> Variable | None:
    if expr in places:
        tensor, dim = places[expr]
        return tensor.measure(m, "size", [Constant(dim)], {}).realize(m)
    if expr.is_Integer:
        return Constant(int(expr))
    symbol = "+" if expr.is_Add else "*" if expr.is_Mul else "//" if isinstance(expr, FloorDiv) else None
    if expr.is_Pow and expr.exp.is_Integer and expr.exp > 0:
        symbol = "**"
    if symbol is None:
        return None
    parts = [_made(m, part, places) for part in expr.args]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return reduce(lambda left, right: m.operators.binary(symbol, left, right).realize(m), known)
