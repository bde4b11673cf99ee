"""Kernels with sizes that only a launch tells: the form that runs, and its results under Triton's interpreter."""

from __future__ import annotations

import importlib.util
import os

import pytest
import sympy
import torch

from inductor.device import Kernel, KernelArg
from inductor.ir.body import record
from inductor.ops import ops
from inductor.triton.blocks import HELD_LIMIT, INT32_LIMIT, LOOPED, Nature, choose
from inductor.triton.choices import Choices
from inductor.triton.extent import extent_of
from symshapes import FloorDiv, size_symbol

I0, R0 = sympy.symbols("i0 r0", integer=True, nonnegative=True)
S0, S1 = size_symbol("s0"), size_symbol("s1")
F32 = torch.float32


def softmax(columns=S1, rows=S0, length=None, dtype=F32):
    def function(i, r):
        x = ops.load("x", i[0] * columns + r[0])
        e = ops.exp(ops.sub(x, ops.reduce("max", x)))
        ops.store("y", i[0] * columns + r[0], ops.truediv(e, ops.reduce("sum", e)))

    return Kernel(
        name="softmax",
        device=torch.device("cpu"),
        outer_sizes=(sympy.sympify(rows),),
        inner_sizes=(sympy.sympify(length or columns),),
        body=record(function, (I0,), (R0,), lambda name: dtype),
        args=(
            KernelArg("x", "in", dtype),
            KernelArg("y", "out", dtype),
            KernelArg("s0", "size", torch.int64),
            KernelArg("s1", "size", torch.int64),
        ),
        symbols=(S0, S1),
        origins=("a test",),
    )


def choices(kernel):
    made = []
    found = Choices(kernel, "general", lambda text, name: made.append(text) or text)
    return found, made


def test_short_rows_stay_in_registers():
    found, made = choices(softmax())
    points, form, block = found.plan(300, 100)
    assert (points, found.blocks[form].r, block) == (300, 128, 16) and found.blocks[form].persistent
    assert "for start" not in found.function(form) and "for start" not in made[0]
    _, long, _ = found.plan(300, HELD_LIMIT + 1)
    assert not found.blocks[long].persistent and "for start" in found.function(long)


def test_forms_are_few():
    found, _ = choices(softmax())
    first = found.plan(4, 500)[1]
    assert [found.plan(4, length)[1] for length in (512, 300, 130, 200, 129)] == [first] * 5
    for length in range(1, 2 * HELD_LIMIT, 37):
        form = found.plan(4, length)[1]
        blocks = found.blocks[form]
        assert not blocks.persistent or length <= blocks.r <= 8 * length or length < 4
    assert len(found.blocks) < 12


@pytest.mark.parametrize(("rows", "columns", "wide"), [(1000, 1000, False), (2**16, 2**16, True), (2**31, 2, True)])
@pytest.mark.parametrize("dtype", [F32, torch.float64])
def test_positions_have_the_bits_they_need(rows, columns, wide, dtype):
    found, _ = choices(softmax(dtype=dtype))
    form = found.plan(rows, columns)[1]
    assert found.blocks[form].wide == wide
    if form:  # the general one has 64 bits
        assert ("tl.int32" in found.function(form), "tl.int64" in found.function(form)) == (not wide, wide)
    else:
        assert wide


def test_the_last_step_of_a_long_row_has_positions_too():
    length = INT32_LIMIT - LOOPED + 1
    assert choose(1, length, Nature(1, 4), length).wide
    assert not choose(1, length - 1, Nature(1, 4), length - 1).wide


def test_what_cancels_counts_too():
    """(s0 * s1 - s0 * (s1 - 1)) is s0, computed through large numbers."""
    extent = extent_of(softmax(columns=S0 * S1 - S0 * (S1 - 1), length=S1))
    assert extent.measure()(2**20, 2**12)[2] > INT32_LIMIT


def test_negative_numbers_reach_as_far():
    n = sympy.Symbol("s0", integer=True)
    kernel = softmax(columns=sympy.Integer(8) - n * 2**20, rows=4, length=8)
    assert extent_of(kernel).measure()(-5000, 0)[2] > INT32_LIMIT


def test_an_unknown_function_may_reach_anywhere():
    class Odd(sympy.Function):
        pass

    extent = extent_of(softmax(columns=FloorDiv(S1, 2), length=4))
    assert (
        extent.known == ((None,), 4, None) and extent.measure()(10, 100)[:2] == ((10,), 4) and extent.bounds is not None
    )
    extent = extent_of(softmax(columns=Odd(S1), length=4))
    assert extent.bounds is None and extent.measure()(10, 100) == ((10,), 4, None)


def test_what_is_known_is_not_asked():
    found, _ = choices(softmax(columns=100, rows=30))
    assert found.points == 30 and found.plan() == (30, 0, 4) and found.function(0) == "general"


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed in this environment")
@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="runs under Triton's interpreter")
def test_every_form_is_right():
    from inductor.triton import TritonBackend

    backend = TritonBackend("cpu")
    source = backend.emit(softmax())
    call = backend.build(backend.module_text([source]), [source])["softmax"]
    # A loop up to a number is more than the interpreter can run with numpy 2.5 (`int` of an array): test_gpu.py has long rows.
    for rows, columns in ((5, 7), (3, 100), (9, 1), (0, 4), (6, 100), (1, 4096), (6, 90)):
        x = torch.randn(rows, columns)
        y = torch.full_like(x, -1)
        call(x, y, rows, columns)
        torch.testing.assert_close(y, x.softmax(1))
