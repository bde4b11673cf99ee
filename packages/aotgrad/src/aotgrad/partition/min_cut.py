"""The partition that saves the fewest bytes, where what is not saved can be recomputed within fused kernels.

A minimum cut: between what the backward cannot compute again (inputs, matrix products, reductions, random numbers) and
what it uses, every value costs what saving it costs. Cheap pointwise ops and views may be computed again. The flow is
computed by networkx with the algorithm of Boykov and Kolmogorov ("An experimental comparison of min-cut/max-flow
algorithms for energy minimization in vision", 2004), the fastest that it has on such networks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from aotgrad.joint import JointGraph
from aotgrad.partition.checkpoints import is_made_again, is_within
from aotgrad.partition.compared import is_compared
from aotgrad.partition.default import backward_uses, inputs_of
from aotgrad.partition.narrow import narrow
from aotgrad.partition.recompute import bytes_of, is_recomputable
from aotgrad.partition.split import Partition, split
from aotgrad.views import is_view

FREED = 10
"""What a byte costs that would be freed otherwise, in bytes that live on anyway (inputs, outputs of the program)."""


_SOURCE = "source"
_SINK = "sink"


def partition_min_cut(joint: JointGraph) -> Partition:
    """Cut `joint` where the fewest bytes pass from forward to backward, and of such places nearest to the backward."""
    # Takes 0.2 s to be imported (all of aotgrad: 0.6 s), and only training has anything to cut.
    import networkx  # noqa: PLC0415  (the reason is above)

    narrow(joint)
    used = backward_uses(joint)
    inputs = inputs_of(joint)
    mutated = {inputs[mutation.input] for mutation in joint.signature.mutations}
    output = next(node for node in reversed(joint.graph.nodes) if node.op == "output")
    returned = {node for node in output.args[0][: joint.result_count] if isinstance(node, fx.Node)}
    held = (set(inputs) - mutated) | returned
    region, sizes = _region(used)
    network = networkx.DiGraph()
    network.add_nodes_from((_SOURCE, _SINK))
    chosen = set(region)
    for node in region:
        before, after = (node, "before"), (node, "after")
        _connect(network, before, after, _cost(node, held))
        if not _may_be_made_again(node):
            _connect(network, _SOURCE, before)
            continue
        for argument in node.all_input_nodes:
            if argument in chosen:
                _connect(network, (argument, "after"), before)
    for node in used:
        if node in chosen:
            _connect(network, (node, "after"), _SINK)
    # Of the smallest cuts networkx gives the one nearest to the sink.
    flow = networkx.algorithms.flow.boykov_kolmogorov
    _, (_, behind) = networkx.minimum_cut(network, _SOURCE, _SINK, flow_func=flow)
    saved = [node for node in region if (node, "after") in behind and (node, "before") not in behind]
    return split(joint, [*saved, *sizes])


def _connect(network: Any, tail: object, head: object, capacity: int | None = None) -> None:
    """An edge that carries at most `capacity`; None: as much as there is."""
    network.add_edge(tail, head, **({} if capacity is None else {"capacity": capacity}))


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
        if _may_be_made_again(node):
            waiting.extend(node.all_input_nodes)
    return list(tensors), list(sizes)


def _may_be_made_again(node: fx.Node) -> bool:
    if is_within(node) and not is_view(node.target):
        return is_made_again(node)  # else what the checkpoint was for would be made again from what it was given
    # A view has the bits of what it shows.
    return is_recomputable(node) and (is_view(node.target) or not is_compared(node))


def _cost(node: fx.Node, held: set[fx.Node]) -> int | None:
    """What saving a value costs, in whole numbers so that sums are exact; None if it cannot be saved."""
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor) or node.op == "get_attr" or is_made_again(node):
        return None
    if is_view(node.target):
        return None  # what it is a view of is the same memory
    return max(bytes_of(value), 1) * (1 if node in held else FREED)
