"""Sums at computed places that start from what is added to them: a node's own vector and what a graph's edges bring it.

In: a traced graph with fake values in `meta["val"]`. Out: the same graph, where `x + zeros.index_add(...)` is `x.index_add(...)`: no zeros
are written, and `x` need not be there any longer when the sum is. Only of halves, and where a device adds in any order, and adds these as
float32: there are no bits to keep, and the sum is rounded once, where eager rounds the sum, and what is added to it. (Of wider numbers each
addend would be rounded to what `x` leaves room for.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from inductor.passes.graphs import remove_unread, same_tensor_metadata
from inductor.passes.patterns import argument_of, is_static, values_of
from inductor.traits import TraitsOf
from symshapes import HALF_DTYPES, ambient

aten = torch.ops.aten

_ADDS: dict[Any, Callable[[fx.Node], bool]] = {
    aten.index_add.default: lambda node: True,
    aten.scatter_add.default: lambda node: True,
    aten.index_put.default: lambda node: argument_of(node, "accumulate") is True,
    aten.scatter_reduce.two: lambda node: argument_of(node, "reduce") == "sum" and argument_of(node, "include_self"),
}
"""Ops that add to what is there, at computed places, and of which calls that is so."""


def start_from_addends(graph: fx.Graph, traits: TraitsOf) -> int:
    """Let sums at computed places start from what alone is added to them; how many do so now.

    A sum that is added to another one stays: one kernel may compute both.
    """
    if ambient().deterministic:
        return 0
    return sum(_starts(node, traits) for node in list(graph.nodes) if node.target is aten.add.Tensor)


def _starts(node: fx.Node, traits: TraitsOf) -> bool:
    first, second = node.args[:2]
    if not isinstance(first, fx.Node) or not isinstance(second, fx.Node) or argument_of(node, "alpha") != 1:
        return False
    if _adds(first) == _adds(second):
        return False
    added, addend = (first, second) if _adds(first) else (second, first)
    wanted = node.meta["val"]
    values = (added.meta["val"], addend.meta["val"], wanted)
    if not _adds_to_zeros(added) or len(added.users) != 1 or not _rounds_once(wanted, traits):
        return False
    if any(added.meta.get(mark) != node.meta.get(mark) for mark in ("backward", "checkpoint")) or not all(
        is_static(each) and (each.shape, each.dtype, each.device) == (wanted.shape, wanted.dtype, wanted.device)
        for each in values
    ):
        return False
    args = (addend, *added.args[1:])
    value: Any = added.target(*values_of(args), **values_of(added.kwargs))  # type: ignore[operator]
    if not same_tensor_metadata(value, wanted):
        return False
    with node.graph.inserting_before(node):
        made = node.graph.create_node("call_function", added.target, args, added.kwargs, added.name)
    made.meta = {**added.meta, "val": wanted}
    node.replace_all_uses_with(made)
    remove_unread(node)
    return True


def _adds(node: fx.Node) -> bool:
    return node.target in _ADDS and _ADDS[node.target](node)


def _adds_to_zeros(node: fx.Node) -> bool:
    start: Any = node.args[0]
    return bool(start.target is aten.full.default and start.args[1] == 0)


def _rounds_once(value: torch.Tensor, traits: TraitsOf) -> bool:
    """Whether such a tensor is summed in float32 there, in any order."""
    known = traits(value.device)
    return value.dtype in HALF_DTYPES and value.dtype not in known.accumulates and not known.orders_writes
