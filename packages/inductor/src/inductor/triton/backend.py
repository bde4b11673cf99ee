"""The Triton device backend: pointwise kernels and reductions, persistent or looped.

Flows in: kernels. Flows out: one Python module of `@triton.jit` functions a graph, and callables that launch them.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from inductor._torch import CURRENT_CUDA_DEVICE
from inductor.cache import DiskCache
from inductor.device import JointKernel, JointSource, Keep, Kernel, KernelCall, KernelSource
from inductor.ir.body import checks_positions
from inductor.traits import DeviceTraits
from inductor.triton.checks import IndexChecks, Points
from inductor.triton.expressions import ATOMIC_DTYPES, FACTORS, HALVES
from inductor.triton.machine import Figures, facts_of, keep_to_own_folders

if TYPE_CHECKING:
    from inductor.triton.product_tuning import ProductTunings
    from inductor.triton.settled import Launches

# What prints and compiles kernels is imported where that happens: a process that launches what was compiled before needs none of it.
# Nor is Triton imported here, which may not be installed where kernels are only printed.


class TritonBackend:
    """`DeviceBackend` for "cuda"; any device type may be given, which the interpreter's tests use."""

    file_suffix = ".py"

    def __init__(self, device_type: str = "cuda") -> None:
        self.device_type = device_type
        self._figures = Figures(cache=True, folder=None)
        self._times = False
        """Whether the fastest of several forms of a kernel is taken."""
        self.traits = DeviceTraits(
            shares_rows=False,
            accumulates=ATOMIC_DTYPES,
            casts_operands=device_type == "cpu",
            read_at_a_place=1.0,
            kept=8.0,
            channels_last=HALVES,
            adds_bias_apart=True,
            aligned_products=HALVES,
            misaligned_rows=True,
            scans=True,
            contractions=FACTORS,
            multiplies_by_library=True,
            converts_factors=True,
            summed_rows=(*HALVES, torch.float32),
            fused_attention=HALVES,
            raises_later=True,
            module=f"torch.{device_type}",
            current=CURRENT_CUDA_DEVICE if device_type == "cuda" else None,
            recorder="inductor.triton.recorder:recorder_of" if device_type == "cuda" else None,
            draws_in_kernels=True,
            tells_state=device_type == "cuda",
            joins=4,
            keeps_totals=True,
        )

    def keeping(self, cache: bool, cache_dir: str | None) -> TritonBackend:
        """This backend, of whose kernels it is kept there how they are launched."""
        made = copy.copy(self)
        made._figures = Figures(cache, cache_dir)
        return made

    def tuning(self, cache: bool, cache_dir: str | None) -> TritonBackend:
        """This backend, whose kernels are those that were the fastest when they were first launched."""
        made = self.keeping(cache, cache_dir)
        made._times = True
        return made

    def supports(self, kernel: Kernel) -> bool:
        from inductor.triton.kernel import unsupported  # noqa: PLC0415  (see above)

        return unsupported(kernel) is None

    def facts(self) -> Mapping[str, str]:
        """Triton's version, and the GPUs: the choice of block sizes may depend on them."""
        import triton  # noqa: PLC0415  (see above)

        from inductor.triton.mode import INTERPRETED  # noqa: PLC0415  (see above)

        found = {"triton": triton.__version__, "interpreted": str(INTERPRETED)}
        if torch.cuda.is_available():
            for at in range(torch.cuda.device_count()):
                found[f"device {at}"] = str(torch.cuda.get_device_properties(at))
        return found

    def prepare(self, *, compiling: bool) -> None:
        from inductor.triton import native  # noqa: PLC0415  (see above)
        from inductor.triton.mode import INTERPRETED  # noqa: PLC0415  (see above)

        if INTERPRETED or self.device_type != "cuda" or not native.may_serve():
            return
        keep_to_own_folders()
        if compiling:
            from inductor.triton import launcher  # noqa: PLC0415  (see above)

            launcher.prepare_compiler()
        else:
            native.prepare()

    def emit(self, kernel: Kernel) -> KernelSource:
        from inductor.triton.forms import plain  # noqa: PLC0415  (see above)

        return plain(kernel)

    def emit_product(self, kernel: Kernel) -> KernelSource:
        from inductor.triton.forms import printed  # noqa: PLC0415  (see above)

        return printed(kernel)

    @functools.cached_property
    def _products(self) -> ProductTunings:
        from inductor.triton import building, native  # noqa: PLC0415  (see above)
        from inductor.triton.product_tuning import ProductTunings  # noqa: PLC0415  (see above)

        return ProductTunings(building.make_function, building.make_timed, native.finish)

    def begin_products(self, sources: Sequence[KernelSource], keep: Keep) -> None:
        """The products of `fastest_products` of which no figures are kept, by all blocks that suit them."""
        self._products.begin(sources, keep, self.facts())

    def fastest_products(self, sources: Sequence[KernelSource], keep: Keep) -> Sequence[KernelSource]:
        """Products of matrices of known sizes, each by the fastest of the blocks that suit it."""
        return self._products.fastest(sources, keep, self.facts())

    def emit_joint(self, kernel: JointKernel) -> JointSource:
        from inductor.triton.joint import Layout, text_of  # noqa: PLC0415  (see above)

        return JointSource(kernel, text_of(Layout(kernel)))

    def module_text(self, sources: Sequence[KernelSource | JointSource]) -> str:
        from inductor.triton.forms import HEADER  # noqa: PLC0415  (see above)

        return HEADER + "\n\n".join(source.text for source in sources)

    def build(self, module_text: str, sources: Sequence[KernelSource]) -> Mapping[str, KernelCall]:
        """Callables that launch what was compiled before, as far as it is known how; of the others the module is executed, and Triton
        compiles each kernel at its first launch and keeps it on disk by content."""
        keep_to_own_folders()
        checking = {source.kernel.name for source in sources if checks_positions(source.kernel.body.ops)}
        checks = IndexChecks(self._points()) if checking else None
        number = None if checks is None else checks.number
        launches, calls = self._launches(), dict[str, Any]()
        if launches is not None:
            from inductor.triton.settled import make_call  # noqa: PLC0415  (see above)

            for source in sources:
                found, name = launches.find(source), source.kernel.name
                if found is not None:
                    pinned = number if name in checking else None
                    again = functools.partial(_variants_again, module_text, pinned)
                    calls[name] = make_call(source, found, pinned, again)
        others = [source for source in sources if source.kernel.name not in calls]
        if others:
            from inductor.triton.building import build  # noqa: PLC0415  (see above)

            calls |= build(module_text, others, number, self._figures if self._times else None, launches)
        if checks is not None:
            calls |= {f"_mark_{self.device_type}": checks.mark, f"_settle_{self.device_type}": checks.settle}
        return calls

    def _points(self) -> Points | None:
        if self.device_type != "cuda":
            return None
        from inductor.triton.points import StreamPoints  # noqa: PLC0415  (see above)

        return StreamPoints()

    def _launches(self) -> Launches | None:
        """Where it is kept how kernels are launched; None where it isn't."""
        from inductor.triton.mode import INTERPRETED  # noqa: PLC0415  (see above)

        if INTERPRETED or not self._figures.cache:
            return None
        from inductor.triton.settled import SECTION, Launches  # noqa: PLC0415  (see above)

        return Launches(DiskCache(SECTION, self._figures.folder), facts_of, timed=self._times)

    def build_joint(self, module_text: str, sources: Sequence[JointSource]) -> Mapping[str, KernelCall]:
        """Execute the module; what is compiled then is kept by content, as for `build`."""
        from inductor.triton.building import build_joint  # noqa: PLC0415  (see above)

        keep_to_own_folders()
        return build_joint(module_text, sources)


def _variants_again(
    module_text: str, number: torch.Tensor | None, source: KernelSource, blocks: str
) -> tuple[Any, int]:
    """See `building.variants_again`."""
    from inductor.triton.building import variants_again  # noqa: PLC0415  (see above)

    return variants_again(module_text, number, source, blocks)
