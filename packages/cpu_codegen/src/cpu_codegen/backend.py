"""`CpuBackend`: inductor's seam for device type "cpu"."""

from __future__ import annotations

import ctypes
import shlex
from collections.abc import Mapping, Sequence

from cpu_codegen.build import build_kernels, compile_command, find_compiler
from cpu_codegen.cpu_info import Isa, detect_isa
from cpu_codegen.kernel import print_kernel
from cpu_codegen.launcher import make_call
from cpu_codegen.names import entry_name
from cpu_codegen.types import MEMORY
from inductor.device import BuildError, Kernel, KernelCall, KernelSource

_MAX_ARGS = 256


class CpuBackend:
    """C++ kernels, vectorised and run on OpenMP threads: one source file and one shared object a graph."""

    device_type = "cpu"
    file_suffix = ".cpp"

    @property
    def isa(self) -> Isa:
        """The instruction set kernels are printed and compiled for."""
        return detect_isa()

    def supports(self, kernel: Kernel) -> bool:
        """Whether the kernel can be printed: its dtypes, operations and index expressions."""
        if kernel.device.type != "cpu" or len(kernel.args) > _MAX_ARGS:
            return False
        if any(arg.dtype not in MEMORY for arg in kernel.args):
            return False
        try:
            self.emit(kernel)
        except NotImplementedError:
            return False
        return True

    def emit(self, kernel: Kernel) -> KernelSource:
        """The kernel's C++.

        Raises:
            NotImplementedError: `supports` is false.
        """
        return KernelSource(kernel, print_kernel(kernel, self.isa.lanes))

    def module_text(self, sources: Sequence[KernelSource]) -> str:
        """One C++ file of all kernels; its head says how to compile it by hand."""
        isa = self.isa
        try:
            command = shlex.join(
                [*compile_command(find_compiler(), isa), "-fopenmp", "-shared", "kernels.cpp", "-o", "kernels.so"]
            )
        except BuildError as error:
            command = f"(no compiler here: {error})"
        head = f"// Kernels of one graph, for {isa.name}. To compile this file alone:\n//   {command}\n"
        return "\n".join([head + '#include "kernel.h"\n\nusing namespace vec;\n', *(s.text for s in sources)])

    def build(self, module_text: str, sources: Sequence[KernelSource]) -> Mapping[str, KernelCall]:
        """Compile the file, or take it from the disk cache, and load it.

        Raises:
            BuildError: no compiler, or it failed; the message holds its output and the source's path.
        """
        library = ctypes.CDLL(str(build_kernels(module_text, self.isa)))
        calls: dict[str, KernelCall] = {}
        for source in sources:
            name = entry_name(source.kernel)
            calls[source.kernel.name] = make_call(
                source.kernel, _address(library, name), _address(library, f"{name}_work")
            )
        return calls


def _address(library: ctypes.CDLL, name: str) -> int:
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert address is not None
    return address
