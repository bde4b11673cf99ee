"""The default partition: what eager does, but for what costs nothing to compute again.

The forward computes all that the forward trace computed, the backward what the backward trace did. Saved are the
forward values that the backward uses; views, casts and constants are made again from what they are made of, and so are copies
that repeat smaller values (of which rows are picked, too: `gathered.py`), and values that a fused backward has the parts of anyway
(`recompute.py`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from aotgrad import _torch
from aotgrad.joint import JointGraph
from aotgrad.partition.alongside import without_read_alongside
from aotgrad.partition.checkpoints import is_made_again
from aotgrad.partition.gathered import without_gathered
from aotgrad.partition.narrow import answered, narrow
from aotgrad.partition.recompute import LEAST, bytes_of, is_narrow, reads_by_element, without_recomputable
from aotgrad.partition.split import Partition, sources_of, split
from aotgrad.views import is_view

aten = torch.ops.aten

_LAID_OUT = {aten.clone.default, aten._unsafe_view.default}
"""Copies of the very elements, and what looks like a view of one."""
_MADE_ANEW = {aten.full.default, aten.scalar_tensor.default, aten.arange.start_step, aten.empty_strided.default}


def partition_default(joint: JointGraph) -> Partition:
    """Cut `joint` where its backward begins."""
    narrow(joint)
    inputs = inputs_of(joint)
    mutated = {inputs[mutation.input] for mutation in joint.signature.mutations}
    output = next(node for node in reversed(joint.graph.nodes) if node.op == "output")
    results = {node for node in output.args[0][: joint.result_count] if isinstance(node, fx.Node)}
    saved = without_recomputable(_sources(backward_uses(joint), results, mutated), results, mutated)
    saved = without_read_alongside(joint, saved, results, mutated)
    saved = without_gathered(joint, saved, results, mutated)
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


def _sources(used: list[fx.Node], kept: set[fx.Node], mutated: set[fx.Node]) -> list[fx.Node]:
    """What to save so that all of `used` can be had: views give way to what they are views of, and so on. `kept` lives on anyway."""
    found = sources_of(
        used, lambda node: node.op == "get_attr" or _is_made_anew(node) or _is_view(node) or is_made_again(node)
    )
    copies = [node for node in found if _is_copy(node) or _repeats(node)]
    saved = dict.fromkeys(node for node in found if node not in copies)
    for node in copies:
        source = _copied(node)
        # A cast costs nothing in a fused backward, provided that its source is at hand anyway; another layout of an
        # input costs little.
        at_hand = _is_copy(node) and (source in saved or source.op == "placeholder" or is_narrow(source))
        if source not in mutated and (at_hand or (node not in kept and _is_much_smaller(source, node))):
            saved[source] = None
        else:
            saved[node] = None
    return list(saved)


def _is_made_anew(node: fx.Node) -> bool:
    """Whether it is a constant, but for a small one that operators want in memory in forward and backward, as a recurrent layer's first
    state: it is there, and to make it again is a launch."""
    if node.target not in _MADE_ANEW:
        return False
    readers = [user for user in node.users if _reads_memory(user)]
    in_both = len({bool(user.meta.get("backward")) for user in readers}) > 1
    return not in_both or not 0 < _bytes(node) <= LEAST


def _reads_memory(user: fx.Node) -> bool:
    """Whether a call is of an operator that no kernel of a compiler's makes part of itself: none of ATen's."""
    return isinstance(user.target, _torch.OpOverload) and user.target.namespace not in ("aten", "prims")


def _copied(node: fx.Node) -> fx.Node:
    """What a copy is a copy of: behind views, whose memory that is, and behind copies that repeat it."""
    repeats = _repeats(node)
    source: Any = node.args[0]
    while _is_view(source) or (repeats and source.target in _LAID_OUT):
        source = source.args[0]
    return source


def _repeats(node: fx.Node) -> bool:
    """Whether it is a copy that holds elements more than once, as keys that several heads share are copied for each. Copies
    that the program makes of what it is given it makes since that may change."""
    source = node
    while source.target in _LAID_OUT or _is_view(source):
        source = source.args[0]  # type: ignore[assignment]
    return node.target in _LAID_OUT and source.op != "placeholder" and 2 * _bytes(source) <= _bytes(node)


def _is_much_smaller(source: fx.Node, copy: fx.Node) -> bool:
    """Whether saving what was copied saves enough to copy it again: a cast for kernels that read by element has no memory then."""
    if _bytes(copy) < LEAST or _bytes(source) >= _bytes(copy):
        return False
    readers = [user for user in copy.users if user.meta.get("backward")]
    return _repeats(copy) or all(map(reads_by_element, readers))


def _bytes(node: fx.Node) -> int:
    return bytes_of(node.meta.get("val"))


def _is_copy(node: fx.Node) -> bool:
    """Whether it is a cast, or an input in another layout than the program itself reads (`aotgrad.compile(rewrite=...)`)."""
    relaid = (
        node.target is aten.clone.default and node.meta.get("relaid") and node.all_input_nodes[0].op == "placeholder"
    )
    return node.target is aten._to_copy.default or bool(relaid)


def _is_view(node: fx.Node) -> bool:
    return is_view(node.target) and isinstance(node.meta["val"], torch.Tensor)
