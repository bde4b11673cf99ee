"""Products of matrices by blocks: layouts of the factors, sizes around those of blocks and panels, and what follows the sum."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import sympy
import torch

from cpu_codegen.contraction import find_product
from inductor import Scalar, ops, prim

F32 = torch.float32
SIZES = [(2, 2, 2), (13, 5, 31), (14, 16, 32), (29, 40, 33), (57, 390, 70), (5, 1600, 7), (300, 64, 40)]
# Of rows that crowd a cache, of more blocks and panels than are packed together, and of more steps than are packed of all rows.
SIZES += [(40, 1024, 40), (1000, 20, 300), (100, 45000, 40), (200, 1000, 300), (200, 20000, 300)]
LAYOUTS: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "rows": lambda m, n: (n, 1),
    "columns": lambda m, n: (1, m),
    "far apart": lambda m, n: (3 * n, 2),
}
After = Callable[[Scalar, Any, Any], Scalar]


def multiplied(
    case: Any, sizes: Sequence[Any], strides: Sequence[Any], after: After | None = None, symbols: Any = ()
) -> Any:
    """out[m, n] = the sum over k of a[m, k] * b[k, n], and what `after` makes of it; strides of a, b and out."""
    m, k, n = sizes
    of_a, of_b, of_out = strides

    def body(outer: Any, inner: Any) -> None:
        (row, column), (step,) = outer, inner
        a = Scalar(ops.load("a", row * of_a[0] + step * of_a[1]))
        b = Scalar(ops.load("b", step * of_b[0] + column * of_b[1]))
        total = Scalar(ops.reduce("sum", (a * b).ref))
        made = total if after is None else after(total, row, column)
        ops.store("out", row * of_out[0] + column * of_out[1], made.ref)

    buffers = {"a": ("in", F32), "b": ("in", F32), "bias": ("in", F32), "out": ("out", F32)}
    made = case("x".join(map(str, ("product", m, k, n))), body, [m, n], [k], buffers, symbols)
    assert find_product(made.kernel, 8) is not None
    return made


def operand(size: tuple[int, int], stride: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Memory of a matrix and the matrix."""
    memory = torch.randn(1 + (size[0] - 1) * stride[0] + (size[1] - 1) * stride[1])
    return memory, memory.as_strided(size, stride)


@pytest.mark.parametrize(
    "a, b", [("rows", "rows"), ("rows", "columns"), ("columns", "rows"), ("far apart", "far apart")]
)
def test_layouts_and_sizes(isa: str, case: Any, compiled: Any, a: str, b: str) -> None:
    torch.manual_seed(0)
    strides = [(LAYOUTS[a](m, k), LAYOUTS[b](k, n), (n, 1)) for m, k, n in SIZES]
    calls = compiled([multiplied(case, *each) for each in zip(SIZES, strides, strict=True)])
    for (m, k, n), (of_a, of_b, _) in zip(SIZES, strides, strict=True):
        (memory, left), (other, right) = operand((m, k), of_a), operand((k, n), of_b)
        out = torch.full((m * n + 40,), -1.0)
        calls[f"productx{m}x{k}x{n}"](memory, other, torch.empty(n), out)
        exact = (left.double() @ right.double()).float()
        torch.testing.assert_close(out[: m * n].view(m, n), exact, atol=1e-4 * max(1, k / 1600) ** 0.5, rtol=1e-5)
        assert bool((out[m * n :] == -1).all())


def test_a_transposed_result(isa: str, case: Any, compiled: Any) -> None:
    m, k, n = 37, 50, 45
    (call,) = compiled([multiplied(case, (m, k, n), ((k, 1), (1, k), (1, m)))]).values()
    (a, left), (b, right), out = operand((m, k), (k, 1)), operand((k, n), (1, k)), torch.empty(n, m)
    call(a, b, torch.empty(n), out)
    torch.testing.assert_close(out.t(), left @ right, atol=1e-5, rtol=1e-5)


def test_what_follows_the_sum(isa: str, case: Any, compiled: Any) -> None:
    def after(total: Scalar, row: Any, column: Any) -> Scalar:
        position = Scalar(ops.to_dtype(ops.index_expr(row * 7 - column, torch.int64), F32))
        return prim.tanh(total + Scalar(ops.load("bias", column))) + position

    sizes = [(13, 8, 31), (28, 400, 64)]
    calls = compiled([multiplied(case, (m, k, n), ((k, 1), (1, k), (n, 1)), after) for m, k, n in sizes])
    for m, k, n in sizes:
        (a, left), (b, right), bias, out = (
            operand((m, k), (k, 1)),
            operand((k, n), (1, k)),
            torch.randn(n),
            torch.empty(m, n),
        )
        calls[f"productx{m}x{k}x{n}"](a, b, bias, out)
        wanted = torch.tanh(left @ right + bias) + torch.arange(m)[:, None] * 7 - torch.arange(n)
        torch.testing.assert_close(out, wanted, atol=1e-5, rtol=1e-5)


def test_batches_of_one_matrix_by_many(isa: str, case: Any, compiled: Any) -> None:
    batch, m, k, n = 5, 20, 33, 40

    def body(outer: Any, inner: Any) -> None:
        (at, row, column), (step,) = outer, inner
        factors = Scalar(ops.load("a", row * k + step)) * Scalar(ops.load("b", (at * k + step) * n + column))
        ops.store("out", (at * m + row) * n + column, ops.reduce("sum", factors.ref))

    buffers = {"a": ("in", F32), "b": ("in", F32), "out": ("out", F32)}
    (call,) = compiled([case("batches", body, [batch, m, n], [k], buffers)]).values()
    a, b, out = torch.randn(m, k), torch.randn(batch, k, n), torch.empty(batch, m, n)
    call(a, b, out)
    torch.testing.assert_close(out, a @ b, atol=1e-5, rtol=1e-5)


def test_sizes_known_when_called(isa: str, case: Any, compiled: Any) -> None:
    m, k = (sympy.Symbol(name, integer=True, nonnegative=True) for name in "mk")
    (call,) = compiled([multiplied(case, (m, k, 48), ((k, 1), (1, k), (48, 1)), symbols=(m, k))]).values()
    for rows, depth in [(1, 1), (1, 37), (3, 20), (4, 1000), (14, 384), (50, 385), (200, 1000), (3, 0), (0, 5)]:
        a, b, out = torch.randn(rows, depth), torch.randn(48, depth), torch.full((rows * 48 + 20,), -1.0)
        call(a, b, torch.empty(48), out, rows, depth)
        torch.testing.assert_close(out[: rows * 48].view(rows, 48), a @ b.t(), atol=1e-4, rtol=1e-5)
        assert bool((out[rows * 48 :] == -1).all())


def test_rounding_grows_little_with_the_depth(isa: str, case: Any, compiled: Any) -> None:
    m, k, n = 16, 20000, 32
    (call,) = compiled([multiplied(case, (m, k, n), ((k, 1), (1, k), (n, 1)))]).values()
    a, b, out = torch.randn(m, k), torch.randn(n, k), torch.empty(m, n)
    call(a, b, torch.empty(n), out)
    exact = a.double() @ b.double().t()
    one_by_one = torch.zeros(m, n)
    for step in range(k):
        one_by_one += a[:, step, None] * b[:, step]
    assert (out - exact).abs().mean() < 0.5 * (one_by_one - exact).abs().mean()


@pytest.mark.parametrize("threads", [1, 3, 7])
def test_any_number_of_threads(isa: str, case: Any, compiled: Any, threads: int) -> None:
    before = torch.get_num_threads()
    sizes = [(400, 100, 33), (30, 100, 600), (250, 64, 250)]
    calls = compiled([multiplied(case, (m, k, n), ((k, 1), (1, k), (n, 1))) for m, k, n in sizes])
    torch.set_num_threads(threads)
    try:
        for m, k, n in sizes:
            a, b, out = torch.randn(m, k), torch.randn(n, k), torch.full((m, n), torch.nan)
            calls[f"productx{m}x{k}x{n}"](a, b, torch.empty(n), out)
            torch.testing.assert_close(out, a @ b.t(), atol=1e-4, rtol=1e-5)
    finally:
        torch.set_num_threads(before)


def test_sums_that_meet_in_memory_run_in_order(case: Any) -> None:
    def body(outer: Any, inner: Any) -> None:
        (row, column), (step,) = outer, inner
        total = ops.reduce(
            "sum", (Scalar(ops.load("a", row * 8 + step)) * Scalar(ops.load("b", step * 9 + column))).ref
        )
        ops.store("out", column, total, "add")

    made = case("meeting", body, [7, 9], [8], {"a": ("in", F32), "b": ("in", F32), "out": ("inout", F32)})
    assert find_product(made.kernel, 8) is None


CLANG = next((name for name in ("clang++", *(f"clang++-{n}" for n in range(30, 15, -1))) if shutil.which(name)), None)


@pytest.mark.skipif(CLANG is None, reason="no clang++ is installed here")
def test_another_compiler(isa, case, compiled, monkeypatch):
    """clang++ has other builtins than g++."""
    monkeypatch.setenv("CXX", str(CLANG))
    one = multiplied(case, (29, 40, 33), ((40, 1), (1, 40), (33, 1)), lambda x, m, n: prim.exp(x))
    memory = {
        "a": torch.randn(29 * 40),
        "b": torch.randn(33 * 40),
        "bias": torch.empty(33),
        "out": torch.empty(29 * 33),
    }
    exact = (memory["a"].view(29, 40).double() @ memory["b"].view(33, 40).double().t()).exp()
    found = one.call(compiled([one]), memory)["out"]
    torch.testing.assert_close(found.view(29, 33).double(), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("columns", "rows", "depth", "transposed"),
    [
        (1, 200, 128, False),
        (1, 3, 70, True),
        (2, 100, 9, False),
        (2, 200, 128, True),
        (4, 1, 33, False),
        (4, 100, 9, True),
        (5, 3, 70, False),
        (5, 200, 128, True),
        (8, 200, 128, False),
        (8, 1, 33, True),
        (9, 100, 9, False),
        (9, 3, 70, True),
    ],
)
def test_few_columns_of_many_rows(isa, case, compiled, columns, rows, depth, transposed):
    """Vectors go over rows; what is behind the sums reads by columns, too."""

    def body(outer, inner):
        x = ops.load("x", (outer[0] * depth + inner[0]) if not transposed else inner[0] * rows + outer[0])
        total = ops.reduce("sum", ops.mul(x, ops.load("w", outer[1] * depth + inner[0])))
        ops.store("y", outer[0] * columns + outer[1], ops.add(total, ops.load("bias", outer[1])))

    buffers = {"x": ("in", F32), "w": ("in", F32), "bias": ("in", F32), "y": ("out", F32)}
    one = case("few", body, [rows, columns], [depth], buffers)
    memory = {"x": torch.randn(rows * depth), "w": torch.randn(columns * depth), "bias": torch.randn(columns)}
    memory["y"] = torch.full((rows * columns,), float("nan"))
    x = memory["x"].view(depth, rows).t() if transposed else memory["x"].view(rows, depth)
    exact = x.double() @ memory["w"].view(columns, depth).double().t() + memory["bias"].double()
    torch.testing.assert_close(
        one.call(compiled([one]), memory)["y"].view(rows, columns).double(), exact, rtol=1e-5, atol=1e-5
    )
