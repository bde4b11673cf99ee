"""`CpuBackend`: inductor's device backend for the device type "cpu"."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch

from cpu_codegen.build import compile_command, find_compiler, load_kernels, load_shared
from cpu_codegen.cpu_info import Isa, detect_isa
from cpu_codegen.dealing import deal
from cpu_codegen.environment import environment
from cpu_codegen.launcher import POOLED, in_large_pages, in_the_pool, loaded_beside, make_call, open_library
from cpu_codegen.names import entry_name
from cpu_codegen.types import MEMORY
from inductor import BuildError, DeviceTraits, Kernel, KernelCall, KernelSource
from symshapes import ambient

T = TypeVar("T")

_MAX_ARGS = 256

_LARGE_PAGES = 4 << 20
"""Allocators give so much back to the system when it is freed, so that each call gets pages that nobody has touched."""

_CONVOLVED = (torch.float32, torch.bfloat16, torch.float16)


class CpuBackend:
    """C++ kernels, vectorised and run on OpenMP threads: one source file and one shared object a graph."""

    device_type = "cpu"
    file_suffix = ".cpp"

    @property
    def traits(self) -> DeviceTraits:
        """oneDNN's convolutions are fastest with channels last; torch's own, where it is switched off, are not. Pairs of float64 are not
        told apart by shuffles: eager's kernels of complex128 are faster."""
        library, _ = dict(ambient().kernel_choice)["mkldnn"]
        return DeviceTraits(
            orders_writes=True,
            combines=("add", "mul", "max", "min"),
            channels_last=_CONVOLVED if library else (),
            contractions=(torch.float32,),
            convolutions=(torch.float32,),
            complex_parts=(torch.complex64,),
            large_pages=_LARGE_PAGES,
            pooled=POOLED,
        )

    @property
    def isa(self) -> Isa:
        """The instruction set kernels are printed and compiled for."""
        return detect_isa()

    def supports(self, kernel: Kernel) -> bool:
        """Whether the kernel can be printed: its dtypes, operations and index expressions."""
        if kernel.device.type != self.device_type or len(kernel.args) > _MAX_ARGS:
            return False
        if any(arg.dtype not in MEMORY for arg in kernel.args):
            return False
        try:
            self.emit(kernel)
        except NotImplementedError:
            return False
        return True

    def facts(self) -> Mapping[str, str]:
        """The instruction set and the compiler: both are named in the text."""
        try:
            compiler = find_compiler().identity
        except BuildError as error:
            compiler = str(error)
        return {"isa": self.isa.name, "compiler": compiler}

    def emit(self, kernel: Kernel) -> KernelSource:
        """The kernel's C++.

        Raises:
            NotImplementedError: `supports` is false.
        """
        from cpu_codegen.kernel import print_kernel  # noqa: PLC0415  (who runs what was compiled before prints nothing)

        return KernelSource(kernel, print_kernel(kernel, self.isa.lanes))

    def module_text(self, sources: Sequence[KernelSource]) -> str:
        """One C++ file of all kernels; its head says how to compile it by hand."""
        return "\n".join([self._head(), *(source.text for source in sources)])

    def _head(self) -> str:
        isa = self.isa
        try:
            command = shlex.join(
                [*compile_command(find_compiler(), isa), "-fopenmp", "-shared", "kernels.cpp", "-o", "kernels.so"]
            )
        except BuildError as error:
            command = f"(no compiler here: {error})"
        head = f"// Kernels of one graph, for {isa.name}. To compile this file alone:\n//   {command}\n"
        return head + '#include "kernel.h"\n\nusing namespace vec;\n'

    def build(self, module_text: str, sources: Sequence[KernelSource]) -> Mapping[str, KernelCall]:
        """Compile the file, or take it from the disk cache, and load it.

        Raises:
            BuildError: no compiler, or it failed; the message holds its output and the source's path.
        """
        parts = partial(self._parts, sources) if self.module_text(sources) == module_text else None
        with loaded_beside():
            library = load_kernels(module_text, self.isa, open_library, parts)
        calls = {s.kernel.name: make_call(s.kernel, library, entry_name(s.kernel)) for s in sources}
        memory = {f"_fresh_{self.device_type}": in_large_pages(), f"_pooled_{self.device_type}": in_the_pool()}
        return {**calls, **memory}

    def entry(self, kernel: Kernel) -> str:
        """The name of a kernel's C function, `int f(const Word*)`; see `include/kernel.h`."""
        return entry_name(kernel)

    def build_shared(
        self, sources: Sequence[KernelSource], plain: Sequence[str], include: Path, load: Callable[[Path], T]
    ) -> T:
        """What `load` makes of the shared object of kernels and of C++ files that call them.

        Raises:
            BuildError: no compiler, or it failed.
        """
        return load_shared(self._parts(sources) if sources else [], self.isa, plain, include, load)

    def _parts(self, sources: Sequence[KernelSource]) -> list[str]:
        """The kernels dealt to several files: compilers run beside each other."""
        groups = deal([source.text for source in sources], environment().processors)
        return ["\n".join([self._head(), *group]) for group in groups]
