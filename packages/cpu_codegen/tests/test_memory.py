"""Indices from data: wrapping, errors, scatter; and loads that must not touch memory."""

from __future__ import annotations

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


def test_scatter_keeps_the_last_of_repeats(isa, case, compiled):
    def body(outer, inner):
        ops.store("y", ops.indirect(ops.load("at", outer[0]), 3), ops.load("x", outer[0]))

    buffers = {"at": ("in", I64), "x": ("in", F32), "y": ("out", F32)}
    one = case("scatter", body, [99], [], buffers)
    memory = {"at": torch.arange(99) % 3, "x": torch.arange(99.0), "y": torch.zeros(3)}
    assert one.call(compiled([one]), memory)["y"].tolist() == [96.0, 97.0, 98.0]


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
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address + page), page, 0) == 0
    try:
        whole = torch.frombuffer(memory, dtype=torch.uint8, count=page)
        x = whole[page - limit * dtype.itemsize :].view(dtype)
        x.copy_(torch.arange(1, limit + 1).to(dtype))
        y = torch.empty(100, dtype=compute)
        call(x, y)
        assert torch.equal(y[:limit], x.to(compute))
        assert not bool(y[limit:].any())
    finally:
        libc.mprotect(ctypes.c_void_p(address + page), page, 3)
