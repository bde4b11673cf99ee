"""Lowerings, a loop IR and a fusing scheduler: functional ATen graphs become kernels of a device backend.

What is named here is imported when it is asked for: a program that runs what was compiled before needs little of it.
"""

from typing import TYPE_CHECKING

from symshapes import find_quickly as _find_quickly
from symshapes import lazy_package as _lazy_package
from symshapes import own_folders as _own_folders

if TYPE_CHECKING:
    from inductor.addresses import address_facts, address_header, argument_kinds
    from inductor.ahead import NativeGraph, compile_ahead
    from inductor.api import compile_graph, fuses_attention, prepare_graph
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
        KeepingBackend,
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
    from inductor.preparation import prepare_backends
    from inductor.primitives import PRIMITIVES, REDUCTIONS, Primitive, Reduction
    from inductor.programs import KeptProgram, keep_program, load_program, program_key
    from inductor.replay import Recorder, Replayed, SavedMemory, replayed
    from inductor.schedule import Schedule, schedule
    from inductor.traits import DeviceTraits

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
    "KeepingBackend",
    "KeptProgram",
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
    "keep_program",
    "load_program",
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
    "program_key",
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
_find_quickly(__spec__)
_lazy_package(
    __name__,
    {
        "inductor.addresses": ("address_facts", "address_header", "argument_kinds"),
        "inductor.ahead": ("NativeGraph", "compile_ahead"),
        "inductor.api": ("compile_graph", "fuses_attention", "prepare_graph"),
        "inductor.artefact": ("CompiledGraph", "InterpretedWarning", "Stats", "load_stored"),
        "inductor.backends": ("backend_for", "register_backend", "traits_of"),
        "inductor.cache": ("reset as reset_cache", "DiskCache", "Entry", "cache_root", "scratch_folder"),
        "inductor.codegen.native": ("FOLDER as NATIVE_FOLDER", "Inexpressible", "Weight"),
        "inductor.contractions": ("Contraction", "contraction_of"),
        "inductor.device": (
            "BuildError", "DeviceBackend", "JoiningBackend", "JointKernel", "JointPart",
            "JointSource", "KeepingBackend", "Kernel", "KernelArg", "KernelCall", "KernelSource", "NativeBackend",
            "PreparingBackend", "ProductBackend", "TuningBackend",
        ),
        "inductor.handlers.reference": ("ReferenceBackend",),
        "inductor.ir.body": ("Body", "is_checked", "record"),
        "inductor.ir.operations": (
            "Bitcast", "Cast", "Constant", "Elementwise", "IndexExpr", "Indirect", "Load", "Op",
            "Reduce", "Ref", "Round", "Scan", "Store", "Where",
        ),
        "inductor.ir.parse": ("parse_body",),
        "inductor.ir.parse_program": ("parse_program",),
        "inductor.ir.program": ("Buffer", "ExternOp", "LoopOp", "Measure", "Program", "StridedView"),
        "inductor.ir.scalar": ("Scalar", "prim"),
        "inductor.levels": ("Levels", "Pass", "dependencies", "split"),
        "inductor.lower": ("lower",),
        "inductor.lowerings": ("lowering", "pointwise"),
        "inductor.ops": ("INDEX_RULES", "IndexRule", "compute_dtype", "ops"),
        "inductor.options": ("Options",),
        "inductor.preparation": ("prepare_backends",),
        "inductor.passes": (
            "BODY_PASSES", "GRAPH_PASSES", "BodyMatch", "BodyPass", "GraphMatch", "GraphPass",
            "Var", "call_of", "op_of",
        ),
        "inductor.primitives": ("PRIMITIVES", "REDUCTIONS", "Primitive", "Reduction"),
        "inductor.programs": ("KeptProgram", "keep_program", "load_program", "program_key"),
        "inductor.replay": ("Recorder", "Replayed", "SavedMemory", "replayed"),
        "inductor.schedule": ("Schedule", "schedule"),
        "inductor.traits": ("DeviceTraits",),
    },
)  # fmt: skip
