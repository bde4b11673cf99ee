"""The Triton device backend: pointwise kernels and reductions, persistent or looped.

Flows in: kernels. Flows out: one Python module of `@triton.jit` functions a graph, and callables that launch them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import sympy

from inductor.device import BuildError, Kernel, KernelCall, KernelSource
from inductor.triton.blocks import Blocks, choose, product
from inductor.triton.expressions import TRITON_DTYPES
from inductor.triton.kernel import KernelPrinter, unsupported

_HEADER = '''"""Generated kernels of one graph."""

import triton
import triton.language as tl

from inductor.triton import library, prelude
from inductor.triton.library import libdevice

'''


class TritonBackend:
    """`DeviceBackend` for "cuda"; any device type may be given, which the interpreter's tests use."""

    file_suffix = ".py"

    def __init__(self, device_type: str = "cuda") -> None:
        self.device_type = device_type

    def supports(self, kernel: Kernel) -> bool:
        return unsupported(kernel) is None

    def emit(self, kernel: Kernel) -> KernelSource:
        return KernelSource(kernel, KernelPrinter(kernel).text())

    def module_text(self, sources: Sequence[KernelSource]) -> str:
        return _HEADER + "\n\n".join(source.text for source in sources)

    def build(self, module_text: str, sources: Sequence[KernelSource]) -> Mapping[str, KernelCall]:
        """Import the module; Triton itself compiles each kernel at its first launch and keeps it on disk by content."""
        module = load_module(module_text)
        return {s.kernel.name: _launcher(getattr(module, s.kernel.name), s.kernel) for s in sources}


def _source_directory() -> Path:
    root = os.environ.get("INDUCTOR_CACHE_DIR") or os.path.join(tempfile.gettempdir(), f"inductor_{os.getuid()}")
    path = Path(root) / "triton"
    path.mkdir(parents=True, exist_ok=True)
    return path


def load_module(text: str) -> ModuleType:
    """Import generated text from a file named by its content: Triton reads a kernel's source from its file."""
    name = f"inductor_triton_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    if name in sys.modules:
        return sys.modules[name]
    path = _source_directory() / f"{name}.py"
    if not path.exists():
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as file:
            file.write(text)
        os.replace(file.name, path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise BuildError(f"generated Triton source {path} is not Python: {error}") from error
    sys.modules[name] = module
    return module


def _launcher(function: Any, kernel: Kernel) -> KernelCall:
    """A callable over the kernel's arguments. The grid is a constant, or computed from the size arguments."""
    blocks = choose(kernel)
    count = product(kernel.outer_sizes)
    options = {"XBLOCK": blocks.x, "RBLOCK": blocks.r, "num_warps": blocks.warps}
    if count.is_Integer:
        programs = -(-int(count) // blocks.x)
        if programs == 0:
            return lambda *args: None
        bound = function[(programs,)]
        return lambda *args: bound(*args, **options)
    return _dynamic_launcher(function, kernel, blocks, options)


def _dynamic_launcher(function: Any, kernel: Kernel, blocks: Blocks, options: dict[str, int]) -> KernelCall:
    sizes = [k for k, arg in enumerate(kernel.args) if arg.role == "size"]
    symbols = [sympy.Symbol(kernel.args[k].name, integer=True, positive=True) for k in sizes]
    by_name = {str(symbol): symbol for symbol in product(kernel.outer_sizes).free_symbols}
    count: Callable[..., int] = sympy.lambdify(
        [by_name.get(str(symbol), symbol) for symbol in symbols], product(kernel.outer_sizes), modules="math"
    )

    def launch(*args: Any) -> None:
        programs = -(-count(*(args[k] for k in sizes)) // blocks.x)
        if programs:
            function[(programs,)](*args, **options)

    return launch


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
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from inductor.triton.library import INTERPRETED

    if INTERPRETED:
        raise RuntimeError("TRITON_INTERPRET is set: kernels are bound to the interpreter and can't be compiled")
    kernel, blocks = source.kernel, choose(source.kernel)
    function = getattr(load_module(_HEADER + source.text), kernel.name)
    signature = {
        arg.name: "i64" if arg.role == "size" else "*" + _signature_name(TRITON_DTYPES[arg.dtype])
        for arg in kernel.args
    }
    constants = {"XBLOCK": blocks.x, "RBLOCK": blocks.r}
    compiled = triton.compile(
        ASTSource(function, {**signature, **dict.fromkeys(constants, "constexpr")}, constexprs=constants),
        target=GPUTarget("cuda", arch, 32),
        options={"num_warps": blocks.warps},
    )
    return bytes(compiled.asm["cubin"])


def _signature_name(triton_dtype: str) -> str:
    """ "tl.float32" as "fp32", "tl.int64" as "i64": how Triton spells argument types."""
    name = triton_dtype.removeprefix("tl.")
    if name == "bfloat16":
        return "bf16"
    return name.replace("uint", "u").replace("int", "i").replace("float", "fp")
