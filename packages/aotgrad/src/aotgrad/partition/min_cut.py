"""The partition that saves the fewest bytes, where what is not saved can be recomputed within fused kernels.

A minimum cut: between what the backward cannot compute again (inputs, matrix products, reductions, random numbers) and
what it uses, every value costs what saving it costs. Cheap pointwise ops and views may be computed again.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx

from aotgrad.joint import JointGraph
from aotgrad.partition.default import backward_uses, inputs_of
from aotgrad.partition.flow import Network
from aotgrad.partition.split import Partition, split
from aotgrad.views import base_of, is_view
from symshapes import facts_if_operator, hint_of

aten = torch.ops.aten

CHEAP = {
    aten._to_copy.default,
    aten.clone.default,
    aten.full.default,
    aten.arange.start_step,
    aten.empty.memory_format,
    aten.slice_scatter.default,
    aten.select_scatter.default,
    aten.where.ScalarSelf,
    aten.where.ScalarOther,
    aten.where.Scalar,
    aten.rsub.Scalar,
}
"""Ops besides pointwise ones and views that cost next to nothing within a fused kernel."""

HELD = 0.1
"""What a byte costs that lives on anyway (inputs, outputs of the program) as a share of one that would not."""


def partition_min_cut(joint: JointGraph) -> Partition:
    """Cut `joint` where the fewest bytes pass from forward to backward."""
    used = backward_uses(joint)
    inputs = inputs_of(joint)
    mutated = {inputs[mutation.input] for mutation in joint.signature.mutations}
    output = next(node for node in reversed(joint.graph.nodes) if node.op == "output")
    returned = {node for node in output.args[0][: joint.result_count] if isinstance(node, fx.Node)}
    held = (set(inputs) - mutated) | returned
    region, sizes = _region(used)
    network = Network()
    source, sink = network.vertex(), network.vertex()
    ends = {node: (network.vertex(), network.vertex()) for node in region}
    for node, (before, after) in ends.items():
        network.edge(before, after, _cost(node, held))
        if not _recomputable(node):
            network.edge(source, before)
            continue
        for argument in node.all_input_nodes:
            if argument in ends:
                network.edge(ends[argument][1], before)
    for node in used:
        if node in ends:
            network.edge(ends[node][1], sink)
    behind = network.sink_side(source, sink)
    saved = [node for node, (before, after) in ends.items() if after in behind and before not in behind]
    return split(joint, [*saved, *sizes])


def _region(used: list[fx.Node]) -> tuple[list[fx.Node], list[fx.Node]]:
    """Forward tensors that saving or recomputing `used` may involve, and symbolic integers met on the way."""
    tensors: dict[fx.Node, None] = {}
    sizes: dict[fx.Node, None] = {}
    waiting = list(used)
    while waiting:
        node = waiting.pop()
        if node in tensors or node in sizes:
            continue
        if not isinstance(node.meta["val"], (torch.Tensor, tuple, list)):
            sizes[node] = None
            continue
        tensors[node] = None
        if _recomputable(node):
            waiting.extend(node.all_input_nodes)
    return list(tensors), list(sizes)


def _recomputable(node: fx.Node) -> bool:
    if node.op == "get_attr":
        return True
    facts = facts_if_operator(node.target)
    if facts is None:
        return False
    if facts.views:
        return True
    if _copies_an_input(node):
        return False
    return facts.pure and (facts.elementwise or node.target in CHEAP)


def _copies_an_input(node: fx.Node) -> bool:
    """Whether the program copies what it was given: most likely since that changes before the backward runs."""
    if node.target is not aten.clone.default or node.kwargs.get("memory_format") is torch.contiguous_format:
        return False
    source: Any = node.args[0]
    return base_of(source).op == "placeholder"


def _cost(node: fx.Node, held: set[fx.Node]) -> float:
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor) or node.op == "get_attr":
        return math.inf
    if is_view(node.target):
        return math.inf  # what it is a view of is the same memory
    size = math.prod(hint_of(length) for length in value.shape) * value.element_size()
    return max(size, 1) * (HELD if node in held else 1.0)
