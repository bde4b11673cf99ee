"""What is read of the process's environment: all of it here, as one frozen value that `CpuBackend.facts` reports."""

from __future__ import annotations

import os

from symshapes import dataclass

_COMPILER_VARIABLES = (
    "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "SDKROOT",
)  # fmt: skip
"""What GNU and LLVM compilers read by themselves."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Variables, and the number of processors to compile on."""

    isa: str | None
    """`CPU_CODEGEN_ISA`: the instruction set to use, in place of the widest."""
    compiler: str | None
    """`CXX`."""
    path: str | None
    """Where compilers are searched."""
    compiler_reads: tuple[tuple[str, str], ...]
    """Variables that change what a compiler makes of the same command."""
    processors: int


def environment() -> Environment:
    """The environment of this moment."""
    get = os.environ.get
    read = tuple((name, os.environ[name]) for name in _COMPILER_VARIABLES if name in os.environ)
    # Those this process may run on; not every system can say.
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Environment(get("CPU_CODEGEN_ISA") or None, get("CXX") or None, get("PATH"), read, processors)


def for_compilers(folder: str) -> dict[str, str]:
    """All variables, for a program that is to keep its temporary files in `folder`."""
    return {**os.environ, "TMPDIR": folder}
