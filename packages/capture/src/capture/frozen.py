"""Which inputs of a graph are constants under ``freeze``: parameters and buffers that modules own and the graph only reads.

In: a machine whose graph is finished, and the graph's results. Out: the inputs to freeze, and why others are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from symshapes import ControlFlow

from .evaluator.machine import Machine
from .sources import Source, is_module_owned


@dataclass(frozen=True)
class Frozen:
    """An input that becomes a constant: where it is read, and the tensor that is there."""

    source: Source
    tensor: torch.Tensor


def what_freezes(m: Machine, results: Iterable[Any]) -> tuple[dict[fx.Node, Frozen], list[str]]:
    """The inputs to freeze, and in words which parameters and buffers are not, and why."""
    graph = m.recorder.graph
    changed = graph.changed_inputs()
    told = [*results, *(fake for fake, writes in zip(graph.inputs, changed, strict=True) if writes)]
    owned = {
        node: Frozen(source, tensor)
        for node, source in zip(graph.placeholders, graph.sources, strict=True)
        if is_module_owned(source)
        and m.identity.lives_on(source)
        and (tensor := m.recorder.real_tensor(node)) is not None
    }
    if owned and any(isinstance(each, torch.Tensor) and each.requires_grad for each in told):
        return {}, ["all parameters and buffers: the results require gradients; call it within torch.no_grad()"]
    if owned and any(isinstance(node.target, ControlFlow) for node in graph.graph.nodes):
        return {}, ["all parameters and buffers: the graph has control flow, and is compiled in pieces"]
    written = {
        _memory(tensor)
        for node, writes in zip(graph.placeholders, changed, strict=True)
        if writes and (tensor := m.recorder.real_tensor(node)) is not None
    }
    unfrozen = []
    for node, each in list(owned.items()):
        reason = _reason(each.tensor, node.meta["val"], written)
        if reason:
            del owned[node]
            unfrozen.append(f"{each.source.name}: {reason}")
    return owned, unfrozen


def _reason(tensor: torch.Tensor, fake: torch.Tensor, written: set[int]) -> str:
    """Why a tensor is not frozen; empty if it is."""
    if _memory(tensor) in written:
        return "the graph writes to its memory"
    if not all(type(n) is int for n in (*fake.shape, *fake.stride())):
        return "its size changes"
    return ""


def witnesses(m: Machine, tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Buffers that change with some of these, beside them in a module: batch norm's kernels write to its averages without a
    version that tells so, but the program counts the batches."""
    known = {id(tensor) for tensor in tensors}
    found: dict[int, torch.Tensor] = {}
    for module in m.identity.modules():
        buffers = [each for each in module._buffers.values() if type(each) is torch.Tensor]
        if any(id(each) in known for each in buffers):
            found |= {id(each): each for each in buffers if id(each) not in known}
    return list(found.values())


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
