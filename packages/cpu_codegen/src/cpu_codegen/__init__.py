"""C++/OpenMP device backend for `inductor`: kernels in, one compiled shared object a graph out."""

from cpu_codegen.backend import CpuBackend
from cpu_codegen.build import find_compiler
from cpu_codegen.cpu_info import ISAS, Isa, detect_isa
from symshapes import own_folders as _own_folders

__all__ = ["ISAS", "CpuBackend", "Isa", "detect_isa", "find_compiler"]

_own_folders(__path__)
