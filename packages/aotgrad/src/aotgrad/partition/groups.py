"""One forward, several backwards: results that eager differentiates one by one, each with a graph of its own.

In: a joint graph and which of its tangents belong together. Out: a joint graph for each group; and, of their partitions,
one forward that saves for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg

from aotgrad.cleanup import remove_dead
from aotgrad.joint import JointGraph
from aotgrad.module import module_of
from aotgrad.partition.split import Partition, Saved
from symshapes import inverse_permutation, same_sizes

aten = torch.ops.aten


class _Zero:
    """In place of a node: what comes of the other groups' tangents, which are zero here."""


_ZERO = _Zero()


def of_group(joint: JointGraph, group: Sequence[int]) -> JointGraph | None:
    """`joint` with only the tangents of `group`; None if a zero would have to be made whose size is symbolic.

    The backward is linear in its tangents: what is computed from zero tangents alone is zero.
    """
    signature = joint.signature
    differentiable = [i for i, needed in enumerate(signature.differentiable) if needed]
    kept = {differentiable[at] for at in group}
    narrowed = replace(signature, differentiable=tuple(i in kept for i in range(len(signature.differentiable))))
    graph = fx.Graph()
    inputs = [node for node in joint.graph.nodes if node.op == "placeholder"]
    tangents = inputs[signature.input_count :]
    env: dict[fx.Node, Any] = {tangent: _ZERO for at, tangent in enumerate(tangents) if at not in group}
    dependent = set(tangents)
    for node in joint.graph.nodes:
        if node in env:
            continue
        if not dependent.isdisjoint(node.all_input_nodes):
            dependent.add(node)
        if node.op == "output":
            values = [env[v] if isinstance(v, fx.Node) else v for v in node.args[0]]
            graph.output(tuple(None if v is _ZERO else v for v in values))
            break
        env[node] = _without_zeros(graph, node, env, dependent)
        if env[node] is None:
            return None
    remove_dead(graph)  # what was for the other groups' tangents; nothing is saved for it
    return JointGraph(
        graph, joint.constants, narrowed, tuple(joint.reached[at] for at in group), (), joint.cuts, joint.calls
    )


def _without_zeros(graph: fx.Graph, node: fx.Node, env: dict[fx.Node, Any], dependent: set[fx.Node]) -> Any:
    """The copy of a call, or zero; None if that cannot be said."""
    zeros = [argument for argument in node.all_input_nodes if env[argument] is _ZERO]
    if zeros:
        if node.target is aten.add.Tensor and len(node.args) == 2 and len(zeros) == 1 and not node.kwargs:
            rest = [a for a in node.args if a is not zeros[0]]
            # One that comes of no tangent is zero as well, but a gradient: what was computed is overwritten since.
            if rest and isinstance(rest[0], fx.Node) and _alike(rest[0], node):
                return env[rest[0]]
        if not dependent.intersection(node.all_input_nodes).difference(zeros):
            return _ZERO
        others = [env[argument] for argument in node.all_input_nodes if argument not in zeros]
        for argument in zeros:
            made = _zeros(graph, argument, others)
            if made is None:
                return None
            env = {**env, argument: made}
    made = graph.create_node(node.op, node.target, (), {}, node.name)
    made.args = map_arg(node.args, env.__getitem__)
    made.kwargs = map_arg(node.kwargs, env.__getitem__)
    made.meta = dict(node.meta)
    return made


def _zeros(graph: fx.Graph, node: fx.Node, others: Sequence[fx.Node]) -> fx.Node | None:
    """Zeros like the value of `node`; where its size is symbolic, made after one of `others` that has it too."""
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return None
    options: dict[str, Any] = {"dtype": value.dtype, "device": value.device}
    if all(type(n) is int for n in (*value.shape, *value.stride())):
        # In the strides of what they stand for, on which those of the call's result depend.
        strides = value.stride()
        order = sorted(range(value.dim()), key=lambda dim: -strides[dim])
        sizes = [1 if strides[dim] == 0 else value.shape[dim] for dim in order]
        steps = [(aten.permute.default, inverse_permutation(order)), (aten.expand.default, list(value.shape))]
        made = graph.call_function(aten.full.default, (sizes, 0), options)
        fake = value.new_empty(sizes)
        made.meta = {**node.meta, "val": fake}
        for op, argument in steps[order == sorted(order) : 1 + (0 in value.stride())]:
            made, fake = graph.call_function(op, (made, argument)), op(fake, argument)
            made.meta = {**node.meta, "val": fake}
        return made
    for other in others:
        fake = other.meta["val"]
        if (
            isinstance(fake, torch.Tensor)
            and (fake.dtype, fake.device) == tuple(options.values())
            and same_sizes(fake, value)
        ):
            made = graph.call_function(aten.full_like.default, (other, 0))
            made.meta = {**other.meta, "backward": True}
            return made
    return None


def _alike(one: fx.Node, other: fx.Node) -> bool:
    a, b = one.meta["val"], other.meta["val"]
    return (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)


def merged(joint: JointGraph, partitions: Sequence[Partition]) -> tuple[fx.GraphModule, list[Partition]]:
    """A forward that saves for all backwards, and the partitions with what they save found in its results."""
    graph = fx.Graph()
    made: dict[str, fx.Node] = {}
    results: list[Any] = []
    found: list[Partition] = []
    for partition in partitions:
        env: dict[fx.Node, fx.Node] = {}
        for node in partition.forward.graph.nodes:
            if node.op != "output":
                env[node] = _shared(graph, node, env, made)
                continue
            values = [env[v] if isinstance(v, fx.Node) else v for v in node.args[0]]
            if not results:
                results = values[: joint.result_count]
            places = [*range(joint.result_count)]
            for value in values[joint.result_count :]:
                places.append(len(results))
                results.append(value)
            found.append(
                replace(
                    partition,
                    saved=tuple(_moved(saved, places) for saved in partition.saved),
                    saved_sizes=tuple(_moved(saved, places) for saved in partition.saved_sizes),
                )
            )
    graph.output(tuple(results))
    module = module_of(graph, joint.constants, "Forward")
    return module, [replace(partition, forward=module) for partition in found]


def _shared(graph: fx.Graph, node: fx.Node, env: dict[fx.Node, fx.Node], made: dict[str, fx.Node]) -> fx.Node:
    """The node of an earlier partition's forward that is the same call, or a copy."""
    args = map_arg(node.args, env.__getitem__)
    kwargs = map_arg(node.kwargs, env.__getitem__)
    known = made.get(node.name)
    call = (node.op, node.target, str(args), str(kwargs))
    if known is not None and (known.op, known.target, str(known.args), str(known.kwargs)) == call:
        return known
    copied = graph.create_node(node.op, node.target, (), {}, node.name)
    copied.args, copied.kwargs, copied.meta = args, kwargs, dict(node.meta)
    made.setdefault(node.name, copied)
    return copied


def _moved(saved: Saved, places: Sequence[int]) -> Saved:
    return saved if saved.result is None else Saved(None, places[saved.result])
