"""Triton kernels of the program: what one is made of, what it writes to, and the operator that a graph calls it by.

In: the object that `triton.jit`, `triton.autotune` or `triton.heuristics` made. Nothing here imports Triton: who has a kernel has.
"""

from __future__ import annotations

from .description import Kernel, describe, is_host_function_class, is_kernel_class
from .operators import Argument, Launcher, operator_of
from .references import Reference, references_of
from .writes import refuse_casts, written_by

__all__ = [
    "Argument",
    "Kernel",
    "Launcher",
    "Reference",
    "describe",
    "is_host_function_class",
    "is_kernel_class",
    "operator_of",
    "references_of",
    "refuse_casts",
    "written_by",
]
