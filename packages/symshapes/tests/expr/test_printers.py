"""Printed text, run, gives the expression's value: Python by eval, C++ by a compiler where there is one."""

import shutil
import subprocess

import pytest
import sympy

from symshapes import FloorDiv, Max, Min, Mod, ValueRange, evaluate, index_symbol, print_expr, size_symbol
from symshapes.expr.floats import FLOAT_FUNCTIONS

X, J = index_symbol("i"), index_symbol("j")
S = size_symbol("s")
N = sympy.Symbol("n", integer=True)

EXPRESSIONS = [
    X,
    sympy.Integer(-3),
    8 * X - J + 3,
    -Mod(-N, 3),
    -FloorDiv(N, 3),
    5 - Mod(N, 3) * S,
    X - (J - S),
    FloorDiv(X, 2) * FloorDiv(J, 3),
    FloorDiv(FloorDiv(S, 2) * X + J, 7),
    Mod(X, S) * 4 + Mod(N, 5),
    Mod(Mod(X, 12) * J, 7),
    S**2 * 3 - N**3,
    Max(S, N, 4),
    Min(S + 1, 2 * N),
    sympy.Abs(N),
    (X + J) * (S - N),
    X + 2**40,
    sympy.Ne(Mod(X, 2), 0),
    sympy.And(sympy.Lt(X, S), sympy.Ge(N, -2)),
    sympy.Or(sympy.Lt(X, S), sympy.And(sympy.Ge(N, -2), sympy.Eq(J, 1))),
    sympy.Not(sympy.And(sympy.Lt(X, S), sympy.Ge(N, -2)), evaluate=False),
]
POINTS = [(0, 0, 1, -9), (5, 3, 4, -8), (17, 9, 2, 7), (100, 31, 6, 2)]


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=str)
def test_python_text(expr):
    text = print_expr(expr, "python")
    for point in POINTS:
        values = dict(zip((X, J, S, N), point, strict=True))
        assert eval(text, {}, {k.name: v for k, v in values.items()}) == evaluate(expr, values)


def test_signs_decide_between_operators_and_calls():
    assert print_expr(FloorDiv(X, 3), "cpp") == "i / 3"
    assert print_expr(FloorDiv(N, 3), "cpp") == "floordiv(n, 3)"
    assert print_expr(FloorDiv(N, 3), "cpp", {N: ValueRange(0, 9)}) == "n / 3"
    assert print_expr(Mod(X, S), "triton") == "i % s"
    assert print_expr(FloorDiv(X, S), "triton") == "i // s"
    assert print_expr(Mod(N, S), "triton") == "mod(n, s)"
    assert print_expr(-Mod(X, 3), "python") == "-(i % 3)"
    assert print_expr(X + 1, "python", names={X: "x.size(0)"}) == "x.size(0) + 1"
    assert print_expr(7) == "7"


def test_order_of_terms_does_not_depend_on_hashes():
    assert print_expr(3 + 64 * J + X * S) == "64*j + i*s + 3"


def test_what_has_no_text_is_an_error():
    with pytest.raises(NotImplementedError):
        print_expr(sympy.sin(S), "cpp")


PRELUDE = """
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
static int64_t floordiv(int64_t a, int64_t b) { int64_t q = a / b; return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q; }
static int64_t mod(int64_t a, int64_t b) { int64_t r = a % b; return (r != 0 && (r < 0) != (b < 0)) ? r + b : r; }
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_cpp_text(tmp_path):
    floats = [
        FLOAT_FUNCTIONS["IntTrueDiv"](S, 3),
        FLOAT_FUNCTIONS["FloatFloor"](FLOAT_FUNCTIONS["FloatMul"](FLOAT_FUNCTIONS["ToFloat"](S), 0.3)),
        FLOAT_FUNCTIONS["Sqrt"](FLOAT_FUNCTIONS["ToFloat"](S)),
        FLOAT_FUNCTIONS["FloatMax"](FLOAT_FUNCTIONS["ToFloat"](S), 2.5),
        FLOAT_FUNCTIONS["FloatNeg"](FLOAT_FUNCTIONS["ToFloat"](S)),
    ]
    lines = []
    expected = []
    for point in POINTS:
        values = dict(zip((X, J, S, N), point, strict=True))
        i, j, s, n = point
        lines.append(f"{{ [[maybe_unused]] int64_t i = {i}, j = {j}, s = {s}, n = {n};")
        for expr in [*EXPRESSIONS, *floats]:
            lines.append(f'printf("%.17g\\n", (double)({print_expr(expr, "cpp")}));')
            expected.append(float(evaluate(expr, values)))
        lines.append("}")
    source = tmp_path / "text.cpp"
    source.write_text(PRELUDE + "int main() {\n" + "\n".join(lines) + "\n}\n")
    subprocess.run(["g++", "-std=c++17", "-O0", "-o", tmp_path / "text", source], check=True)
    out = subprocess.run([tmp_path / "text"], check=True, capture_output=True, text=True).stdout
    assert [float(line) for line in out.split()] == expected
