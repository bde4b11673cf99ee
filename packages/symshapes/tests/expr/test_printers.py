"""Printed text, run, gives the expression's value: Python by eval, C++ by a compiler where there is one."""

import shutil
import subprocess

import pytest
import sympy
from symshapes import FloorDiv, Max, Min, Mod, ValueRange, evaluate, index_symbol, print_expr, size_symbol
from symshapes.expr.floats import FLOAT_FUNCTIONS

I, J = index_symbol("i"), index_symbol("j")
S = size_symbol("s")
N = sympy.Symbol("n", integer=True)

EXPRESSIONS = [
    I,
    sympy.Integer(-3),
    8 * I - J + 3,
    -Mod(-N, 3),
    -FloorDiv(N, 3),
    5 - Mod(N, 3) * S,
    I - (J - S),
    FloorDiv(I, 2) * FloorDiv(J, 3),
    FloorDiv(FloorDiv(S, 2) * I + J, 7),
    Mod(I, S) * 4 + Mod(N, 5),
    Mod(Mod(I, 12) * J, 7),
    S**2 * 3 - N**3,
    Max(S, N, 4),
    Min(S + 1, 2 * N),
    sympy.Abs(N),
    (I + J) * (S - N),
    I + 2**40,
    sympy.Ne(Mod(I, 2), 0),
    sympy.And(sympy.Lt(I, S), sympy.Ge(N, -2)),
    sympy.Or(sympy.Lt(I, S), sympy.And(sympy.Ge(N, -2), sympy.Eq(J, 1))),
    sympy.Not(sympy.And(sympy.Lt(I, S), sympy.Ge(N, -2)), evaluate=False),
]
POINTS = [(0, 0, 1, -9), (5, 3, 4, -8), (17, 9, 2, 7), (100, 31, 6, 2)]


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=str)
def test_python_text(expr):
    text = print_expr(expr, "python")
    for point in POINTS:
        values = dict(zip((I, J, S, N), point, strict=True))
        assert eval(text, {}, {k.name: v for k, v in values.items()}) == evaluate(expr, values)


def test_signs_decide_between_operators_and_calls():
    assert print_expr(FloorDiv(I, 3), "cpp") == "i / 3"
    assert print_expr(FloorDiv(N, 3), "cpp") == "floordiv(n, 3)"
    assert print_expr(FloorDiv(N, 3), "cpp", {N: ValueRange(0, 9)}) == "n / 3"
    assert print_expr(Mod(I, S), "triton") == "i % s"
    assert print_expr(FloorDiv(I, S), "triton") == "i // s"
    assert print_expr(Mod(N, S), "triton") == "mod(n, s)"
    assert print_expr(-Mod(I, 3), "python") == "-(i % 3)"
    assert print_expr(I + 1, "python", names={I: "x.size(0)"}) == "x.size(0) + 1"
    assert print_expr(7) == "7"


def test_order_of_terms_does_not_depend_on_hashes():
    assert print_expr(3 + 64 * J + I * S) == "64*j + i*s + 3" or print_expr(3 + 64 * J + I * S) == "i*s + 64*j + 3"


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
        values = dict(zip((I, J, S, N), point, strict=True))
        lines.append("{ int64_t i = %d, j = %d, s = %d, n = %d; (void)i; (void)j; (void)s; (void)n;" % point)
        for expr in [*EXPRESSIONS, *floats]:
            lines.append(f'printf("%.17g\\n", (double)({print_expr(expr, "cpp")}));')
            expected.append(float(evaluate(expr, values)))
        lines.append("}")
    source = tmp_path / "text.cpp"
    source.write_text(PRELUDE + "int main() {\n" + "\n".join(lines) + "\n}\n")
    subprocess.run(["g++", "-std=c++17", "-O0", "-o", tmp_path / "text", source], check=True)
    out = subprocess.run([tmp_path / "text"], check=True, capture_output=True, text=True).stdout
    assert [float(line) for line in out.split()] == expected
