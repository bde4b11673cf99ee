"""The Triton device backend: pointwise kernels and reductions, persistent or looped.

Flows in: kernels. Flows out: one Python module of `@triton.jit` functions a graph, and callables that launch them.
"""

from __future__ import annotations

import copy
import hashlib
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from inductor.cache import DiskCache, own_room, usable
from inductor.device import BuildError, JointKernel, JointSource, Keep, Kernel, KernelCall, KernelSource
from inductor.ir.body import checks_positions
from inductor.traits import DeviceTraits
from inductor.triton.checks import IndexChecks
from inductor.triton.choices import Choices, Plan
from inductor.triton.expressions import ATOMIC_DTYPES
from inductor.triton.forms import only_blocks, plain, printed
from inductor.triton.joint import Layout, text_of, words_of
from inductor.triton.kernel import general_blocks, unsupported
from inductor.triton.product import FACTORS
from inductor.triton.product_tuning import ProductTunings
from inductor.triton.scans import sharing
from inductor.triton.tuning import SECTION, Group, Tuner
from symshapes import build_python

_HEADER = '''"""Generated kernels of one graph."""

import triton
import triton.language as tl

from inductor.triton import library, prelude, shared_rows
from inductor.triton.library import libdevice
from inductor.triton.prelude import floor_divide as floordiv, remainder as mod

'''


_HALVES = (torch.float16, torch.bfloat16)


class TritonBackend:
    """`DeviceBackend` for "cuda"; any device type may be given, which the interpreter's tests use."""

    file_suffix = ".py"

    def __init__(self, device_type: str = "cuda") -> None:
        self.device_type = device_type
        self._figures: tuple[bool, str | None] | None = None
        """Where kernels are timed: whether figures are kept on disk, and where."""
        self._products = ProductTunings(make_function, _make_timed, _finish)
        self.traits = DeviceTraits(
            shares_rows=False,
            accumulates=ATOMIC_DTYPES,
            casts_operands=device_type == "cpu",
            read_at_a_place=1.0,
            kept=8.0,
            channels_last=_HALVES,
            adds_bias_apart=True,
            aligned_products=_HALVES,
            misaligned_rows=True,
            scans=True,
            contractions=FACTORS,
            multiplies_by_library=True,
            converts_factors=True,
            summed_rows=(*_HALVES, torch.float32),
            fused_attention=_HALVES,
            raises_later=True,
            module=f"torch.{device_type}",
            recorder="inductor.triton.recorder:recorder_of" if device_type == "cuda" else None,
            draws_in_kernels=True,
            joins=4,
            keeps_totals=True,
        )

    def tuning(self, cache: bool, cache_dir: str | None) -> TritonBackend:
        """This backend, whose kernels are those that were the fastest when they were first launched."""
        made = copy.copy(self)
        made._figures = cache, cache_dir
        return made

    def _group(self, cache: bool, cache_dir: str | None) -> Group:
        """Of kernels that are to be timed."""
        return Group(DiskCache(SECTION, cache_dir) if cache else None, _facts_of)

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

    def prepare(self, *, compiling: bool) -> None:
        from inductor.triton import launcher  # noqa: PLC0415  (Triton may not be installed)
        from inductor.triton.library import INTERPRETED  # noqa: PLC0415  (Triton may not be installed)

        if not INTERPRETED and launcher.serves(torch.device(self.device_type, 0)):
            keep_to_own_folders()
            launcher.prepare_compiler() if compiling else launcher.prepare()

    def emit(self, kernel: Kernel) -> KernelSource:
        return plain(kernel)

    def emit_product(self, kernel: Kernel) -> KernelSource:
        return printed(kernel)

    def begin_products(self, sources: Sequence[KernelSource], keep: Keep) -> None:
        """The products of `fastest_products` of which no figures are kept, by all blocks that suit them."""
        self._products.begin(sources, keep, self.facts())

    def fastest_products(self, sources: Sequence[KernelSource], keep: Keep) -> Sequence[KernelSource]:
        """Products of matrices of known sizes, each by the fastest of the blocks that suit it."""
        return self._products.fastest(sources, keep, self.facts())

    def emit_joint(self, kernel: JointKernel) -> JointSource:
        return JointSource(kernel, text_of(Layout(kernel)))

    def module_text(self, sources: Sequence[KernelSource | JointSource]) -> str:
        return _HEADER + "\n\n".join(source.text for source in sources)

    def build(self, module_text: str, sources: Sequence[KernelSource]) -> Mapping[str, KernelCall]:
        """Execute the module; Triton itself compiles each kernel at its first launch and keeps it on disk by content."""
        keep_to_own_folders()
        functions = load_kernels(module_text, [source.kernel.name for source in sources])
        checks = IndexChecks(pinned=self.device_type == "cuda") if any(map(_checks, sources)) else None
        calls: dict[str, Any] = {}
        group = None if self._figures is None else self._group(*self._figures)
        for source in sources:
            name = source.kernel.name
            calls[name] = _launcher(functions[name], source, checks if _checks(source) else None, group)
        if checks is not None:
            calls |= {f"_mark_{self.device_type}": checks.mark, f"_settle_{self.device_type}": checks.settle}
        return calls

    def build_joint(self, module_text: str, sources: Sequence[JointSource]) -> Mapping[str, KernelCall]:
        """Execute the module; what is compiled then is kept by content, as for `build`."""
        keep_to_own_folders()
        functions = load_kernels(module_text, [source.kernel.name for source in sources])
        return {source.kernel.name: _joint_launcher(functions[source.kernel.name], source.kernel) for source in sources}


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
    for name, function in found.items():
        function._inductor_text, function._inductor_module = digest, text  # what it is compiled from
        _loaded[digest, name] = function
    return found


def _facts_of(device: torch.device) -> tuple[str, ...]:
    """Triton's version, and a GPU as far as kernels are faster or slower by it."""
    import triton  # noqa: PLC0415  (Triton may not be installed)

    if device.type != "cuda":
        return (triton.__version__,)
    found = torch.cuda.get_device_properties(device)
    facts = (found.name, found.major, found.minor, found.multi_processor_count, found.L2_cache_size)
    return (triton.__version__, *map(str, facts))


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


def _launcher(function: Any, source: KernelSource, checks: IndexChecks | None, group: Group | None) -> KernelCall:
    """A callable over the kernel's arguments, and the number it writes into where it checks positions."""
    from inductor.triton import launcher  # noqa: PLC0415  (Triton may not be installed)
    from inductor.triton.library import INTERPRETED  # noqa: PLC0415  (Triton may not be installed)

    kernel = source.kernel
    choices = Choices(kernel, function, make_function, only_blocks(source))
    if choices.points == 0:
        return lambda *args: None
    number = None if checks is None else checks.number
    if choices.words or source.settings:  # who shares rows has one form, and a product was timed before, if at all
        group = None
    if INTERPRETED or not launcher.serves(kernel.device):
        interpreted = Interpreted(choices, number)
        if group is not None:
            return interpreted.tuned(group.tuner(choices, source.text, interpreted))
        return _with_words(choices, interpreted.launch)
    if group is None:
        return _with_words(choices, launcher.make_call(choices, number))
    tuner = group.tuner(choices, source.text, launcher.Trials(choices, number))
    return launcher.make_call(choices, number, tuner.settled() or tuner.plan)


class Interpreted:
    """Launches of a kernel by Triton's own means, with which its interpreter goes, too; see `tuning.Runner`."""

    failures: tuple[type[Exception], ...] = (RuntimeError,)

    def __init__(self, choices: Choices, check: torch.Tensor | None) -> None:
        self._choices = choices
        self._extra = () if check is None else (check,)
        self._sizes = [k for k, arg in enumerate(choices.kernel.args) if arg.role == "size"]

    def launch(self, *args: Any) -> None:
        """By the heuristics, or whatever was taken in their place."""
        self._run(self._choices.plan(*(args[k] for k in self._sizes)), args)

    def tuned(self, tuner: Tuner) -> KernelCall:
        """By what is fastest."""
        if tuner.settled():
            return self.launch
        return lambda *args: self._run(tuner.plan(*args), args)

    def begin(self, form: int, arguments: Sequence[Any] | None) -> None:
        """It is compiled by its first launch."""

    def call(self, form: int, plan: Plan) -> KernelCall:
        """What launches a form by a plan."""
        return lambda *args: self._run(plan, args)

    def busy(self) -> bool:
        """Nothing is recorded."""
        return False

    def _run(self, plan: Plan, args: Sequence[Any]) -> None:
        points, form, block = plan
        if points > 0:
            blocks = self._choices.blocks[form]
            programs = (-(-points // block),)
            options = {"XBLOCK": blocks.x, "RBLOCK": blocks.r, **blocks.options}
            self._choices.function(form)[programs](*args, *self._extra, **options)


def _joint_launcher(function: Any, kernel: JointKernel) -> KernelCall:
    """A callable over the arguments of all parts."""
    from inductor.triton import joint_launcher, launcher  # noqa: PLC0415  (Triton may not be installed)
    from inductor.triton.library import INTERPRETED  # noqa: PLC0415  (Triton may not be installed)

    layout = Layout(kernel)
    grid = layout.grid()
    if not INTERPRETED and launcher.serves(kernel.device):
        return joint_launcher.make_call(function, layout, grid)
    sizes = [at for at, arg in enumerate(layout.args) if arg.role == "size"]

    def launch(*args: Any) -> None:
        starts, programs = grid(*(args[at] for at in sizes)) if callable(grid) else grid
        if programs > 0:
            words, aligned = words_of(layout, args, starts)
            table = torch.frombuffer(words, dtype=torch.int64).to(kernel.device)
            function[(programs,)](table, ALIGNED=aligned, num_warps=layout.warps)

    return launch


def _with_words(choices: Choices, call: KernelCall) -> KernelCall:
    """A call that brings the memory that programs tell each other totals by."""
    count, device = choices.words, choices.kernel.device
    if count == 0:
        return call
    return lambda *args: call(*args, torch.zeros(count, dtype=torch.int64, device=device))


def compile_joint_ahead(source: JointSource, *, arch: int = 90) -> bytes:
    """As `compile_ahead`, of kernels that are run by one launch."""
    from inductor.triton.signature import joint_source  # noqa: PLC0415  (Triton may not be installed)

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
    from inductor.triton.signature import source_of  # noqa: PLC0415  (Triton may not be installed)

    _require_compiler()
    blocks = only_blocks(source) or general_blocks(source.kernel)
    kernel = sharing(source.kernel, blocks)
    function = make_function(source.text, kernel.name)
    ast = source_of(function, kernel, blocks, bytes(len(kernel.args) // 8 + 1), narrow=False)
    return _cubin(ast, arch, blocks.options)


def _require_compiler() -> None:
    from inductor.triton.library import INTERPRETED  # noqa: PLC0415  (Triton may not be installed)

    if INTERPRETED:
        raise RuntimeError("TRITON_INTERPRET is set: kernels are bound to the interpreter and can't be compiled")
    keep_to_own_folders()


def _cubin(source: Any, arch: int, asked: dict[str, int]) -> bytes:
    import triton  # noqa: PLC0415  (Triton may not be installed)
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415  (Triton may not be installed)

    compiled = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=asked)
    return bytes(compiled.asm["cubin"])
