"""Numbers that a backward reads, in the narrowest dtype that holds them: masks of zeros and ones as bools, positions as small integers.

In: a joint graph. Out: the same graph, in which such numbers pass through a value of a narrower dtype (`is_narrow`) on their
way to all that reads them: the same numbers, but a partition can save that. And comparisons that are saved in place of
what is compared.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import fx

from aotgrad.cleanup import stays
from aotgrad.joint import JointGraph
from aotgrad.partition.recompute import LEAST, LONGEST, bytes_of, is_narrow, is_recomputable, reads_by_element
from aotgrad.partition.split import computed_in_backward
from symshapes import facts_if_operator, is_dense

aten = torch.ops.aten

_ZERO_OR_ONE = {aten.bernoulli.default, aten.bernoulli.p, aten.bernoulli.Tensor}
_COUNTED_THROUGH = {
    aten.max_pool2d_with_indices.default: 2,
    aten.max_pool3d_with_indices.default: 3,
    aten.adaptive_max_pool2d.default: 2,
    aten.adaptive_max_pool3d.default: 3,
}
"""Ops whose second result is positions, counted through the last dimensions of their argument: how many."""
_INTEGERS = (torch.uint8, torch.int16, torch.int32)


def narrow(joint: JointGraph) -> None:
    """Put narrow values behind all that fit them and that the backward reads, or reads what elementwise ops make of."""
    results = {node for node in joint.graph.output_node().args[0] if isinstance(node, fx.Node)}  # type: ignore[union-attr]
    for node in list(joint.graph.nodes):
        if node in results or node.meta.get("backward") or any(is_narrow(user) for user in node.users):
            continue
        dtype = _narrowest(node)
        if dtype is None or bytes_of(node.meta["val"]) < LEAST or not _is_read_in_backward(node):
            continue
        readers = list(node.users)
        with joint.graph.inserting_after(node):
            small = _cast(joint.graph, node, dtype)
        small.meta["narrow"] = True
        with joint.graph.inserting_after(small):
            wide = _cast(joint.graph, small, node.meta["val"].dtype)
        for reader in readers:
            reader.replace_input_with(node, wide)


def answered(joint: JointGraph, saved: Sequence[fx.Node], kept: Collection[fx.Node]) -> list[fx.Node]:
    """What of `saved` to save, and instead of the others what the backward alone asks of them: where ReLU let through, say.

    Args:
        kept: values that live on in any case (results of the program).
    """
    found = dict.fromkeys(saved)
    computed = computed_in_backward(joint, found)
    for node in saved:
        if node in kept or node.op == "placeholder" or bytes_of(node.meta["val"]) < LEAST:
            continue
        path = _question(node, computed)
        if path:
            for each in path:
                each.meta.pop("backward", None)  # the forward asks it
            found = dict.fromkeys(path[-1] if each is node else each for each in found)
    return list(found)


def _question(node: fx.Node, computed: Collection[fx.Node]) -> list[fx.Node]:
    """The calls, made of one another, through which alone those `computed` read a value, up to the first through which all of them do
    and that is smaller (`ge` and `le`, and both of them); or none."""
    asked = [node]
    while len(asked) <= LONGEST:
        readers = [
            user
            for each in asked
            for user in each.users
            if (user in computed or user.op == "output") and user not in asked
        ]
        last = asked[-1]
        if bytes_of(last.meta["val"]) < bytes_of(node.meta["val"]) and all(
            last in user.all_input_nodes and not {*asked[:-1]}.intersection(user.all_input_nodes) for user in readers
        ):
            return asked[1:]
        found = next((user for user in readers if _asks_only(user, asked)), None)
        if found is None:
            return []
        asked.append(found)
    return []


def _asks_only(user: fx.Node, asked: Collection[fx.Node]) -> bool:
    """Whether a call reads nothing but these, by the element."""
    return (
        user.op != "output" and {*asked}.issuperset(user.all_input_nodes) and not stays(user) and reads_by_element(user)
    )


def _narrowest(node: fx.Node) -> torch.dtype | None:
    """A narrower dtype that holds all that the value of a node can be."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or not is_dense(value):
        return None
    if node.target in _ZERO_OR_ONE:
        return torch.bool
    count = _positions(node) if value.dtype is torch.int64 else None
    if type(count) is not int:  # a symbolic size may be any at the next call
        return None
    return next((dtype for dtype in _INTEGERS if count - 1 <= torch.iinfo(dtype).max), None)


def _positions(node: fx.Node) -> Any:
    """How many positions there are for what a node picks out of the results of an op that finds some; None if it is no such node."""
    if node.target is not operator.getitem or node.args[1] != 1:
        return None
    call: Any = node.args[0]
    facts = facts_if_operator(call.target)
    if facts is None or not isinstance(call.args[0], fx.Node):
        return None
    source = call.args[0].meta["val"]
    if call.target in _COUNTED_THROUGH:
        return math.prod(source.shape[-_COUNTED_THROUGH[call.target] :])
    schema = call.target._schema
    # The largest along a dimension, the first few in order, ...: their schemas say what they give and that they go along one.
    if call.target.namespace != "aten" or [each.name for each in schema.returns] != ["values", "indices"]:
        return None
    place = next((at for at, argument in enumerate(schema.arguments) if argument.name == "dim"), None)
    if place is None or not source.dim():
        return None
    given = (
        call.args[place] if place < len(call.args) else call.kwargs.get("dim", schema.arguments[place].default_value)
    )
    return source.shape[given] if type(given) is int else None


def _is_read_in_backward(node: fx.Node) -> bool:
    waiting, seen = [node], {node}
    while waiting:
        for user in waiting.pop().users:
            if user.meta.get("backward"):
                return True
            if user not in seen and is_recomputable(user):
                seen.add(user)
                waiting.append(user)
    return False


def _cast(graph: fx.Graph, node: fx.Node, dtype: torch.dtype) -> fx.Node:
    made = graph.call_function(aten._to_copy.default, (node,), {"dtype": dtype})
    made.meta = {**node.meta, "val": aten._to_copy.default(node.meta["val"], dtype=dtype)}
    made.meta.pop("narrow", None)
    return made
