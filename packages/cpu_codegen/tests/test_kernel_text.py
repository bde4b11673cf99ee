"""The printed kernels, as text."""

from __future__ import annotations

import sympy
import torch

from cpu_codegen import CpuBackend
from cpu_codegen.types import literal
from inductor import ops

F32 = torch.float32


def test_pointwise_text(case, golden, monkeypatch):
    monkeypatch.setenv("CPU_CODEGEN_ISA", "avx2")
    n = sympy.Symbol("s0", integer=True, nonnegative=True)

    def body(outer, inner):
        x = ops.load("arg0", outer[0] * 768 + outer[1])
        y = ops.add(x, ops.load("bias", outer[1]))
        ops.store("buf0", outer[0] * 768 + outer[1], ops.maximum(y, ops.constant(0.0, F32)))

    buffers = {"arg0": ("in", F32), "bias": ("in", torch.bfloat16), "buf0": ("out", F32)}
    one = case("fused_add_relu", body, [n, 768], [], buffers, [n])
    golden("pointwise", CpuBackend().emit(one.kernel).text)


def test_softmax_text(case, golden, monkeypatch):
    monkeypatch.setenv("CPU_CODEGEN_ISA", "avx2")

    def body(outer, inner):
        at = outer[0] * 1000 + inner[0]
        x = ops.load("arg0", at)
        e = ops.exp(ops.sub(x, ops.reduce("max", x)))
        ops.store("buf0", at, ops.truediv(e, ops.reduce("sum", e)))

    one = case("fused_softmax", body, [64], [1000], {"arg0": ("in", F32), "buf0": ("out", F32)})
    golden("softmax", CpuBackend().emit(one.kernel).text)


def test_unsupported_is_said(case):
    def body(outer, inner):
        ops.store("y", outer[0], ops.truediv(ops.load("x", outer[0]), ops.load("x", outer[0])))

    one = case("integers", body, [4], [], {"x": ("in", torch.int64), "y": ("out", torch.int64)})
    assert not CpuBackend().supports(one.kernel)


def test_any_name_will_do(case, compiled):
    """Kernels, buffers and sizes may be called like anything in C++ or in generated code."""
    n = sympy.Symbol("long", integer=True, nonnegative=True)

    def body(outer, inner):
        x = ops.add(ops.exp(ops.load("exp", outer[0])), ops.load("v0", outer[0]))
        ops.store("a.b", outer[0], ops.sub(x, ops.load("a_b", outer[0])))

    buffers = dict.fromkeys(("exp", "v0", "a_b"), ("in", F32)) | {"a.b": ("out", F32)}
    one = case("double", body, [n], [], buffers, [n])
    memory = {name: torch.zeros(5) for name in buffers}
    torch.testing.assert_close(one.call(compiled([one]), memory, {n: 5})["a.b"], torch.ones(5))


def test_numbers_beyond_an_integer_dtype_keep_their_lower_bits():
    numbers = {torch.int8: (300, 44), torch.uint8: (-1, 255), torch.int32: (2**32 + 5, 5), torch.int64: (2**64 - 3, -3)}
    for dtype, (given, kept) in numbers.items():
        assert literal(given, dtype) == literal(kept, dtype)
