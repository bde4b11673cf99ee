"""Canonical loops: merged where every access allows it, and never another set of accesses."""

from __future__ import annotations

import itertools
import math

import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from inductor.handlers.interpreter import evaluate
from inductor.ir.body import Body, record
from inductor.ir.loops import canonicalise, inner_symbol, outer_symbol
from inductor.ops import ops
from symshapes import FloorDiv, Mod

I0, I1, I2 = (outer_symbol(d) for d in range(3))
R0, R1 = inner_symbol(0), inner_symbol(1)


def copy(read: sympy.Expr, write: sympy.Expr, count: int = 3) -> Body:
    return record(
        lambda outer, inner: ops.store("y", write, ops.load("x", read)),
        [outer_symbol(d) for d in range(count)],
        [],
        lambda name: torch.float32,
    )


def accesses(body: Body, sizes: tuple[sympy.Expr, ...]) -> list[tuple[int, int]]:
    """(element read, element written) at every point."""
    read, write = body.ops[0].index, body.ops[1].index
    points = itertools.product(*(range(int(n)) for n in sizes))
    at = [dict(zip(body.outer_vars, p, strict=True)) for p in points]
    return [(evaluate(read, a), evaluate(write, a)) for a in at]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(2, 4), min_size=3, max_size=3),
    st.permutations(range(3)),
    st.integers(1, 3),
    st.sampled_from(["plain", "floor", "mod", "both"]),
)
def test_the_same_elements_move(size: list[int], order: list[int], divisor: int, kind: str) -> None:
    strides = {d: math.prod(size[k] for k in order[order.index(d) + 1 :]) for d in range(3)}
    linear = sum(strides[d] * outer_symbol(d) for d in range(3))
    read = {
        "plain": linear,
        "floor": FloorDiv(linear, divisor),
        "mod": Mod(linear, divisor + 1),
        "both": FloorDiv(linear, divisor) + Mod(I1, 2),
    }[kind]
    body = copy(sympy.sympify(read), size[1] * size[2] * I0 + size[2] * I1 + I2)
    sizes = tuple(sympy.Integer(n) for n in size)
    new, outer, _ = canonicalise(body, sizes, (), int, False)
    assert accesses(new, outer) == accesses(body, sizes)


def test_contiguous_loops_become_one() -> None:
    body, outer, _ = canonicalise(copy(12 * I0 + 4 * I1 + I2, 12 * I0 + 4 * I1 + I2), _sizes(2, 3, 4), (), int, False)
    assert outer == (24,) and body.ops[0].index == I0


def test_a_broadcast_dimension_stays() -> None:
    _, outer, _ = canonicalise(copy(4 * I0 + I2, 12 * I0 + 4 * I1 + I2), _sizes(2, 3, 4), (), int, False)
    assert outer == (2, 3, 4)


def test_symbolic_sizes_merge() -> None:
    s0 = sympy.Symbol("s0", integer=True, positive=True)
    body = copy(s0 * I0 + I1, s0 * I0 + I1, 2)
    new, outer, _ = canonicalise(body, (sympy.Integer(8), s0), (), lambda e: 5, False)
    assert outer == (8 * s0,) and new.ops[0].index == I0


def test_inner_loops_follow_the_strides_of_the_load() -> None:
    def function(outer: object, inner: object) -> None:
        ops.store("y", I0, ops.reduce("sum", ops.load("x", 12 * I0 + R0 + 4 * R1)))

    body = record(function, [I0], [R0, R1], lambda name: torch.float32)
    new, _, inner = canonicalise(body, _sizes(5), _sizes(4, 3), int, False)
    assert inner == (12,) and new.ops[0].index == 12 * I0 + R0
    _, _, kept = canonicalise(body, _sizes(5), _sizes(4, 3), int, True)
    assert kept == (4, 3)


def _sizes(*values: int) -> tuple[sympy.Expr, ...]:
    return tuple(sympy.Integer(v) for v in values)
