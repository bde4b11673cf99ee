"""Expressions as plain data: every function comes back equal, through JSON."""

import json
import math

import pytest
import sympy

from symshapes import ExprWriter, FloorDiv, Mod, index_symbol, read_exprs, size_symbol
from symshapes.expr.floats import FLOAT_FUNCTIONS, constant

N, M, AT = size_symbol("s0"), size_symbol("s1"), index_symbol("i")
F = sympy.Symbol("f", real=True)

EXPRESSIONS = [
    *(sympy.Integer(k) for k in (0, -3, 2**70)),
    *(N + 1, N * M - 3 * AT, N**3, FloorDiv(N, 3), Mod(AT, N), FloorDiv(Mod(AT, 7), M), sympy.Max(N, M, 2), sympy.Min(N, 4)),
    *(sympy.Eq(N, M), sympy.Ne(N, 3), N < M, N <= 3, N > M, sympy.And(N > 3, M < 4), sympy.Or(N > 3, sympy.Not(M < AT))),
    *(sympy.true, sympy.false, constant(0.1), constant(2.0), constant(math.inf), constant(-math.inf)),
]  # fmt: skip


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=str)
def test_round_trip(expr) -> None:
    writer = ExprWriter()
    at = writer.place(expr)
    again = read_exprs(json.loads(json.dumps(writer.rows)))[at]
    assert again == expr and type(again) is type(expr)
    assert again.free_symbols == expr.free_symbols


@pytest.mark.parametrize("name", FLOAT_FUNCTIONS)
def test_functions_of_floats(name: str) -> None:
    kind = FLOAT_FUNCTIONS[name]
    expr = (
        kind(F, N)
        if (kind.text in "+-*/" and name != "FloatNeg")
        or name in ("FloatPow", "FloatMod", "FloatFloorDiv", "FloatMax", "FloatMin")
        else kind(F)
    )
    writer = ExprWriter()
    at = writer.place(expr)
    assert read_exprs(json.loads(json.dumps(writer.rows)))[at] == expr


def test_equal_numbers_of_two_kinds_and_shared_parts() -> None:
    """sympy takes 2 and 2.0 for equal."""
    writer = ExprWriter()
    places = [
        writer.place(e) for e in (sympy.Integer(2), constant(2.0), sympy.Integer(2), N * M + 1, FloorDiv(N * M + 1, 2))
    ]
    found = read_exprs(writer.rows)
    assert found[places[0]].is_Integer and found[places[1]].is_Float and found[places[2]].is_Integer
    assert sum(row[0] == "Mul" for row in writer.rows) == 1


def test_what_is_not_ours_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="sin"):
        ExprWriter().place(sympy.sin(N))
    for rows in ([["sin", 0]], [["Add", 5]], [["float", "x"]], [[]], [["int", "a"]]):
        with pytest.raises((KeyError, IndexError, ValueError, TypeError)):
            read_exprs(rows)
