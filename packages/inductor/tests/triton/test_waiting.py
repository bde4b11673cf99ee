"""Kernels wait for the launches before theirs by themselves, where a device has an instruction for that: before they touch any memory."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from inductor_apart import compiled_apart

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed in this environment", allow_module_level=True)

PROGRAM = """
import re, torch, aotgrad
from triton.backends.compiler import GPUTarget
from inductor import Options
from inductor.api import lowered
from inductor.backends import Devices
from inductor.triton import TritonBackend
from inductor.triton.assembling import compile_kernel
from inductor.triton.building import make_function
from inductor.triton.binary import Binary
from inductor.triton.forms import only_blocks, printed
from inductor.triton.nature import general_blocks
from inductor.triton.scans import sharing
from inductor.triton.signature import source_of
from symshapes import FakeMode
backends, mode = {"cuda": TritonBackend()}, FakeMode()
WAIT, MEMORY = r"griddepcontrol[.]wait", r"(ld|st|atom|red)[.][a-z.]*global|cp[.]async[.]c"
def check(program, *sizes):
    with mode, torch.no_grad():
        fakes = [torch.empty(size, dtype=torch.float16, device="cuda") for size in sizes]
    with torch.no_grad():
        traced = aotgrad.trace_inference(program, fakes, aotgrad.core_decompositions())
    for kernel in lowered(traced.module, traced.inputs, Options(autotune=False), Devices(backends)).kernels:
        source = printed(kernel)
        blocks = only_blocks(source) or general_blocks(kernel)
        kernel = sharing(kernel, blocks)
        function = make_function(source.text, kernel.name)
        ast = source_of(function, kernel, blocks, bytes([255] * (len(kernel.args) // 8 + 1)), narrow=False)
        for arch in (80, 90):
            made = compile_kernel(ast, GPUTarget("cuda", arch, 32), blocks.options)
            made, binary = made[0], Binary.of(*made)
            found = [m.start() for m in re.finditer(WAIT, made.asm["ptx"])]
            first = re.search(MEMORY, made.asm["ptx"]).start()
            early = binary.early
            assert Binary.read(binary.files()) == binary
            assert "launch_dependents" not in made.asm["ptx"]
            print(kernel.body.ops[-1].mode, blocks.stages, blocks.shared, arch, len(found), early, not found or found[0] < first)
check(lambda x: x.exp(), (4096, 64))
check(lambda x: x.sum(0), (16384, 1024))
check(lambda x: x.cumsum(-1), (2, 1 << 16))
check(lambda x, y: x @ y, (256, 256), (256, 256))
"""


def test_kernels_wait_before_they_touch_memory(tmp_path: Path) -> None:
    """Elementwise; columns whose next steps are on their way; what adds them up; rows that programs share; products."""
    kinds = ["1 False", "4 False", "1 False", "1 True", "4 False"]
    expected = [f"None {kind} {rest}" for kind in kinds for rest in ("80 0 False True", "90 1 True True")]
    compiled_apart(PROGRAM, tmp_path, expected)
