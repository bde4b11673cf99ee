"""Values that a graph copies to row-major order, as the input of every normalisation: they lie so from the start.

Eager gives a sum the strides of its first transposed operand, so after a convolution whose result is transposed (a speech or vision
encoder's stem) all of a residual stream is column-major, and each layer reads it across memory. Here the first such value is copied
once, by the loop that computes it, and what follows from it has row-major strides by eager's own rules.

In: a traced graph with fake values in `meta["val"]`, of inference or of forward and backward together. Out: the same graph, its
results' strides included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
from torch import fx

from inductor.passes.layouts import free_of_strides
from inductor.passes.patterns import is_static
from inductor.passes.relaying import Relaying, Stays, counts_in_memory
from symshapes import facts_if_operator, is_dense

aten = torch.ops.aten


def row_major(graph: fx.Graph, free: Collection[Any], apart: Callable[[fx.Node], bool]) -> int:
    """Store values that are copied to row-major order in that order; how many begin so now.

    Args:
        free: operators that compute the same of arguments with any strides.
        apart: whether a call reads its arguments from memory, so that a value which is used before and behind it is stored.

    A value stays as it is where anything but the loops that compute it would have to copy it, or what is made of it, back; and where
    more than a third of its copies are transposed again for who reads them, as in a mixer, which gains by it nothing but another buffer.
    """
    copies = [*_copies(graph)]
    by_rows: Counter[fx.Node] = Counter()
    for copy in copies:
        if not copy.meta.get("backward"):
            by_rows[_first(copy.all_input_nodes[0])] += -2 if _is_read_by_columns(copy) else 1
    candidates = [root for root, more in by_rows.items() if more > 0]
    if not candidates or counts_in_memory(graph):
        return 0
    if not all(is_static(node.meta["val"]) for node in graph.nodes if "val" in node.meta):
        return 0
    places = {node: place for place, node in enumerate(graph.nodes)}
    fences = [place for node, place in places.items() if apart(node)]
    allowed = free_of_strides(free)
    begun = 0
    for root in candidates:
        uses = sorted(places[user] for user in root.users)
        if any(uses[0] <= fence < uses[-1] for fence in fences) and _relay(graph, root, allowed):
            begun += 1
    for copy in copies if begun else ():
        (copied,) = copy.all_input_nodes
        if copied.meta["val"].is_contiguous() and not _is_given_away(copy):
            copy.replace_all_uses_with(copied)
            graph.erase_node(copy)
    return begun


def _copies(graph: fx.Graph) -> Iterator[fx.Node]:
    """Copies in row-major order of elementwise results that have their dimensions in another."""
    for node in graph.find_nodes(op="call_function", target=aten.clone.default):
        if node.kwargs.get("memory_format") is torch.contiguous_format and _is_transposed(node.all_input_nodes[0]):
            yield node


def _is_read_by_columns(copy: fx.Node) -> bool:
    """Whether what loops make of a copy in the forward is transposed for who reads it."""
    found, waiting = {copy}, [copy]
    while waiting:
        for user in waiting.pop().users:
            if user in found or user.meta.get("backward"):
                continue
            found.add(user)
            if _is_pointwise(user):
                waiting.append(user)
            elif user.target in _TRANSPOSING and user.meta["val"].stride()[-1] != 1:
                return True
    return False


def _is_given_away(node: fx.Node) -> bool:
    """Whether a result of the graph has the node's memory, which would be that of two results."""
    for user in node.users:
        facts = facts_if_operator(user.target)
        if user.op == "output" or ((facts is None or facts.aliases) and _is_given_away(user)):
            return True
    return False


def _is_transposed(node: fx.Node) -> bool:
    if not _is_pointwise(node):
        return False
    value = node.meta["val"]
    return isinstance(value, torch.Tensor) and is_static(value) and is_dense(value) and not value.is_contiguous()


def _is_pointwise(node: fx.Node) -> bool:
    """Whether a loop computes the node element by element, with its argument's strides: a half-precision stream is widened before each copy."""
    facts = facts_if_operator(node.target)
    return facts is not None and (facts.elementwise or (node.target is _CAST and node.kwargs.keys() == {"dtype"}))


_CAST = aten._to_copy.default
_TRANSPOSING = (aten.permute.default, aten.transpose.int, aten.t.default)


def _first(node: fx.Node) -> fx.Node:
    """The first of the elementwise results that hand these strides on to the node."""
    strides = node.meta["val"].stride()
    while True:
        sources = (
            each for each in node.all_input_nodes if _is_transposed(each) and each.meta["val"].stride() == strides
        )
        if (source := next(sources, None)) is None:
            return node
        node = source


def _relay(graph: fx.Graph, root: fx.Node, allowed: Collection[Any]) -> bool:
    plan = Relaying(allowed)
    try:
        for node in graph.nodes:
            takes = root in node.all_input_nodes and plan.is_free(node)
            plan.visit(node, {root: torch.contiguous_format} if takes else {})
    except Stays:
        return False
    if not plan.values or any(None in arguments.values() for arguments in plan.copies.values()):
        return False
    plan.apply(graph)
    return True
