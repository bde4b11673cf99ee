"""Which inputs of a graph are constants under ``freeze``: parameters and buffers that modules own and the graph only reads.

In: a machine whose graph is finished, and the graph's results. Out: the inputs to freeze, and why others are not.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import fx

from symshapes import ControlFlow, dataclass

from .custom_gradients import grad_without_hooks
from .evaluator.machine import Machine
from .graph import CapturedGraph
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
    if owned and any(node.target in (torch.autograd.grad, grad_without_hooks) for node in graph.graph.nodes):
        return {}, ["all parameters and buffers: the graph differentiates"]
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
    if tensor.is_inference():
        return "it was made in inference mode, where nothing tells of writes"
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


def owners(m: Machine, tensors: Iterable[torch.Tensor]) -> list[weakref.ref[torch.nn.Module]]:
    """The modules that have one of these as a parameter or buffer."""
    known = {id(tensor) for tensor in tensors}
    return [
        weakref.ref(module)
        for module in m.identity.modules()
        if any(id(each) in known for each in (*module._parameters.values(), *module._buffers.values()))
    ]


def release_with(
    owners: Iterable[weakref.ref[torch.nn.Module]], graph: CapturedGraph, drop: Callable[[], object]
) -> None:
    """Once one of the owners dies, call `drop`, and let go of the tensors that the graph holds: no call can ask for them again."""
    kept = weakref.ref(graph.module)

    def gone(_: object) -> None:
        drop()
        module = kept()
        stores: list[dict[str, Any]] = []
        if module is not None:
            stores = [module._parameters, module._buffers, vars(module)]
        for held in stores:
            for name, value in list(held.items()):
                if isinstance(value, torch.Tensor):
                    held[name] = _told(value)

    modules = [owner() for owner in owners]
    graph.module.meta["owners"] = [weakref.ref(module, gone) for module in modules if module is not None]


def _told(tensor: torch.Tensor) -> torch.Tensor:
    """What is left to tell of a tensor."""
    made = torch.empty_like(tensor, device="meta")
    return torch.nn.Parameter(made, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else made


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
