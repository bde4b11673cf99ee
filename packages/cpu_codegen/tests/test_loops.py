"""Loop shapes: tails of every length, empty loops, dynamic sizes, merged and permuted loops, sums of many values."""

from __future__ import annotations

import pytest
import sympy
import torch

from cpu_codegen import CpuBackend
from cpu_codegen.kernel import print_kernel
from inductor import ops

F32 = torch.float32
N = sympy.Symbol("n", integer=True, nonnegative=True)
M = sympy.Symbol("m", integer=True, nonnegative=True)


def double(outer, inner):
    ops.store("y", outer[0], ops.add(ops.load("x", outer[0]), ops.load("x", outer[0])))


@pytest.mark.parametrize(
    "dtype",
    [F32, torch.float64, torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool, torch.bfloat16, torch.float16],
    ids=str,
)
def test_tails_write_nothing_beyond(isa, case, compiled, dtype):
    one = case("double", double, [N], [], {"x": ("in", dtype), "y": ("out", dtype)}, [N])
    call = compiled([one])["double"]
    for n in range(71):
        x = torch.arange(1, n + 1).to(dtype)
        y = torch.full((n + 20,), 1).to(dtype)
        call(x, y, n)
        expected = (x | x) if dtype is torch.bool else x + x
        assert torch.equal(y[:n], expected), n
        assert torch.equal(y[n:], torch.full((20,), 1).to(dtype)), n


def test_row_reductions_of_every_length(isa, case, compiled):
    def body(outer, inner):
        x = ops.load("x", outer[0] * N + inner[0])
        ops.store("sum", outer[0], ops.reduce("sum", x))
        ops.store("max", outer[0], ops.reduce("max", x))
        ops.store("at", outer[0], ops.reduce("argmin", x))

    buffers = {"x": ("in", F32), "sum": ("out", F32), "max": ("out", F32), "at": ("out", torch.int64)}
    one = case("rows", body, [M], [N], buffers, [M, N])
    call = compiled([one])["rows"]
    for n in range(1, 71):
        x = torch.randn(5, n).round(decimals=1)
        total, largest, at = torch.empty(5), torch.empty(5), torch.empty(5, dtype=torch.int64)
        call(x, total, largest, at, 5, n)
        torch.testing.assert_close(total, x.sum(1))
        assert torch.equal(largest, x.amax(1)), n
        assert torch.equal(at, torch.tensor([r.tolist().index(min(r.tolist())) for r in x])), n


def test_column_reductions_of_every_width(isa, case, compiled):
    def body(outer, inner):
        ops.store("y", outer[0], ops.reduce("sum", ops.load("x", inner[0] * N + outer[0])))

    call = compiled([case("columns", body, [N], [M], {"x": ("in", F32), "y": ("out", F32)}, [N, M])])["columns"]
    for n in range(1, 71):
        x = torch.randn(9, n)
        y = torch.full((n + 8,), -1.0)
        call(x, y, n, 9)
        torch.testing.assert_close(y[:n], x.sum(0))
        assert bool((y[n:] == -1).all())


@pytest.mark.parametrize("columns", [1, 5, 64, 70, 200])
def test_few_columns_of_many_points(isa, case, compiled, columns):
    """Threads share the points; what surrounds the reductions and the columns at the end of a tile stay right."""

    def body(outer, inner):
        scale = ops.load("scale", outer[0])
        x = ops.mul(ops.load("x", (inner[0] * 7 + inner[1]) * columns + outer[0]), scale)
        total, largest = ops.reduce("sum", x), ops.reduce("max", x)
        some = ops.reduce("any", ops.gt(x, ops.constant(4.0, F32)))
        ops.store("y", outer[0], ops.add(ops.where(some, total, largest), scale))

    buffers = {"x": ("in", F32), "scale": ("in", F32), "y": ("out", F32)}
    one = case("columns", body, [columns], [N, 7], buffers, [N])
    compiled_one = compiled([one])
    for n in (1, 63, 2000):
        memory = {"x": torch.randn(n * 7 * columns).round(), "scale": torch.ones(columns), "y": torch.empty(columns)}
        assert torch.equal(one.call(compiled_one, memory, {N: n})["y"], one.expected(memory, {N: n})["y"])


@pytest.mark.parametrize("columns", [5, 32, 70, 200])
def test_passes_over_few_columns_of_many_points(isa, case, compiled, columns):
    """Threads share the points of each pass, also what is stored for every point; a column's own stores happen once."""

    def body(outer, inner):
        at = inner[0] * columns + outer[0]
        x, old = ops.load("x", at), ops.load("running", outer[0])
        top = ops.reduce("max", x)
        y = ops.sub(x, ops.add(top, old))
        ops.store("x", at, y)
        total = ops.reduce("sum", y)
        ops.store("running", outer[0], ops.add(old, top))
        ops.store("z", at, ops.where(ops.gt(total, ops.constant(0.0, F32)), y, total))
        ops.store("total", outer[0], ops.mul(total, old))

    buffers = {"x": ("inout", F32), "running": ("inout", F32), "z": ("out", F32), "total": ("out", F32)}
    one = case("columns", body, [columns], [N], buffers, [N])
    compiled_one = compiled([one])
    assert "_parts1(" in CpuBackend().emit(one.kernel).text
    for n in (1, 63, 5000):
        # Small integers: sums are exact in any order.
        x, running = (torch.randint(-3, 4, (count,)).float() for count in (n * columns, columns))
        memory = {"x": x, "running": running, "z": torch.empty(n * columns), "total": torch.empty(columns)}
        found, expected = one.call(compiled_one, memory, {N: n}), one.expected(memory, {N: n})
        for name in buffers:
            assert torch.equal(found[name], expected[name]), name


def test_rows_written_in_place(isa, case, compiled):
    """A store into the buffer that a later pass loads again waits for that pass; so does one between lanes."""

    def rows(outer, inner):
        at = outer[0] * 40 + inner[0]
        x = ops.load("x", at)
        ops.store("x", at, ops.mul(x, ops.constant(3.0, F32)))
        ops.store("y", at, ops.sub(ops.load("x", at), ops.reduce("max", x)))

    def columns(outer, inner):
        at = inner[0] * 30 + outer[0]
        x = ops.load("x", at)
        ops.store("x", at, ops.mul(x, ops.constant(3.0, F32)))
        ops.store("y", at, ops.sub(x, ops.reduce("max", x)))

    buffers = {"x": ("inout", F32), "y": ("out", F32)}
    calls = compiled([case("rows", rows, [30], [40], buffers), case("columns", columns, [30], [40], buffers)])
    for name, dim, shape in (("rows", 1, (30, 40)), ("columns", 0, (40, 30))):
        x = torch.randn(shape)
        written, y = x.clone(), torch.empty(shape)
        calls[name](written, y)
        assert torch.equal(written, x * 3)
        assert torch.equal(y, x - x.amax(dim, keepdim=True))


def test_empty_loops(isa, case, compiled):
    def copy(outer, inner):
        ops.store("y", outer[0] * N + outer[1], ops.load("x", outer[0] * N + outer[1]))

    def total(outer, inner):
        ops.store("y", outer[0], ops.reduce("sum", ops.load("x", outer[0] * N + inner[0])))

    def full(outer, inner):
        ops.store("y", sympy.S.Zero, ops.reduce("sum", ops.load("x", inner[0])))

    buffers = {"x": ("in", F32), "y": ("out", F32)}
    calls = compiled(
        [
            case("copy", copy, [M, N], [], buffers, [M, N]),
            case("total", total, [M], [N], buffers, [M, N]),
            case("full", full, [], [N], buffers, [N]),
            case("static", lambda o, i: ops.store("y", o[0], ops.load("x", o[0])), [0], [], buffers),
        ]
    )
    nothing = torch.empty(0)
    calls["copy"](nothing, nothing, 0, 5)
    calls["copy"](nothing, nothing, 5, 0)
    calls["static"](nothing, nothing)
    y = torch.full((3,), 7.0)
    calls["total"](nothing, y, 3, 0)
    assert torch.equal(y, torch.zeros(3))
    calls["full"](nothing, y, 0)
    assert y[0] == 0


def test_sums_of_many_values_stay_accurate(isa, case, compiled):
    count = 3_000_000

    def full(outer, inner):
        ops.store("y", sympy.S.Zero, ops.reduce("sum", ops.load("x", inner[0])))

    def rows(outer, inner):
        ops.store("y", outer[0], ops.reduce("sum", ops.load("x", outer[0] * (count // 10) + inner[0])))

    def columns(outer, inner):
        ops.store("y", outer[0], ops.reduce("sum", ops.load("x", inner[0] * 10 + outer[0])))

    buffers = {"x": ("in", F32), "y": ("out", F32)}
    calls = compiled(
        [
            case("full", full, [], [count], buffers),
            case("rows", rows, [10], [count // 10], buffers),
            case("columns", columns, [10], [count // 10], buffers),
        ]
    )
    x = torch.rand(count, generator=torch.Generator().manual_seed(0))
    for name, exact, eager in (
        ("full", x.double().sum()[None], x.sum()[None]),
        ("rows", x.double().view(10, -1).sum(1), x.view(10, -1).sum(1)),
        ("columns", x.double().view(-1, 10).sum(0), x.view(-1, 10).sum(0)),
    ):
        y = torch.empty(exact.numel())
        calls[name](x, y)
        error = ((y.double() - exact) / exact).abs().max()
        assert error < max(2e-6, 4 * float(((eager.double() - exact) / exact).abs().max())), name


def test_full_reduction_does_not_depend_on_threads(case, compiled):
    def body(outer, inner):
        mean = ops.mul(ops.reduce("sum", ops.load("x", inner[0])), ops.constant(1e-6, F32))
        d = ops.sub(ops.load("x", inner[0]), mean)
        ops.store("y", sympy.S.Zero, ops.reduce("sum", ops.mul(d, d)))

    call = compiled([case("variance", body, [], [1_000_000], {"x": ("in", F32), "y": ("out", F32)})])["variance"]
    x = torch.randn(1_000_000)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            y = torch.empty(1)
            call(x, y)
            results.append(float(y))
    finally:
        torch.set_num_threads(before)
    assert len(set(results)) == 1
    torch.testing.assert_close(torch.tensor(results[0]), ((x - x.mean()) ** 2).sum(), rtol=1e-5, atol=0)


def test_variance_over_several_loops(isa, case, compiled):
    """Two passes that both fold partial sums, over lanes and beside each other."""
    count = 8 * 3000

    def by(index):
        def body(outer, inner):
            x = ops.load("x", index(outer[0], *inner))
            mean = ops.mul(ops.reduce("sum", x), ops.constant(1 / count, F32))
            d = ops.sub(x, mean)
            ops.store("y", outer[0], ops.reduce("sum", ops.mul(d, d)))

        return body

    buffers = {"x": ("in", F32), "y": ("out", F32)}
    calls = compiled(
        [
            case("planes", by(lambda c, n, p: (n * 64 + c) * 3000 + p), [64], [8, 3000], buffers),
            case("channels_last", by(lambda c, n, p: (n * 3000 + p) * 64 + c), [64], [8, 3000], buffers),
        ]
    )
    x, y = torch.randn(8, 64, 3000), torch.empty(64)
    exact = x.double().var((0, 2), correction=0) * count
    calls["planes"](x, y)
    torch.testing.assert_close(y.double(), exact, rtol=1e-5, atol=0)
    calls["channels_last"](x.transpose(1, 2).contiguous(), y)
    torch.testing.assert_close(y.double(), exact, rtol=1e-5, atol=0)


def test_transposed_and_broadcast_accesses(isa, case, compiled):
    def body(outer, inner):
        i, j, k = outer
        x = ops.load("x", k * 35 + j * 7 + i)
        ops.store("y", i * 45 + j * 9 + k, ops.mul(ops.add(x, ops.load("row", k)), ops.load("one", sympy.S.Zero)))

    buffers = {"x": ("in", F32), "row": ("in", F32), "one": ("in", F32), "y": ("out", F32)}
    one = case("transposed", body, [7, 5, 9], [], buffers)
    memory = {"x": torch.randn(9 * 35), "row": torch.randn(9), "one": torch.tensor([2.0]), "y": torch.empty(7 * 45)}
    call = compiled([one])
    assert torch.equal(one.call(call, memory)["y"], one.expected(memory)["y"])


@pytest.mark.parametrize("dtype", [F32, torch.int32, torch.float64, torch.bfloat16, torch.uint8, torch.bool], ids=str)
def test_transposed_copies_of_every_size(isa, case, compiled, dtype):
    """Whole tiles are turned around in registers, what is left over element by element."""
    sizes = [(17, 40), (64, 32), (70, 33), (129, 34), (31, 64)]

    def transposed(rows, columns):
        def body(outer, inner):
            i, j = outer
            ops.store("y", i * columns + j, ops.load("x", j * rows + i))

        return body

    buffers = {"x": ("in", dtype), "y": ("out", dtype)}
    cases = [
        case(f"t{rows}x{columns}", transposed(rows, columns), [rows, columns], [], buffers) for rows, columns in sizes
    ]
    calls = compiled(cases)
    for (rows, columns), one in zip(sizes, cases, strict=True):
        assert "turn(" in print_kernel(one.kernel, 16)
        x = (torch.arange(rows * columns) % 251).to(dtype).view(columns, rows)
        assert torch.equal(one.call(calls, {"x": x, "y": torch.empty(rows, columns, dtype=dtype)})["y"], x.t()), (
            rows,
            columns,
        )


@pytest.mark.parametrize("dtype", [F32, torch.float64, torch.bfloat16], ids=str)
def test_rows_normalised_and_stored_transposed(isa, case, compiled, dtype):
    """What is contiguous in the reduced loop is turned around once for a tile of rows; every pass reads the copy."""
    rows, columns = 37, 50

    def body(outer, inner):
        (i,), (j,) = outer, inner
        x = ops.load("x", i * columns + j)
        largest = ops.reduce("max", x)
        total = ops.reduce("sum", ops.sub(x, largest))
        ops.store("y", j * rows + i, ops.add(ops.sub(x, largest), total))

    one = case("turned_rows", body, [rows], [columns], {"x": ("in", dtype), "y": ("out", dtype)})
    assert "turn(" in print_kernel(one.kernel, 16)
    x = torch.randint(-4, 4, (rows, columns)).to(dtype)
    shifted = x - x.amax(1, keepdim=True)
    found = one.call(compiled([one]), {"x": x, "y": torch.empty(columns, rows, dtype=dtype)})["y"]
    assert torch.equal(found, (shifted + shifted.sum(1, keepdim=True)).t())


@pytest.mark.parametrize("masked", [False, True])
def test_what_is_slow_to_read_is_read_once_for_all_passes(isa, case, compiled, masked):
    rows, columns = 6, 96

    def body(outer, inner):
        (i,), (j,) = outer, inner
        if masked:
            first = ops.lt(ops.index_expr(j, torch.int64), ops.constant(40, torch.int64))
            a = ops.masked(first, lambda: ops.load("x", i * columns + j), 0.0)
            x = ops.where(first, a, ops.masked(ops.logical_not(first), lambda: ops.load("z", i * columns + j), 0.0))
        else:
            x = ops.load("x", j * rows + i)
        largest = ops.reduce("max", x)
        total = ops.reduce("sum", ops.sub(x, largest))
        # Not one dimension of the result is contiguous over rows: lanes are inner points.
        ops.store("y", i * columns + j, ops.add(ops.sub(x, largest), ops.mul(ops.load("w", i * columns + j), total)))

    memory = dict.fromkeys("xwz" if masked else "xw", ("in", F32)) | {"y": ("out", F32)}
    one = case("read_once", body, [rows], [columns], memory)
    text = CpuBackend().emit(one.kernel).text
    assert text.count("& v" if masked else "gather<F32>") == (2 if masked else 1), text
    given = {name: torch.randint(-4, 4, (rows * columns,)).float() for name in memory}
    assert_same(one.call(compiled([one]), given), one.expected(given))


@pytest.mark.parametrize("reached", [50, 51])
def test_rows_that_write_to_elements_of_their_own_run_beside_each_other(isa, case, compiled, reached):
    """Not where a position may lie in the next row."""
    rows, columns = 40, 3000

    def body(outer, inner):
        i, j = outer
        at = ops.indirect(ops.load("at", i * columns + j), reached)
        ops.store("y", i * 50 + at, ops.load("x", i * columns + j), "add")

    memory = {"at": ("in", torch.int64), "x": ("in", F32), "y": ("inout", F32)}
    one = case("rows_apart", body, [rows, columns], [], memory)
    text = CpuBackend().emit(one.kernel).text
    assert ("rows_apart_rows" in text) == (reached == 50) and ("in order" in text) == (reached == 51)
    given = {"at": torch.randint(0, 50, (rows * columns,)), "x": torch.randint(-9, 9, (rows * columns,)).float()}
    given["y"] = torch.zeros(rows * 50)
    calls = compiled([one])
    expected = one.expected(given)
    assert_same(one.call(calls, given), expected)
    given["at"][7] = reached
    with pytest.raises(IndexError):
        one.call(calls, given)


def assert_same(found, expected):
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


def _joined(outer, inner):
    """Three parts, the second looked up by rows; behind them a border."""
    at = ops.index_expr(outer[1], torch.int64)
    seven, forty, size = (ops.constant(n, torch.int64) for n in (7, 40, 61))
    first, second = ops.lt(at, seven), ops.logical_and(ops.ge(at, seven), ops.lt(at, forty))
    third = ops.logical_and(ops.ge(at, forty), ops.lt(at, size))

    def looked_up():
        row = ops.indirect(ops.load("rows", outer[0]), 5)
        return ops.load("b", row * 33 + outer[1] - 7)

    a = ops.masked(first, lambda: ops.load("a", outer[0] * 7 + outer[1]), 0.0)
    b = ops.masked(second, looked_up, 0.0)
    c = ops.masked(third, lambda: ops.load("c", outer[0] * 21 + outer[1] - 40), -2.5)
    ops.store("y", outer[0] * 64 + outer[1], ops.where(first, a, ops.where(second, b, c)))
    ops.store("in_c", outer[0] * 64 + outer[1], third)


JOINED = {"rows": ("in", torch.int64), "a": ("in", F32), "b": ("in", F32), "c": ("in", F32)}
JOINED |= {"y": ("out", F32), "in_c": ("out", torch.bool)}


def _joined_memory(rows, row):
    sizes = {"rows": rows, "a": rows * 7, "b": 5 * 33, "c": rows * 21, "y": rows * 64, "in_c": rows * 64}
    memory = {name: torch.randn(size).to(JOINED[name][1]) for name, size in sizes.items()}
    return {**memory, "rows": torch.full((rows,), row)}


def test_conditions_are_asked_once_for_a_range(isa, case, compiled):
    one = case("joined", _joined, [6, 64], [], JOINED)
    text = CpuBackend().emit(one.kernel).text
    assert "gather" not in text and "select" not in text, text
    memory = _joined_memory(6, 3)
    assert_same(one.call(compiled([one]), memory), one.expected(memory))


def test_ranges_of_long_rows(isa, case, compiled):
    """Rows in chunks, cut in ranges that do not end where chunks do."""

    def body(outer, inner):
        at = ops.index_expr(4 * outer[0] - 12001, torch.int64)
        behind = ops.gt(at, ops.constant(-1, torch.int64))
        end = ops.le(ops.index_expr(9000 - outer[0], torch.int64), ops.constant(0, torch.int64))
        x = ops.masked(behind, lambda: ops.load("x", outer[0] - 3001), 1.5)
        ops.store("y", outer[0], ops.where(end, ops.neg(x), x))

    one = case("shifted", body, [10007], [], {"x": ("in", F32), "y": ("out", F32)})
    assert "at_most(last, 3001)" in CpuBackend().emit(one.kernel).text
    memory = {"x": torch.randn(10007), "y": torch.empty(10007)}
    assert_same(one.call(compiled([one]), memory), one.expected(memory))


def test_positions_are_checked_where_they_are_read_alone(isa, case, compiled):
    one = case("joined", _joined, [2, 64], [], JOINED)
    with pytest.raises(IndexError):
        one.call(compiled([one]), _joined_memory(2, 5))

    def body(outer, inner):
        """The row is asked for at every point, but read at some."""
        inside = ops.lt(ops.index_expr(outer[1], torch.int64), ops.constant(20, torch.int64))
        row = ops.indirect(ops.load("rows", outer[0] * 64 + outer[1]), 5)
        ops.store("y", outer[0] * 64 + outer[1], ops.masked(inside, lambda: ops.load("b", row * 33), 0.0))

    buffers = {"rows": ("in", torch.int64), "b": ("in", F32), "y": ("out", F32)}
    other = case("asked", body, [2, 64], [], buffers)
    rows = torch.zeros(2, 64, dtype=torch.int64)
    rows[1, 50] = 5
    with pytest.raises(IndexError):
        other.call(compiled([other]), {"rows": rows.flatten(), "b": torch.randn(165), "y": torch.empty(128)})


def test_a_position_that_nobody_asks_for_is_zero(isa, case, compiled):
    """What is read by it under another condition."""

    def body(outer, inner):
        at = ops.index_expr(outer[1], torch.int64)
        inside = ops.ge(at, ops.constant(20, torch.int64))
        symbol = []

        def looked_up():
            symbol.append(ops.indirect(ops.load("rows", outer[0]), 5))
            return ops.load("b", symbol[0])

        x = ops.masked(inside, looked_up, 0.0)
        ops.store("y", outer[0] * 40 + outer[1], ops.add(x, ops.load("b", symbol[0] + 1)))

    one = case("zero", body, [3, 40], [], {"rows": ("in", torch.int64), "b": ("in", F32), "y": ("out", F32)})
    memory = {"rows": torch.tensor([4, 0, 2]), "b": torch.randn(6), "y": torch.empty(120)}
    assert_same(one.call(compiled([one]), memory), one.expected(memory))


def test_pairs_are_written_together(isa, case, compiled):
    def body(outer, inner):
        point, part = outer
        a, b = ops.load("a", point), ops.load("b", point)
        first = ops.lt(ops.index_expr(part, torch.int64), ops.constant(1, torch.int64))
        ops.store("y", 2 * point + part, ops.where(first, ops.add(a, b), ops.mul(a, b)))

    one = case("pairs", body, [N, 2], [], {"a": ("in", F32), "b": ("in", F32), "y": ("out", F32)}, [N])
    if isa != "scalar":
        assert "store_pairs(" in CpuBackend().emit(one.kernel).text
    call = compiled([one])["pairs"]
    for n in (0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40):
        a, b, y = torch.randn(n), torch.randn(n), torch.full((2 * n + 40,), -1.0)
        call(a, b, y, n)
        assert torch.equal(y[: 2 * n], torch.stack([a + b, a * b], -1).flatten())
        assert bool((y[2 * n :] == -1).all())


@pytest.mark.parametrize("reduced", [0, 1])
def test_of_a_pair_one_is_a_maximum(isa, case, compiled, reduced):
    """What is written beside it is there before the maximum is."""

    def body(outer, inner):
        (point,), (k,) = outer, inner
        values = [ops.load("a", point), ops.reduce("max", ops.load("b", 3 * point + k))]
        for at in (0, 1):
            ops.store("y", 2 * point + at, values[at ^ reduced ^ 1])

    one = case("pairs", body, [40], [3], {"a": ("in", F32), "b": ("in", F32), "y": ("out", F32)})
    memory = {"a": torch.randn(40), "b": torch.randn(120), "y": torch.empty(80)}
    assert_same(one.call(compiled([one]), memory), one.expected(memory))
