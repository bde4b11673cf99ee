"""Index arithmetic against brute force: every simplification holds at every point."""

from __future__ import annotations

import itertools
import math
from typing import Any

import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from inductor.backends import traits_of
from inductor.handlers.interpreter import evaluate
from inductor.ir.builder import Builder
from inductor.ir.indexing import contiguous_strides, divide, groups, interval, linear_index, reshape_index
from inductor.ir.loops import outer_symbol

I0, I1 = outer_symbol(0), outer_symbol(1)
S0 = sympy.Symbol("s0", integer=True, positive=True)


def integers(values: Any) -> list[sympy.Expr]:
    return [sympy.sympify(v) for v in values]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.randoms())
def test_reshape_index_finds_the_same_element(old: list[int], random: Any) -> None:
    count = math.prod(old)
    new: list[int] = []
    while count > 1:
        factor = random.choice([f for f in range(2, count + 1) if count % f == 0])
        new.insert(random.randint(0, len(new)), factor)
        count //= factor
    new.insert(random.randint(0, len(new)), 1)
    symbols = [outer_symbol(d) for d in range(len(new))]
    index = reshape_index(symbols, integers(old), integers(new), dict(zip(symbols, integers(new), strict=True)))
    flat = linear_index(index, contiguous_strides(integers(old)))
    for number, point in enumerate(itertools.product(*map(range, new))):
        assert evaluate(flat, dict(zip(symbols, point, strict=True))) == number


@settings(max_examples=100, deadline=None)
@given(*(st.integers(0, 12) for _ in range(3)), *(st.integers(1, 6) for _ in range(3)))
def test_divide_is_exact(a: int, b: int, c: int, n0: int, n1: int, divisor: int) -> None:
    expr, ranges = a * I0 + b * I1 + c, {I0: sympy.Integer(n0), I1: sympy.Integer(n1)}
    quotient, remainder = divide(sympy.sympify(expr), sympy.Integer(divisor), ranges)
    for x, y in itertools.product(range(n0), range(n1)):
        at = {I0: x, I1: y}
        assert (evaluate(quotient, at), evaluate(remainder, at)) == divmod(a * x + b * y + c, divisor)


def test_symbolic_sizes_divide_without_floor() -> None:
    assert divide(S0 * I0 + I1, S0, {I0: sympy.Integer(4), I1: S0}) == (I0, I1)


def test_interval_of_a_difference() -> None:
    assert interval(I0 - I1, {I0: sympy.Integer(4), I1: sympy.Integer(3)}) == (-2, 3)


def test_groups_split_where_products_meet() -> None:
    assert groups(integers([2, 3, 4]), integers([6, 2, 2])) == (((0, 1), (0,)), ((2,), (1, 2)))
    assert groups([S0, sympy.Integer(8)], [S0, sympy.Integer(2), sympy.Integer(4)]) == (((0,), (0,)), ((1,), (1, 2)))
    assert groups([S0, sympy.Integer(8)], [8 * S0]) == (((0, 1), (0,)),)


def test_a_block_of_memory_is_told_from_holes_and_overlaps() -> None:
    def is_dense(size: Any, stride: Any) -> bool:
        return Builder((), traits_of).is_dense(integers(size), integers(stride))

    assert is_dense((2, 3), (3, 1)) and is_dense((2, 3), (1, 2)) and is_dense((2, 1), (1, 7)) and is_dense((), ())
    assert not is_dense((2, 1), (3, 1))  # every third element
    assert not is_dense((2, 3), (0, 1)) and not is_dense((2, 3), (4, 1)) and not is_dense((S0, 2), (3, 1))
    assert is_dense((S0, 2), (2, 1)) and is_dense((2, S0), (S0, 1)) and not is_dense((2, S0), (S0, 2))
