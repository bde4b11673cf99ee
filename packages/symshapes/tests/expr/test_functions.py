"""Expressions mean what Python's integers mean."""

import copy
import operator
import pickle

import pytest
import sympy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from symshapes import FloorDiv, Max, Min, Mod, bound, evaluate, index_symbol, print_expr, size_symbol
from symshapes.expr.ranges import ValueRange
from symshapes.expr.terms import sum_of, terms_of

X, J = index_symbol("i"), index_symbol("j")
S, T = size_symbol("s"), size_symbol("t")
N = sympy.Symbol("n", integer=True)
SYMBOLS = (X, J, S, T, N)

LEAVES = st.one_of(st.sampled_from(SYMBOLS), st.integers(-20, 20).map(sympy.Integer))
DIVISORS = st.one_of(st.sampled_from([S, T, S * T, S + 1, 8 * S]), st.integers(-12, 32).filter(bool).map(sympy.Integer))
VALUES = st.tuples(st.integers(0, 300), st.integers(0, 40), st.integers(1, 9), st.integers(1, 9), st.integers(-50, 50))


def _grow(children):
    return st.one_of(
        st.tuples(st.sampled_from(["add", "sub", "mul", "max", "min"]), children, children),
        st.tuples(st.sampled_from(["floordiv", "mod"]), children, DIVISORS),
    )


TREES = st.recursive(LEAVES, _grow, max_leaves=8)
SYMBOLIC = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "max": Max,
    "min": Min,
    "floordiv": FloorDiv,
    "mod": Mod,
}
CONCRETE = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "max": max,
    "min": min,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
}


def build(tree):
    """The sympy expression of a tree."""
    if not isinstance(tree, tuple):
        return tree
    return SYMBOLIC[tree[0]](build(tree[1]), build(tree[2]))


def run(tree, values):
    """The value of a tree by Python's own operators."""
    if not isinstance(tree, tuple):
        return evaluate(tree, values)
    return CONCRETE[tree[0]](run(tree[1], values), run(tree[2], values))


@settings(max_examples=120, deadline=None)
@given(TREES, st.lists(VALUES, min_size=3, max_size=3))
def test_random_expressions_equal_python(tree, points):
    expr = build(tree)
    for point in points:
        values = dict(zip(SYMBOLS, point, strict=True))
        expected = run(tree, values)
        assert evaluate(expr, values) == expected
        named = {symbol.name: value for symbol, value in values.items()}
        assert eval(print_expr(expr, "python"), {"min": min, "max": max, "abs": abs}, named) == expected
        ranges = {symbol: ValueRange(value, value + 3) for symbol, value in values.items()}
        assert expected in bound(expr, ranges)
        assert expected in bound(expr, {})


@settings(max_examples=80, deadline=None)
@given(TREES)
@example(
    ("floordiv", ("add", ("add", SYMBOLS[0], SYMBOLS[0]), ("mod", SYMBOLS[0], 2)), 2)
)  # nothing is left of the remainder
def test_sums_are_built_as_sympy_builds_them(tree):
    expr = sympy.sympify(build(tree))
    assert sum_of(terms_of(expr)) == expr
    assert sum_of((3 * c, m) for c, m in terms_of(expr)) == sympy.Add(*[3 * arg for arg in sympy.Add.make_args(expr)])


@settings(max_examples=80, deadline=None)
@given(TREES)
def test_substitution_agrees_with_evaluation(tree):
    expr = build(tree)
    values = dict(zip(SYMBOLS, (17, 3, 2, 5, -7), strict=True))
    assert int(sympy.sympify(expr).xreplace({s: sympy.Integer(v) for s, v in values.items()})) == run(tree, values)


@pytest.mark.parametrize(
    ("expr", "simple"),
    [
        (FloorDiv(8 * X + 16, 8), X + 2),
        (FloorDiv(4 * X + 8 * J, 16), FloorDiv(X + 2 * J, 4)),
        (FloorDiv(8 * X + 3, 16), FloorDiv(X, 2)),
        (FloorDiv(FloorDiv(X, 3), 5), FloorDiv(X, 15)),
        (FloorDiv(Mod(X, 12), 4), Mod(FloorDiv(X, 4), 3)),
        (FloorDiv(Mod(X, 4), 12), sympy.S.Zero),
        (FloorDiv(S * T * 4, FloorDiv(S * T * 4, T)), T),
        (FloorDiv(S * T + S, T + 1), S),
        (FloorDiv(8 * S + 8, S + 1), sympy.Integer(8)),
        (FloorDiv(S * X, S * T), FloorDiv(X, T)),
        (FloorDiv(X, -3), FloorDiv(-X, 3)),
        (Mod(9 * X + 8 * J, 8), Mod(X, 8)),
        (Mod(8 * X + 3, 16), 8 * Mod(X, 2) + 3),
        (Mod(Mod(X, 16), 8), Mod(X, 8)),
        (Mod(Mod(X, 8) + J, 8), Mod(X + J, 8)),
        (Mod(Mod(-S, 8) + S, 8), sympy.S.Zero),
        (Mod(2 * Mod(X + 1, 4) + J, 8), Mod(2 * X + J + 2, 8)),
        (Mod(S * X + J, S), Mod(J, S)),
        (Mod(S * X, S * T), S * Mod(X, T)),
        (Mod(X, 1), sympy.S.Zero),
    ],
)
def test_simplified_when_built(expr, simple):
    assert expr == simple


def test_zero_divisors_are_pythons_error():
    with pytest.raises(ZeroDivisionError):
        FloorDiv(X, 0)
    with pytest.raises(ZeroDivisionError):
        Mod(X, 0)


def test_expressions_survive_copies_and_pickles():
    expr = FloorDiv(X, 3) + Mod(J, S)
    assert copy.deepcopy(expr) == expr
    assert pickle.loads(pickle.dumps(expr)) == expr
    assert FloorDiv(X, 3) is FloorDiv(X, 3)


def test_a_product_rounded_up_to_a_multiple_of_its_factor_is_itself():
    n, m = size_symbol("n"), size_symbol("m")
    assert FloorDiv(n * m + m - 1, m) == n
    assert FloorDiv(-1, sympy.Symbol("k", integer=True)).func is FloorDiv
