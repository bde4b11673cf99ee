"""Indices from data: wrapping, errors, scatter; and loads that must not touch memory."""

from __future__ import annotations

import contextlib
import ctypes
import mmap

import pytest
import sympy
import torch

from inductor import ops

F32, I64 = torch.float32, torch.int64
N = sympy.Symbol("n", integer=True, nonnegative=True)
BUFFERS = {"at": ("in", I64), "x": ("in", F32), "y": ("out", F32)}


def pick(outer, inner):
    ops.store("y", outer[0], ops.load("x", ops.indirect(ops.load("at", outer[0]), 10)))


def pick_rows(outer, inner):
    ops.store("y", outer[0] * 8 + outer[1], ops.load("x", ops.indirect(ops.load("at", outer[0]), 10) * 8 + outer[1]))


@pytest.mark.parametrize("bad", [10, -11, 2**62, -(2**63)])
def test_index_out_of_range_raises(isa, case, compiled, bad):
    calls = compiled([case("pick", pick, [20], [], BUFFERS), case("pick_rows", pick_rows, [20, 8], [], BUFFERS)])
    at = torch.arange(20) % 20 - 10
    x = torch.randn(80)
    y = torch.empty(160)
    calls["pick"](at, x, y)
    assert torch.equal(y[:20], x[:10][at])
    calls["pick_rows"](at, x, y)
    assert torch.equal(y.view(20, 8), x.view(10, 8)[at])
    for position in (0, 7, 19):
        wrong = at.clone()
        wrong[position] = bad
        for call in calls.values():
            with pytest.raises(IndexError, match="index out of range"):
                call(wrong, x, y)


def test_index_into_nothing_raises(isa, case, compiled):
    def body(outer, inner):
        ops.store("y", outer[0], ops.load("x", ops.indirect(ops.load("at", outer[0]), N)))

    call = compiled([case("nothing", body, [9], [], BUFFERS, [N])])["nothing"]
    with pytest.raises(IndexError):
        call(torch.zeros(9, dtype=I64), torch.empty(0), torch.empty(9), 0)


def test_reduction_over_bad_index_raises(isa, case, compiled):
    def body(outer, inner):
        ops.store("y", outer[0], ops.reduce("sum", ops.load("x", ops.indirect(ops.load("at", inner[0]), 10))))

    call = compiled([case("reduced", body, [4], [33], BUFFERS)])["reduced"]
    at = torch.arange(33) % 10
    x, y = torch.randn(10), torch.empty(4)
    call(at, x, y)
    torch.testing.assert_close(y, x[at].sum().expand(4))
    at[32] = 10
    with pytest.raises(IndexError):
        call(at, x, y)


def test_masked_indirect_is_not_checked(isa, case, compiled):
    def body(outer, inner):
        mask = ops.lt(ops.index_expr(outer[0], I64), ops.constant(5, I64))
        value = ops.masked(mask, lambda: ops.load("x", ops.indirect(ops.load("at", outer[0]), 10)), 3.0)
        ops.store("y", outer[0], value)

    call = compiled([case("checked", body, [20], [], BUFFERS)])["checked"]
    at = torch.arange(20)
    at[10:] = 2**40
    x, y = torch.randn(10), torch.empty(20)
    call(at, x, y)
    assert torch.equal(y, torch.cat([x[:5], torch.full((15,), 3.0)]))
    at[4] = 10
    with pytest.raises(IndexError):
        call(at, x, y)


def test_scatter_add_counts_repeats(isa, case, compiled):
    def body(outer, inner):
        ops.store("y", ops.indirect(ops.load("at", outer[0]), 10), ops.load("x", outer[0]), mode="add")

    buffers = {"at": ("in", I64), "x": ("in", F32), "y": ("inout", F32)}
    one = case("scatter", body, [10_000], [], buffers)
    memory = {"at": torch.randint(-10, 10, (10_000,)), "x": torch.ones(10_000), "y": torch.zeros(10)}
    assert torch.equal(one.call(compiled([one]), memory)["y"], torch.bincount(memory["at"] % 10, minlength=10).float())


MODES = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@pytest.mark.parametrize("dtype", [F32, torch.float64, torch.int32, I64], ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_stores_combine_with_what_is_there(isa, case, compiled, mode, dtype):
    """Of each lane at a place of its own, and of neighbours at neighbouring places; NaN stays."""

    def body(outer, inner):
        value = ops.load("x", outer[0] * 37 + outer[1])
        row = ops.indirect(ops.load("at", outer[0]), 5)
        ops.store("y", row * 37 + outer[1], value, mode=mode)
        ops.store("z", row + 5 * outer[1], value, mode=mode)

    buffers = {"at": ("in", I64), "x": ("in", dtype), "y": ("inout", dtype), "z": ("inout", dtype)}
    one = case("combined", body, [12, 37], [], buffers)
    at, x = torch.arange(12) % 5, torch.randint(-3, 4, (12, 37)).to(dtype)
    start = torch.randint(-3, 4, (5, 37)).to(dtype)
    if dtype.is_floating_point:
        x[3, 4:20] = torch.nan
        start[2, 7] = torch.nan
    expected = start.scatter_reduce(0, at[:, None].expand_as(x), x, MODES[mode])
    memory = {"at": at, "x": x, "y": start.flatten(), "z": start.t().contiguous().flatten()}
    found = one.call(compiled([one]), memory)
    assert torch.allclose(found["y"].view(5, 37), expected, equal_nan=True, rtol=0, atol=0)
    assert torch.allclose(found["z"].view(37, 5).t(), expected, equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("turn", [40, 64, 200])
@pytest.mark.parametrize("columns", [64, 9000])
def test_what_is_added_to_one_place_is_added_for_every_point(isa, case, compiled, turn, columns):
    """Of an expanded index, and of values that are equal for many points: numbers, and such by conditions on a loop's variable."""

    def body(outer, inner):
        column = ops.index_expr(outer[1], I64)
        low = ops.lt(column, ops.constant(turn, I64))
        row = ops.indirect(ops.load("at", outer[0]), 3)
        ops.store("y", row, ops.where(low, ops.constant(1.0, F32), ops.constant(2.0, F32)), mode="add")
        ops.store("z", row, ops.constant(1.0, F32), mode="add")

    buffers = {"at": ("in", I64), "y": ("inout", F32), "z": ("inout", F32)}
    one = case("added", body, [5, columns], [], buffers)
    memory = {"at": torch.tensor([0, 2, 0, 2, 2]), "y": torch.zeros(3), "z": torch.zeros(3)}
    found = one.call(compiled([one]), memory)
    rows = torch.tensor([2.0, 0.0, 3.0])
    low = min(turn, columns)
    assert torch.equal(found["z"], rows * columns)
    assert torch.equal(found["y"], rows * (2 * columns - low))


def test_scatter_keeps_the_last_of_repeats(isa, case, compiled):
    def body(outer, inner):
        ops.store("y", ops.indirect(ops.load("at", outer[0]), 3), ops.load("x", outer[0]))

    buffers = {"at": ("in", I64), "x": ("in", F32), "y": ("out", F32)}
    one = case("scatter", body, [99], [], buffers)
    memory = {"at": torch.arange(99) % 3, "x": torch.arange(99.0), "y": torch.zeros(3)}
    assert one.call(compiled([one]), memory)["y"].tolist() == [96.0, 97.0, 98.0]


@contextlib.contextmanager
def end_of_page(count, dtype):
    """So many elements at the end of a page, after which no access is allowed."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address + page), page, 0) == 0
    try:
        yield torch.frombuffer(memory, dtype=torch.uint8, count=page)[page - count * dtype.itemsize :].view(dtype)
    finally:
        libc.mprotect(ctypes.c_void_p(address + page), page, 3)


@pytest.mark.parametrize("dtype", [F32, torch.float64, torch.bfloat16, torch.int16, torch.bool], ids=str)
def test_masked_loads_touch_no_memory(isa, case, compiled, dtype):
    """The buffer ends at the end of a page, after which no access is allowed."""
    limit = 37

    def body(outer, inner):
        mask = ops.lt(ops.index_expr(outer[0], I64), ops.constant(limit, I64))
        near = ops.masked(mask, lambda: ops.load("x", outer[0]), 0)
        far = ops.masked(mask, lambda: ops.load("x", outer[0] * 1000 - 999 * outer[0]), 0)
        ops.store("y", outer[0], ops.bitwise_or(near, far) if dtype is torch.bool else ops.maximum(near, far))

    compute = F32 if dtype is torch.bfloat16 else dtype
    one = case("masked", body, [100], [], {"x": ("in", dtype), "y": ("out", compute)})
    call = compiled([one])["masked"]
    with end_of_page(limit, dtype) as x:
        x.copy_(torch.arange(1, limit + 1).to(dtype))
        y = torch.empty(100, dtype=compute)
        call(x, y)
        assert torch.equal(y[:limit], x.to(compute))
        assert not bool(y[limit:].any())


@pytest.mark.parametrize("dtype", [F32, torch.int32, torch.bfloat16], ids=str)
def test_every_other_element_up_to_the_end_of_memory(isa, case, compiled, dtype):
    def body(outer, inner):
        ops.store("y", outer[0], ops.load("x", 2 * outer[0]))

    compute = F32 if dtype is torch.bfloat16 else dtype
    counts = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40]
    cases = {n: case(f"alternate{n}", body, [n], [], {"x": ("in", dtype), "y": ("out", compute)}) for n in counts}
    calls = compiled(list(cases.values()))
    for n in counts:
        with end_of_page(2 * n - 1, dtype) as x:
            x.copy_(torch.arange(2 * n - 1).to(dtype))
            y = torch.empty(n, dtype=compute)
            calls[f"alternate{n}"](x, y)
            assert torch.equal(y, x[::2].to(compute))
