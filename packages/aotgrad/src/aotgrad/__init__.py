"""Ahead-of-time autograd for PyTorch: functional ATen graphs, joint forward and backward, partitions, decompositions.

What is named here is imported when it is asked for: a program that runs what was compiled before needs little of it.
"""

from typing import TYPE_CHECKING

from symshapes import find_quickly as _find_quickly
from symshapes import lazy_package as _lazy_package
from symshapes import own_folders as _own_folders

if TYPE_CHECKING:
    from aotgrad.api import Compiler, compile
    from aotgrad.attention import Attention
    from aotgrad.decompositions import core_decompositions, decomposition, decompositions
    from aotgrad.described import Description, described
    from aotgrad.errors import Unsupported
    from aotgrad.inference import Plan
    from aotgrad.joint import Cut, InferenceGraph, JointGraph, RunsOnce, trace_inference, trace_joint
    from aotgrad.partition import Partition, Partitioner, Saved, partition_default, partition_min_cut
    from aotgrad.partition.split import split
    from aotgrad.reached import Undescribable
    from aotgrad.signature import Signature
    from aotgrad.standing import Standing
    from aotgrad.stored_plans import Unstorable, plan_of, plan_text, run_planned

__all__ = [
    "Attention",
    "Compiler",
    "Cut",
    "Description",
    "InferenceGraph",
    "JointGraph",
    "Partition",
    "Partitioner",
    "Plan",
    "RunsOnce",
    "Saved",
    "Signature",
    "Standing",
    "Undescribable",
    "Unstorable",
    "Unsupported",
    "compile",
    "core_decompositions",
    "decomposition",
    "decompositions",
    "described",
    "partition_default",
    "partition_min_cut",
    "plan_of",
    "plan_text",
    "run_planned",
    "split",
    "trace_inference",
    "trace_joint",
]

_own_folders(__path__)
_find_quickly(__spec__)
_lazy_package(
    __name__,
    {
        "aotgrad.api": ("Compiler", "compile"),
        "aotgrad.attention": ("Attention",),
        "aotgrad.decompositions": ("core_decompositions", "decomposition", "decompositions"),
        "aotgrad.described": ("Description", "described"),
        "aotgrad.errors": ("Unsupported",),
        "aotgrad.inference": ("Plan",),
        "aotgrad.joint": ("Cut", "InferenceGraph", "JointGraph", "RunsOnce", "trace_inference", "trace_joint"),
        "aotgrad.partition": ("Partition", "Partitioner", "Saved", "partition_default", "partition_min_cut", "split"),
        "aotgrad.reached": ("Undescribable",),
        "aotgrad.signature": ("Signature",),
        "aotgrad.standing": ("Standing",),
        "aotgrad.stored_plans": ("Unstorable", "plan_of", "plan_text", "run_planned"),
    },
)
