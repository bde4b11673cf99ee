"""Ranges of expressions hold every value that the expression takes within the ranges of its symbols."""

import itertools
import operator
from math import inf

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from symshapes import FloorDiv, Mod, ValueRange, bound, index_symbol, size_symbol
from symshapes.expr.ranges import UNKNOWN, add, floor_div, mod, mul, power

SPANS = st.tuples(st.integers(-9, 9), st.integers(0, 6)).map(lambda p: ValueRange(p[0], p[0] + p[1]))
RULES = [(add, operator.add), (mul, operator.mul), (floor_div, operator.floordiv), (mod, operator.mod)]


def values(span):
    return range(span.lower, span.upper + 1)


@given(SPANS, SPANS)
def test_rules_hold_all_results(a, b):
    for rule, compute in RULES:
        span = rule(a, b)
        for x, y in itertools.product(values(a), values(b)):
            if compute in (operator.floordiv, operator.mod) and y == 0:
                continue
            assert compute(x, y) in span
    for exponent in (1, 2, 3):
        assert all(x**exponent in power(a, exponent) for x in values(a))


@given(SPANS, SPANS, st.sampled_from(["lower", "upper", "both"]), st.booleans())
def test_rules_with_open_ends(a, b, end, first):
    """An open range must hold what any closed part of it gives."""
    closed = a if first else b
    opened = ValueRange(
        -inf if end in ("lower", "both") else closed.lower, inf if end in ("upper", "both") else closed.upper
    )
    for rule, _ in RULES:
        outer = rule(opened, b) if first else rule(a, opened)
        for reach in (0, 1, 5, 40):
            lower = closed.lower - reach if end in ("lower", "both") else closed.lower
            upper = closed.upper + reach if end in ("upper", "both") else closed.upper
            part = ValueRange(lower, upper)
            inner = rule(part, b) if first else rule(a, part)
            if inner == UNKNOWN:  # nothing but zero to divide by
                continue
            assert outer.lower <= inner.lower and inner.upper <= outer.upper


def test_bound():
    i, s = index_symbol("i"), size_symbol("s")
    ranges = {i: ValueRange(0, 7)}
    assert bound(8 * i + 3, ranges) == ValueRange(3, 59)
    assert bound(FloorDiv(i, 2), ranges) == ValueRange(0, 3)
    assert bound(Mod(i, 16), ranges) == ValueRange(0, 7)
    assert bound(s + i, {}) == ValueRange(1, inf)
    assert bound(sympy.Symbol("n", integer=True), {}) == UNKNOWN
    assert bound(10**400 * s, {}) == ValueRange(10**400, inf)
    assert bound(5, {}) == ValueRange(5, 5)


def test_empty_ranges_are_errors():
    with pytest.raises(ValueError, match="empty range"):
        ValueRange(3, 2)
    with pytest.raises(ValueError, match="empty range"):
        ValueRange(0, 2).intersect(ValueRange(3, 4))
