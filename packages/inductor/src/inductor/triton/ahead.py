"""Machine code of kernels for a GPU that need not be there.

Flows in: what `TritonBackend.emit` returned. Flows out: a cubin.
"""

from __future__ import annotations

from typing import Any

from triton.backends.compiler import GPUTarget

from inductor.device import JointSource, KernelSource
from inductor.triton.assembling import compile_kernel
from inductor.triton.building import make_function
from inductor.triton.forms import only_blocks
from inductor.triton.joint import Layout
from inductor.triton.machine import keep_to_own_folders
from inductor.triton.mode import INTERPRETED
from inductor.triton.nature import general_blocks
from inductor.triton.scans import sharing
from inductor.triton.signature import joint_source, source_of


def compile_joint_ahead(source: JointSource, *, arch: int = 90) -> bytes:
    """As `compile_ahead`, of kernels that are run by one launch."""

    _require_compiler()
    layout = Layout(source.kernel)
    function = make_function(source.text, source.kernel.name)
    return _cubin(joint_source(function, aligned=True), arch, {"num_warps": layout.warps})


def compile_ahead(source: KernelSource, *, arch: int = 90) -> bytes:
    """Machine code of a kernel for an NVIDIA compute capability (90: H100, H200), on a machine with or without a GPU.

    Args:
        source: what `TritonBackend.emit` returned.
        arch: compute capability times ten.

    Returns:
        The cubin.

    Raises:
        RuntimeError: under Triton's interpreter, which has no compiler.
    """

    _require_compiler()
    blocks = only_blocks(source) or general_blocks(source.kernel)
    kernel = sharing(source.kernel, blocks)
    function = make_function(source.text, kernel.name)
    ast = source_of(function, kernel, blocks, bytes(len(kernel.args) // 8 + 1), narrow=False)
    return _cubin(ast, arch, blocks.options)


def _require_compiler() -> None:
    if INTERPRETED:
        raise RuntimeError("TRITON_INTERPRET is set: kernels are bound to the interpreter and can't be compiled")
    keep_to_own_folders()


def _cubin(source: Any, arch: int, asked: dict[str, int]) -> bytes:
    return compile_kernel(source, GPUTarget("cuda", arch, 32), asked)[1]
