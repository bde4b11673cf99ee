"""Lowerings, a loop IR and a fusing scheduler: functional ATen graphs become kernels of a device backend."""

from inductor.api import compile_graph
from inductor.artefact import CompiledGraph, Stats, load_stored
from inductor.body import Body, Op, Ref, record
from inductor.cache import DiskCache, Entry, cache_root, scratch_folder
from inductor.cache import reset as reset_cache
from inductor.device import (
    BuildError,
    DeviceBackend,
    Kernel,
    KernelArg,
    KernelCall,
    KernelSource,
    backend_for,
    register_backend,
)
from inductor.handlers.reference import ReferenceBackend
from inductor.ir.program import Buffer, ExternOp, LoopOp, Program, StridedView
from inductor.levels import Levels, Pass, split
from inductor.lower import lower
from inductor.ops import INDEX_RULES, PRIMITIVES, REDUCTIONS, IndexRule, Primitive, compute_dtype, ops
from inductor.options import Options
from inductor.schedule import Schedule, schedule
from symshapes import own_folders as _own_folders

__all__ = [
    "INDEX_RULES",
    "PRIMITIVES",
    "REDUCTIONS",
    "Body",
    "Buffer",
    "BuildError",
    "CompiledGraph",
    "DeviceBackend",
    "DiskCache",
    "Entry",
    "ExternOp",
    "IndexRule",
    "Kernel",
    "KernelArg",
    "KernelCall",
    "KernelSource",
    "Levels",
    "LoopOp",
    "Op",
    "Options",
    "Pass",
    "Primitive",
    "Program",
    "Ref",
    "ReferenceBackend",
    "Schedule",
    "Stats",
    "StridedView",
    "backend_for",
    "cache_root",
    "compile_graph",
    "compute_dtype",
    "load_stored",
    "lower",
    "ops",
    "record",
    "register_backend",
    "reset_cache",
    "schedule",
    "scratch_folder",
    "split",
]

_own_folders(__path__)
