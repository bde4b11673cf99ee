"""The default partition: what eager does, but for what costs nothing to compute again.

The forward computes all that the forward trace computed, the backward what the backward trace did. Saved are the
forward values that the backward uses; views, casts and constants are made again from what they are made of, and so are
values that a fused backward has the parts of anyway (`recompute.py`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from aotgrad.joint import JointGraph
from aotgrad.partition.checkpoints import is_made_again
from aotgrad.partition.narrow import answered, narrow
from aotgrad.partition.recompute import is_narrow, without_recomputable
from aotgrad.partition.split import Partition, sources_of, split
from aotgrad.views import is_view

aten = torch.ops.aten

_MADE_ANEW = {aten.full.default, aten.scalar_tensor.default, aten.arange.start_step, aten.empty_strided.default}


def partition_default(joint: JointGraph) -> Partition:
    """Cut `joint` where its backward begins."""
    narrow(joint)
    inputs = inputs_of(joint)
    mutated = {inputs[mutation.input] for mutation in joint.signature.mutations}
    output = next(node for node in reversed(joint.graph.nodes) if node.op == "output")
    results = {node for node in output.args[0][: joint.result_count] if isinstance(node, fx.Node)}
    saved = without_recomputable(_sources(backward_uses(joint), mutated), results, mutated)
    return split(joint, answered(joint, saved, results))


def inputs_of(joint: JointGraph) -> list[fx.Node]:
    """The placeholders that are the program's inputs."""
    return [node for node in joint.graph.nodes if node.op == "placeholder"][: joint.signature.input_count]


def backward_uses(joint: JointGraph) -> list[fx.Node]:
    """Forward nodes that the backward reads."""
    used: dict[fx.Node, None] = {}
    for node in joint.graph.nodes:
        if node.op == "output":
            for value in node.args[0][joint.result_count :]:
                if isinstance(value, fx.Node) and not value.meta.get("backward"):
                    used[value] = None
        elif node.meta.get("backward"):
            used.update({source: None for source in node.all_input_nodes if not source.meta.get("backward")})
    return list(used)


def _sources(used: list[fx.Node], mutated: set[fx.Node]) -> list[fx.Node]:
    """What to save so that all of `used` can be had: views give way to what they are views of, and so on."""
    found = sources_of(
        used, lambda node: node.op == "get_attr" or node.target in _MADE_ANEW or _is_view(node) or is_made_again(node)
    )
    copies = [node for node in found if _is_copy(node)]
    saved = dict.fromkeys(node for node in found if not _is_copy(node))
    for node in copies:
        source: Any = node.args[0]
        # A cast costs nothing in a fused backward, provided that its source is at hand anyway; another layout of an
        # input costs little.
        at_hand = source in saved or source.op == "placeholder" or is_narrow(source)
        if at_hand and source not in mutated:
            saved[source] = None
        else:
            saved[node] = None
    return list(saved)


def _is_copy(node: fx.Node) -> bool:
    """Whether it is a cast, or an input in another layout than the program itself reads (`aotgrad.compile(rewrite=...)`)."""
    relaid = (
        node.target is aten.clone.default and node.meta.get("relaid") and node.all_input_nodes[0].op == "placeholder"
    )
    return node.target is aten._to_copy.default or bool(relaid)


def _is_view(node: fx.Node) -> bool:
    return is_view(node.target) and isinstance(node.meta["val"], torch.Tensor)
