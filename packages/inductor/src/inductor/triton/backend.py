"""The Triton device backend: pointwise kernels and reductions, persistent or looped.

Flows in: kernels. Flows out: one Python module of `@triton.jit` functions a graph, and callables that launch them.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from inductor.cache import own_room, usable
from inductor.device import BuildError, Keep, Kernel, KernelCall, KernelSource
from inductor.ir.body import checks_positions
from inductor.traits import DeviceTraits
from inductor.triton.checks import IndexChecks
from inductor.triton.choices import Choices
from inductor.triton.expressions import ATOMIC_DTYPES
from inductor.triton.forms import only_blocks, printed
from inductor.triton.kernel import general_blocks, unsupported
from inductor.triton.product import FACTORS
from inductor.triton.tuning import Tunings
from symshapes import build_python

_HEADER = '''"""Generated kernels of one graph."""

import triton
import triton.language as tl

from inductor.triton import library, prelude
from inductor.triton.library import libdevice

'''


_HALVES = (torch.float16, torch.bfloat16)


class TritonBackend:
    """`DeviceBackend` for "cuda"; any device type may be given, which the interpreter's tests use."""

    file_suffix = ".py"

    def __init__(self, device_type: str = "cuda") -> None:
        self.device_type = device_type
        self._tunings = Tunings(make_function, _make_timed, _finish)
        self.traits = DeviceTraits(
            shares_rows=False,
            accumulates=ATOMIC_DTYPES,
            casts_operands=device_type == "cpu",
            channels_last=_HALVES,
            adds_bias_apart=True,
            aligned_products=_HALVES,
            contractions=FACTORS,
            multiplies_by_library=True,
            converts_factors=True,
            summed_rows=(*_HALVES, torch.float32),
            raises_later=True,
            module=f"torch.{device_type}",
            recorder="inductor.triton.recorder:recorder_of" if device_type == "cuda" else None,
            draws_in_kernels=True,
        )

    def supports(self, kernel: Kernel) -> bool:
        return unsupported(kernel) is None

    def facts(self) -> Mapping[str, str]:
        """Triton's version, and the GPUs: the choice of block sizes may depend on them."""
        import triton  # noqa: PLC0415  (Triton may not be installed)

        from inductor.triton.library import INTERPRETED  # noqa: PLC0415  (Triton may not be installed)

        found = {"triton": triton.__version__, "interpreted": str(INTERPRETED)}
        if torch.cuda.is_available():
            for at in range(torch.cuda.device_count()):
                found[f"device {at}"] = str(torch.cuda.get_device_properties(at))
        return found

    def emit(self, kernel: Kernel) -> KernelSource:
        return printed(kernel)

    def begin(self, sources: Sequence[KernelSource], keep: Keep) -> None:
        """The products of `tuned` of which no figures are kept, by all blocks that suit them."""
        self._tunings.begin(sources, keep, self.facts())

    def tuned(self, sources: Sequence[KernelSource], keep: Keep) -> Sequence[KernelSource]:
        """Products of matrices of known sizes, each by the fastest of the blocks that suit it."""
        return self._tunings.tuned(sources, keep, self.facts())

    def module_text(self, sources: Sequence[KernelSource]) -> str:
        return _HEADER + "\n\n".join(source.text for source in sources)

    def build(self, module_text: str, sources: Sequence[KernelSource]) -> Mapping[str, KernelCall]:
        """Execute the module; Triton itself compiles each kernel at its first launch and keeps it on disk by content."""
        keep_to_own_folders()
        functions = load_kernels(module_text, [source.kernel.name for source in sources])
        checks = IndexChecks(pinned=self.device_type == "cuda") if any(map(_checks, sources)) else None
        calls: dict[str, Any] = {}
        for source in sources:
            name = source.kernel.name
            calls[name] = _launcher(functions[name], source, checks if _checks(source) else None)
        if checks is not None:
            calls |= {f"_mark_{self.device_type}": checks.mark, f"_settle_{self.device_type}": checks.settle}
        return calls


def _checks(source: KernelSource) -> bool:
    return checks_positions(source.kernel.body.ops)


_loaded: weakref.WeakValueDictionary[tuple[str, str], Any] = weakref.WeakValueDictionary()
"""Kernels in use, by their module's digest and their name: what Triton compiled for one serves all."""


def keep_to_own_folders() -> None:
    """Let Triton, which loads what it finds in its cache folder as it is, use none where others may write: there, and where
    it can't write itself, a folder of our cache takes its place. What it finds is verified."""
    from triton import knobs  # noqa: PLC0415  (Triton may not be installed)

    from inductor.triton.files import verify_files  # noqa: PLC0415  (Triton may not be installed)

    verify_files()
    if not usable(Path(knobs.cache.dir)):
        knobs.cache.dir = str(own_room("triton"))


def load_kernels(text: str, names: Sequence[str]) -> dict[str, Any]:
    """Execute generated text and return these of its functions. No file is involved: Triton reads a kernel's source where
    `inspect` finds it, among the lines of generated text.

    Raises:
        BuildError: the text is no Python.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()[:24]
    known = {name: _loaded.get((digest, name)) for name in names}
    if all(function is not None for function in known.values()):
        return known
    listed = ", ".join(f"{name!r}: {name}" for name in names)
    try:
        found: dict[str, Any] = build_python(
            f"{text}\n\n_kernels = {{{listed}}}\n", {}, entry="_kernels", title="triton", path=f"<triton {digest}>"
        )
    except SyntaxError as error:
        raise BuildError(f"generated Triton source is not Python: {error}\n{text}") from error
    _loaded.update({(digest, name): function for name, function in found.items()})
    return found


def _make_timed(device: torch.device) -> Callable[[Choices], KernelCall] | None:
    """How kernels are called to be timed on a device; None where they are interpreted."""
    from inductor.triton import launcher  # noqa: PLC0415  (Triton may not be installed)
    from inductor.triton.library import INTERPRETED  # noqa: PLC0415  (Triton may not be installed)

    return None if INTERPRETED or not launcher.serves(device) else lambda choices: launcher.make_call(choices, None)


def _finish() -> None:
    from inductor.triton import launcher  # noqa: PLC0415  (Triton may not be installed)

    launcher.finish()


def make_function(text: str, name: str) -> Any:
    """The function of a kernel's text."""
    return load_kernels(_HEADER + text, [name])[name]


def _launcher(function: Any, source: KernelSource, checks: IndexChecks | None) -> KernelCall:
    """A callable over the kernel's arguments, and the number it writes into where it checks positions."""
    from inductor.triton import launcher  # noqa: PLC0415  (Triton may not be installed)
    from inductor.triton.library import INTERPRETED  # noqa: PLC0415  (Triton may not be installed)

    kernel = source.kernel
    choices = Choices(kernel, function, make_function, only_blocks(source))
    if choices.points == 0:
        return lambda *args: None
    if not INTERPRETED and launcher.serves(kernel.device):
        return launcher.make_call(choices, None if checks is None else checks.number)
    extra = () if checks is None else (checks.number,)
    sizes = [k for k, arg in enumerate(kernel.args) if arg.role == "size"]

    def launch(*args: Any) -> None:
        points, form, block = choices.plan(*(args[k] for k in sizes))
        if points > 0:
            blocks = choices.blocks[form]
            programs = (-(-points // block),)
            options = {"XBLOCK": blocks.x, "RBLOCK": blocks.r, **blocks.options}
            choices.function(form)[programs](*args, *extra, **options)

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
    import triton  # noqa: PLC0415  (Triton may not be installed)
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415  (Triton may not be installed)

    from inductor.triton.library import INTERPRETED  # noqa: PLC0415  (Triton may not be installed)
    from inductor.triton.signature import source_of  # noqa: PLC0415  (Triton may not be installed)

    if INTERPRETED:
        raise RuntimeError("TRITON_INTERPRET is set: kernels are bound to the interpreter and can't be compiled")
    keep_to_own_folders()
    kernel, blocks = source.kernel, only_blocks(source) or general_blocks(source.kernel)
    function = make_function(source.text, kernel.name)
    ast = source_of(function, kernel, blocks, bytes(len(kernel.args) // 8 + 1), narrow=False)
    compiled = triton.compile(ast, target=GPUTarget("cuda", arch, 32), options=blocks.options)
    return bytes(compiled.asm["cubin"])
