"""Lowerings, a loop IR and a fusing scheduler: functional ATen graphs become kernels of a device backend."""

from inductor.addresses import address_facts, address_header, argument_kinds
from inductor.ahead import NativeGraph, compile_ahead
from inductor.api import compile_graph, fuses_attention, prepare_backends, prepare_graph
from inductor.artefact import CompiledGraph, InterpretedWarning, Stats, load_stored
from inductor.backends import backend_for, register_backend, traits_of
from inductor.cache import DiskCache, Entry, cache_root, scratch_folder
from inductor.cache import reset as reset_cache
from inductor.codegen.native import FOLDER as NATIVE_FOLDER
from inductor.codegen.native import Inexpressible, Weight
from inductor.contractions import Contraction, contraction_of
from inductor.device import (
    BuildError,
    DeviceBackend,
    JoiningBackend,
    JointKernel,
    JointPart,
    JointSource,
    Kernel,
    KernelArg,
    KernelCall,
    KernelSource,
    NativeBackend,
    PreparingBackend,
    ProductBackend,
    TuningBackend,
)
from inductor.handlers.reference import ReferenceBackend
from inductor.ir.body import Body, is_checked, record
from inductor.ir.operations import (
    Bitcast,
    Cast,
    Constant,
    Elementwise,
    IndexExpr,
    Indirect,
    Load,
    Op,
    Reduce,
    Ref,
    Round,
    Scan,
    Store,
    Where,
)
from inductor.ir.parse import parse_body
from inductor.ir.parse_program import parse_program
from inductor.ir.program import Buffer, ExternOp, LoopOp, Measure, Program, StridedView
from inductor.ir.scalar import Scalar, prim
from inductor.levels import Levels, Pass, dependencies, split
from inductor.lower import lower
from inductor.lowerings import lowering, pointwise
from inductor.ops import INDEX_RULES, IndexRule, compute_dtype, ops
from inductor.options import Options
from inductor.passes import (
    BODY_PASSES,
    GRAPH_PASSES,
    BodyMatch,
    BodyPass,
    GraphMatch,
    GraphPass,
    Var,
    call_of,
    op_of,
)
from inductor.primitives import PRIMITIVES, REDUCTIONS, Primitive, Reduction
from inductor.replay import Recorder, Replayed, SavedMemory, replayed
from inductor.schedule import Schedule, schedule
from inductor.traits import DeviceTraits
from symshapes import own_folders as _own_folders

__all__ = [
    "BODY_PASSES",
    "GRAPH_PASSES",
    "INDEX_RULES",
    "NATIVE_FOLDER",
    "PRIMITIVES",
    "REDUCTIONS",
    "Bitcast",
    "Body",
    "BodyMatch",
    "BodyPass",
    "Buffer",
    "BuildError",
    "Cast",
    "CompiledGraph",
    "Constant",
    "Contraction",
    "DeviceBackend",
    "DeviceTraits",
    "DiskCache",
    "Elementwise",
    "Entry",
    "ExternOp",
    "GraphMatch",
    "GraphPass",
    "IndexExpr",
    "IndexRule",
    "Indirect",
    "Inexpressible",
    "InterpretedWarning",
    "JoiningBackend",
    "JointKernel",
    "JointPart",
    "JointSource",
    "Kernel",
    "KernelArg",
    "KernelCall",
    "KernelSource",
    "Levels",
    "Load",
    "LoopOp",
    "Measure",
    "NativeBackend",
    "NativeGraph",
    "Op",
    "Options",
    "Pass",
    "PreparingBackend",
    "Primitive",
    "ProductBackend",
    "Program",
    "Recorder",
    "Reduce",
    "Reduction",
    "Ref",
    "ReferenceBackend",
    "Replayed",
    "Round",
    "SavedMemory",
    "Scalar",
    "Scan",
    "Schedule",
    "Stats",
    "Store",
    "StridedView",
    "TuningBackend",
    "Var",
    "Weight",
    "Where",
    "address_facts",
    "address_header",
    "argument_kinds",
    "backend_for",
    "cache_root",
    "call_of",
    "compile_ahead",
    "compile_graph",
    "compute_dtype",
    "contraction_of",
    "dependencies",
    "fuses_attention",
    "is_checked",
    "load_stored",
    "lower",
    "lowering",
    "op_of",
    "ops",
    "parse_body",
    "parse_program",
    "pointwise",
    "prepare_backends",
    "prepare_graph",
    "prim",
    "record",
    "register_backend",
    "replayed",
    "reset_cache",
    "schedule",
    "scratch_folder",
    "split",
    "traits_of",
]

_own_folders(__path__)
