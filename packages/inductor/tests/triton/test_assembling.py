"""What NVIDIA's assembler gets wrong is not left to it; on a GPU `tests_integration/test_gpu.py` runs such a kernel."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from inductor_apart import compiled_apart

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed in this environment", allow_module_level=True)
from inductor.triton.assembling import without_pairs

PROGRAM = """
import subprocess, torch, aotgrad
from triton import knobs
from triton.backends.compiler import GPUTarget
from inductor import Options, prepare_graph
from inductor.api import lowered
from inductor.backends import Devices
from inductor.triton import TritonBackend
from inductor.triton.assembling import compile_kernel
from inductor.triton.building import make_function
from inductor.triton.nature import general_blocks
from inductor.triton.signature import source_of
from symshapes import FakeMode
backends, mode = {"cuda": TritonBackend()}, FakeMode()
def program(scores, relative):  # of positions, as speech models have them
    padded = torch.cat([relative.new_zeros(4, 21, 1), relative], -1).view(4, 42, 21)
    return (scores + padded[:, 1:].view(4, 21, 41)[..., :21]).softmax(-1)
with mode, torch.no_grad():
    fakes = [torch.empty(size, device="cuda") for size in ((4, 21, 21), (4, 21, 41))]
with torch.no_grad():
    traced = aotgrad.trace_inference(program, fakes)
prepare_graph(traced.graph, backends=backends)
plan = lowered(traced.module, traced.inputs, Options(autotune=False), Devices(backends))
(kernel,) = plan.kernels
source = backends["cuda"].emit(kernel)
blocks = general_blocks(kernel)
ast = source_of(make_function(source.text, kernel.name), kernel, blocks, bytes(1), narrow=False)
compiled, code = compile_kernel(ast, GPUTarget("cuda", 90, 32), blocks.options)
def pairs(cubin):
    with open("code.cubin", "wb") as file:
        file.write(cubin)
    told = subprocess.run([knobs.nvidia.nvdisasm.path, "-c", "code.cubin"], capture_output=True, text=True, check=True)
    return ".16x2" in told.stdout
print("add.s16x2" in compiled.asm["ptx"], pairs(compiled.kernel), pairs(code))
"""


def test_sums_of_pairs_are_two_sums() -> None:
    text = "\tadd.s16x2 \t%r3, %r1, %r2;\n\tadd.s32 \t%r4, %r3, %r2;\n\tmax.u16x2 \t%r5, %r3, %r2;\n"
    found = without_pairs(text)
    assert "16x2" not in found and found.count("add.s16 ") == 2 and found.count("max.u16 ") == 2
    assert "\tadd.s32 \t%r4, %r3, %r2;\n" in found


def test_kernels_have_no_sums_of_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is one of those that `ptxas` 12.8 got wrong: an address of each row."""
    monkeypatch.chdir(tmp_path)
    compiled_apart(PROGRAM, tmp_path, ["True True False"])
