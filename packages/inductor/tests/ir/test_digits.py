"""Split loops touch the same elements in the same order, with linear indices."""

from __future__ import annotations

import itertools

import pytest
import sympy
import torch
from sympy.core.cache import clear_cache

from inductor.handlers.interpreter import evaluate
from inductor.ir.body import Body, record
from inductor.ir.digits import span, split
from inductor.ir.loops import outer_symbol
from inductor.ops import ops
from symshapes import FloorDiv, Mod

I0, I1 = outer_symbol(0), outer_symbol(1)


def copy(read: sympy.Expr, write: sympy.Expr) -> Body:
    return record(
        lambda outer, inner: ops.store("y", write, ops.load("x", read)), [I0, I1], [], lambda name: torch.float32
    )


def accesses(body: Body, sizes: list[sympy.Expr]) -> list[tuple[int, int]]:
    points = itertools.product(*(range(int(n)) for n in sizes))
    at = [dict(zip(body.outer_vars, p, strict=True)) for p in points]
    return [tuple(evaluate(op.index, a) for op in body.ops) for a in at]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("read", "loops"),
    [
        (FloorDiv(I1, 8) * 24 + Mod(I1, 8) + 8 * I0, 3),
        (Mod(FloorDiv(I0, 2), 3) * 16 + FloorDiv(I0, 6) + Mod(I0, 2) + 100 * I1, 4),
        (Mod(I1, 16) + I0, 3),
        # A fastest loop of 2 is not worth it; a division of a sum is not a digit; 5 does not divide 48.
        (FloorDiv(I1, 2) + I0, 2),
        (FloorDiv(I1 + I0, 8), 2),
        (FloorDiv(I1, 5), 2),
        # 6 and 8 are powers of no one base.
        (FloorDiv(I1, 8) + Mod(I1, 12), 2),
    ],
)
def test_the_same_elements_in_the_same_order(read: sympy.Expr, loops: int) -> None:
    body, sizes = copy(read, 48 * I0 + I1), [sympy.Integer(12), sympy.Integer(48)]
    new, outer, _ = split(body, sizes, [])
    assert accesses(new, outer) == accesses(body, sizes)
    assert len(outer) == loops
    assert (loops == 2) == any(op.index.has(FloorDiv, Mod) for op in new.ops)


def test_spans() -> None:
    assert span(Mod(FloorDiv(I0, 4), 3), I0) == (4, 12)
    assert span(FloorDiv(Mod(I0, 12), 4), I0) == (4, 12)
    assert span(FloorDiv(I0 + 1, 4), I0) is None


def test_a_symbol_made_anew_is_the_same_variable() -> None:
    """sympy keeps symbols in a cache of bounded size: a later one of the same name is equal, and another object."""
    clear_cache()
    again = sympy.Symbol(I0.name, **I0.assumptions0)
    assert again == I0
    assert again is not I0
    assert span(Mod(again, 4), I0) == (1, 4)
    assert span(again, I0) == (1, None)
