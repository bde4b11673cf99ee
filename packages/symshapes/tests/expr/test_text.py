"""Expressions print as one would write them, and are read back as they were."""

from __future__ import annotations

import pytest
import sympy

from symshapes import FloorDiv, Max, Mod, expr_text, parse_expr

I = sympy.Symbol("i", integer=True, nonnegative=True)  # noqa: E741
N = sympy.Symbol("n", integer=True, positive=True)
U = sympy.Symbol("u", integer=True)

WRITTEN = {
    "4*i + n": 4 * I + N,
    "n*(i // 4) + (i % 4) - 7": N * FloorDiv(I, 4) + Mod(I, 4) - 7,
    "(i + 3*n) // (n**2)": FloorDiv(I + 3 * N, N**2),
    "(i // 4) % n": Mod(FloorDiv(I, 4), N),
    "-(u // 3) + (((-u) % 3))**2": Mod(-U, 3) ** 2 - FloorDiv(U, 3),
    "(u // (u - 1))*Max(3, n)": Max(N, 3) * FloorDiv(U, U - 1),
    "-2": sympy.Integer(-2),
}


@pytest.mark.parametrize("text", WRITTEN)
def test_read_back(text: str) -> None:
    expr = WRITTEN[text]
    assert expr_text(expr) == text
    assert parse_expr(text, {"i": I, "n": N, "u": U}) == expr


@pytest.mark.parametrize("text", ["i +", "x", "i if n else 2", "__import__('os')", "i.free_symbols", "print(i)"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no expression"):
        parse_expr(text, {"i": I, "n": N})
