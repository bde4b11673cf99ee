"""What the compiler for a GPU can tell of addresses: which elements the points of a thread have in common, and that no digit of a
position is negative."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import pytest
import sympy
import torch
from inductor_apart import compiled_apart

from inductor.device import Kernel, KernelArg
from inductor.ir.body import record
from inductor.ops import ops

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed in this environment", allow_module_level=True)
from inductor.triton import TritonBackend

PROGRAM = """
import re, torch, torch.nn.functional as F, aotgrad, triton
from triton.backends.compiler import GPUTarget
from inductor import Options
from inductor.api import lowered
from inductor.backends import Devices
from inductor.triton import TritonBackend
from inductor.triton.building import make_function
from inductor.triton.nature import general_blocks
from inductor.triton.signature import source_of
from symshapes import FakeMode
backends, mode = {"cuda": TritonBackend()}, FakeMode()
def check(program, *size):
    with mode, torch.no_grad():
        fakes = [torch.empty(size, dtype=torch.float16, device="cuda")]
    with torch.no_grad():
        traced = aotgrad.trace_inference(program, fakes, aotgrad.core_decompositions())
    (kernel,) = lowered(traced.module, traced.inputs, Options(autotune=False), Devices(backends)).kernels
    blocks, function = general_blocks(kernel), make_function(backends["cuda"].emit(kernel).text, kernel.name)
    ast = source_of(function, kernel, blocks, bytes([255]), narrow=False)
    ptx = triton.compile(ast, target=GPUTarget("cuda", 90, 32), options=blocks.options).asm["ptx"]
    loads = re.findall(r"ld[.]global[.]b16 .*?\\[ *(%rd[0-9]+)", ptx)
    print(len(loads), len(set(loads)), "shr.s32" in ptx, "ex2.approx.ftz.f32" in ptx, "ex2.approx.f32" in ptx)
check(lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), 64, 64, 64, 64)
check(lambda x: F.interpolate(x, scale_factor=2.0), 64, 64, 64, 64)
check(lambda x: x.softmax(-1), 512, 30522)
"""


def test_what_neighbours_have_in_common_is_loaded_once(tmp_path: Path) -> None:
    """Of the elements of a doubled image; each digit of a position is a few bits of it. Exponentials that are only summed take two
    instructions."""
    compiled_apart(PROGRAM, tmp_path, ["64 28 False False False", "16 10 False False False", "0 0 False True False"])


def test_digits_are_taken_of_unsigned_numbers_where_their_base_is_known() -> None:
    I0, I1, N = sympy.symbols("i0 i1 n0", integer=True, nonnegative=True)

    def apart(o: Sequence[sympy.Symbol], r: Sequence[sympy.Symbol]) -> None:
        ops.store("y", 16 * o[0] + o[1], ops.load("x", 8 * o[0] + o[1]))

    body = record(apart, (I0, I1), (), lambda name: torch.float32)
    args = (KernelArg("x", "in", torch.float32), KernelArg("y", "out", torch.float32))
    size = KernelArg("n0", "size", torch.int64)
    for last, given, signed in ((sympy.Integer(8), args, False), (N, (*args, size), True)):
        kernel = Kernel("kernel", torch.device("cpu"), (sympy.Integer(3), last), (), body, given, (), ())
        assert ("x_index.to(tl.uint" in TritonBackend("cpu").emit(kernel).text) != signed
