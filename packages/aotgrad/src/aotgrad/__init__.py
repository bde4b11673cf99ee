"""Ahead-of-time autograd for PyTorch: functional ATen graphs, joint forward and backward, partitions, decompositions."""

from aotgrad.alias import Signature
from aotgrad.api import Compiler, compile
from aotgrad.attention import Attention
from aotgrad.decompositions import core_decompositions, decomposition, decompositions
from aotgrad.errors import Unsupported
from aotgrad.joint import Cut, InferenceGraph, JointGraph, trace_inference, trace_joint
from aotgrad.partition import Partition, Partitioner, Saved, partition_default, partition_min_cut, split
from symshapes import own_folders as _own_folders

__all__ = [
    "Attention",
    "Compiler",
    "Cut",
    "InferenceGraph",
    "JointGraph",
    "Partition",
    "Partitioner",
    "Saved",
    "Signature",
    "Unsupported",
    "compile",
    "core_decompositions",
    "decomposition",
    "decompositions",
    "partition_default",
    "partition_min_cut",
    "split",
    "trace_inference",
    "trace_joint",
]

_own_folders(__path__)
