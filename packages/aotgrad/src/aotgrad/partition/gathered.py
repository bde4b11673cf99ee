"""Rows picked from something much smaller, which a kernel of the backward had better pick again than read.

In: a joint graph and the forward values to save. Out: those to save after all. What each edge of a graph reads of its nodes is such a
value: there are many edges a node, and what the nodes have is saved, or costs little to save.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import fx

from aotgrad.joint import JointGraph
from aotgrad.partition.recompute import LEAST, bytes_of, reads_by_element
from aotgrad.partition.split import computed_in_backward
from aotgrad.views import base_of, is_view
from symshapes import hint_of

aten = torch.ops.aten

FEWER = 8
"""So many times as large a value is as all that is saved anew for it, at least."""
ROW = 32
"""Bytes that lie side by side of each row picked, at least: what a GPU's memory gives at a time, of which less would be wasted."""


def _by_index(source: fx.Node, indices: Sequence[fx.Node | None]) -> tuple[fx.Node, fx.Node, int] | None:
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    return (source, given[0][1], given[0][0]) if len(given) == 1 else None


_PICKING: dict[Any, Callable[..., tuple[fx.Node, fx.Node, int] | None]] = {
    aten.index.Tensor: _by_index,
    aten.index_select.default: lambda source, dim, index: (source, index, dim),
    aten.embedding.default: lambda weight, indices, *_, **__: (weight, indices, 0),
}
"""Ops that pick along one dimension: what of, by which positions, along which."""


def without_gathered(
    joint: JointGraph, saved: Sequence[fx.Node], kept: Collection[fx.Node], mutated: set[fx.Node]
) -> list[fx.Node]:
    """What of `saved` to save, and what else that is small, if rows are picked again where elementwise ops alone read them.

    Args:
        kept: values that live on in any case (results of the program).
        mutated: inputs that the program writes to: their old values are gone by then.
    """
    found = dict.fromkeys(saved)
    seen = {base_of(node) for node in kept}
    for node in reversed(saved):
        sources = None if node in kept else _sources(node, found, mutated, seen)
        if sources is None or not _is_read_by_element(node, computed_in_backward(joint, found)):
            continue
        del found[node]
        found.update(dict.fromkeys(sources))
    return list(found)


def _sources(
    node: fx.Node, saved: Collection[fx.Node], mutated: Collection[fx.Node], seen: Collection[fx.Node]
) -> list[fx.Node] | None:
    """What has to be saved if the rows are picked again; None if `node` is no such value, or that is no less.

    Args:
        seen: what the program's caller has.
    """
    picked = _PICKING[node.target](*node.args, **node.kwargs) if node.target in _PICKING else None
    size = bytes_of(node.meta["val"])
    if picked is None or size < LEAST:
        return None
    source, index, dim = picked
    shown, base = source.meta["val"], base_of(source)
    dims = range(dim % shown.dim() + 1, shown.dim()) if shown.dim() else ()
    side_by_side = math.prod(hint_of(shown.shape[each]) for each in dims) * shown.element_size()
    if base in mutated or base_of(index) not in saved or index.meta["val"].dtype not in (torch.int32, torch.int64):
        return None
    if base not in saved and (base.op != "call_function" or base in seen or FEWER * bytes_of(base.meta["val"]) > size):
        # An input or a result that the backward gets for this alone may be written to until then, which is no error in eager.
        return None
    return [base] if side_by_side >= ROW and FEWER * bytes_of(shown) <= size else None


def _is_read_by_element(node: fx.Node, computed: Collection[fx.Node]) -> bool:
    """Whether elementwise ops alone read it, through views too, of all that is computed in the backward."""
    waiting, seen = [node], {node}
    while waiting:
        for user in waiting.pop().users:
            if user in seen or user not in computed:
                continue
            seen.add(user)
            if is_view(user.target):
                waiting.append(user)
            elif not reads_by_element(user):
                return False
    return True
