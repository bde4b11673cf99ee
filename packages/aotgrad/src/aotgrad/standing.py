"""From which of a program's calls on a tensor has the value, and the place in autograd's graph, that it has in the end.

In: a traced run of the program, and a tensor of it. Out: the call, and the nodes before it that have the tensor already: that
the tensor is one and its value another for each write to it, only the tracer tells apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from aotgrad.interpret import TracedRun
from aotgrad.trace import Tracer
from aotgrad.tracked import Tracked
from symshapes import dataclass


@dataclass(frozen=True)
class Standing:
    """From `call` on a tensor stands as it is; `nodes` have it: the call itself, or what it writes to."""

    call: fx.Node
    nodes: tuple[fx.Node, ...]


def standing(ran: TracedRun, tracer: Tracer, tensor: torch.Tensor) -> Standing | None:
    """From where on a tensor stands; None where that is no call's, or something that is read later leads there by another tensor."""
    known = tracer.tracked(tensor)
    made, wrote = ran.call_of(tensor), known.storage.wrote
    if not known.storage.written:
        return None if made is None else Standing(made, (made,))
    if wrote is None:
        return None
    place = {node: at for at, node in enumerate(ran.graph.nodes)}
    if made is not None and place[made] >= place[wrote]:
        return Standing(made, (made,))
    if _is_view(known) or tensor.grad_fn is None:
        return None
    if tracer.recorder.call_of(tensor.grad_fn._sequence_nr()) is not wrote:  # the last write is none that autograd sees
        return None
    nodes = []
    for node, value in ran.env.items():
        if place[node] > place[wrote]:
            continue
        if value is tensor:
            nodes.append(node)
        elif any(place[user] > place[wrote] for user in node.users) and _has_view(tracer, value, tensor):
            return None  # a view from before the write: what is computed of it afterwards comes by the tensor, too
    return Standing(wrote, tuple(nodes))


def _is_view(known: Tracked) -> bool:
    """Whether gradients of a tensor lead to one that it is a view of. Not by `detach`, which factories also give their results by."""
    return known.origin is not None and known.origin[1].op is not torch.ops.aten.detach.default


def _has_view(tracer: Tracer, value: Any, tensor: torch.Tensor) -> bool:
    """Whether a tensor is among what a call gave, or one in its memory by which gradients lead to it."""
    storage = tracer.tracked(tensor).storage
    return any(
        part is tensor or (part.requires_grad and tracer.tracked(part).storage is storage) for part in _tensors(value)
    )


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))
