"""`simplify_with_ranges` keeps values for all indices in range."""

import itertools

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from symshapes import FloorDiv, Mod, evaluate, index_symbol, simplify_with_ranges, size_symbol

X, J, K = (index_symbol(name) for name in "ijk")
S, T = size_symbol("s0"), size_symbol("s1")

COEFFICIENTS = st.sampled_from([1, 2, 3, 4, 6, 8, 16, 24, -1, -8])


@st.composite
def index_expressions(draw):
    """Sums of scaled indices under nested divisions and remainders, as reshapes and permutes make them."""

    def affine():
        terms = draw(st.lists(st.tuples(COEFFICIENTS, st.sampled_from([X, J, K])), min_size=1, max_size=3))
        return sum((c * s for c, s in terms), sympy.Integer(draw(st.integers(-8, 8))))

    expr = affine()
    for _ in range(draw(st.integers(1, 4))):
        number = draw(st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16, 24]))
        kind = draw(st.sampled_from(["div", "mod", "both", "add"]))
        if kind == "div":
            expr = FloorDiv(expr, number)
        elif kind == "mod":
            expr = Mod(expr, number)
        elif kind == "both":
            expr = number * FloorDiv(expr, number) + Mod(expr, number)
        else:
            expr = expr * number + affine()
    return expr


@settings(max_examples=120, deadline=None)
@given(index_expressions(), st.tuples(*[st.sampled_from([1, 2, 3, 4, 8])] * 3))
def test_values_are_preserved(expr, sizes):
    simple = simplify_with_ranges(expr, dict(zip((X, J, K), sizes, strict=True)))
    for point in itertools.product(*map(range, sizes)):
        values = dict(zip((X, J, K), point, strict=True))
        assert evaluate(simple, values) == evaluate(expr, values)


SYMBOLIC_DIVISORS = st.sampled_from([S, T, S * T, 4 * S, S + 1])


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 4, S, T, S * T, S + 1, -1]), st.sampled_from([X, J, K])),
        min_size=1,
        max_size=3,
    ),
    st.lists(st.tuples(st.booleans(), SYMBOLIC_DIVISORS), min_size=1, max_size=3),
    st.tuples(*[st.sampled_from([S, T, S * T, sympy.Integer(4), S + 1])] * 3),
)
def test_values_are_preserved_with_symbolic_sizes(terms, steps, sizes):
    expr = sum((c * s for c, s in terms), sympy.S.Zero)
    for divides, divisor in steps:
        expr = FloorDiv(expr, divisor) if divides else Mod(expr, divisor)
    simple = simplify_with_ranges(expr, dict(zip((X, J, K), sizes, strict=True)))
    for s, t in ((1, 1), (2, 3), (3, 2), (4, 4)):
        lengths = [evaluate(size, {S: s, T: t}) for size in sizes]
        for point in itertools.product(*[sorted({0, length // 2, length - 1}) for length in lengths]):
            values = {S: s, T: t, **dict(zip((X, J, K), point, strict=True))}
            assert evaluate(simple, values) == evaluate(expr, values)


@pytest.mark.parametrize(
    ("expr", "sizes", "simple"),
    [
        (FloorDiv(8 * X + J, 8), {X: 4, J: 8}, X),
        (Mod(8 * X + J, 8), {X: 4, J: 8}, J),
        (8 * FloorDiv(X, 8) + Mod(X, 8), {X: 64}, X),
        (FloorDiv(8 * X + J, 16), {X: 4, J: 8}, FloorDiv(X, 2)),
        (Mod(8 * X + J, 16), {X: 4, J: 8}, 8 * Mod(X, 2) + J),
        (Mod(8 * X + J, 32), {X: 4, J: 8}, 8 * X + J),
        (64 * FloorDiv(X, 64) + 8 * Mod(FloorDiv(X, 8), 8) + Mod(X, 8), {X: 512}, X),
        (Mod(S * X + J, S), {X: T, J: S}, J),
        (FloorDiv(S * X + J, S), {X: T, J: S}, X),
        (Mod(FloorDiv(S * T * X + S * J + K, S), T), {X: 4, J: T, K: S}, J),
        (S * T * FloorDiv(X, S * T) + S * Mod(FloorDiv(X, S), T) + Mod(X, S), {X: 4 * S * T}, X),
        (FloorDiv(768 * X + J, 768 * S), {X: 4 * S, J: 768}, FloorDiv(X, S)),
        (Mod(768 * X + J, 768 * S), {X: 4 * S, J: 768}, 768 * Mod(X, S) + J),
        (X + 3 * J, {X: 1, J: 5}, 3 * J),
    ],
)
def test_reshapes_fold(expr, sizes, simple):
    assert simplify_with_ranges(expr, sizes) == simple
