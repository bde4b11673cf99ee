"""Building the two graphs of a partition, once it is decided what the forward saves.

In: a `JointGraph` and the forward nodes to save. Out: a `Partition`. What the backward needs of the forward and is not
saved is computed again in the backward from what is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg

from aotgrad.cleanup import stays
from aotgrad.joint import JointGraph
from aotgrad.module import module_of
from aotgrad.partition.checkpoints import when_needed
from aotgrad.partition.sizes import untold
from symshapes import SYMBOLIC, dataclass

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Saved:
    """One value that the forward keeps for the backward: input `input`, or result `result` of the forward graph."""

    input: int | None
    result: int | None


@dataclass(frozen=True)
class Partition:
    """Two graphs from one joint graph.

    `forward`: inputs to the signature's results, then further saved values. `backward`: the saved tensors (`saved`),
    the saved symbolic numbers (`saved_sizes`), the tangents; to the gradients of `signature.grad_inputs`.
    """

    forward: fx.GraphModule
    backward: fx.GraphModule
    saved: tuple[Saved, ...]
    saved_sizes: tuple[Saved, ...]


NUMBERS = (*SYMBOLIC, int, float)

Partitioner = Callable[[JointGraph], Partition]


def split(joint: JointGraph, save: Iterable[fx.Node]) -> Partition:
    """Cut `joint` so that the backward gets the forward nodes `save` (tensors or symbolic numbers) and recomputes others.

    Raises ValueError if the backward needs a random op or an input that is not saved.
    """
    parts = _Parts(joint)
    chosen = list(dict.fromkeys(save))
    tensors = [node for node in chosen if isinstance(node.meta["val"], torch.Tensor)]
    numbers = [node for node in chosen if not isinstance(node.meta["val"], torch.Tensor)]
    sizes = sources_of(numbers, _is_arithmetic)
    sizes += untold(
        joint.graph, parts.inputs, parts.computed_backward({*tensors, *sizes}), (*tensors, *sizes, *parts.tangents)
    )
    forward, places = parts.forward(tensors, sizes)
    backward = parts.backward(tensors, sizes)
    return Partition(
        forward,
        backward,
        tuple(places[node] for node in tensors),
        tuple(places[node] for node in sizes),
    )


def sources_of(nodes: Iterable[fx.Node], is_made: Callable[[fx.Node], bool]) -> list[fx.Node]:
    """What the values of `nodes` are made from in the end, if those of nodes that are `is_made` are made again."""
    found: dict[fx.Node, None] = {}
    waiting = list(nodes)
    seen: set[fx.Node] = set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if is_made(node):
            waiting.extend(node.all_input_nodes)
        else:
            found[node] = None
    return list(found)


def _is_arithmetic(node: fx.Node) -> bool:
    """Whether a number is computed from numbers, of which each symbol is saved for itself."""
    parts = node.all_input_nodes
    return bool(parts) and all(isinstance(part.meta["val"], NUMBERS) for part in parts)


class _Parts:
    def __init__(self, joint: JointGraph) -> None:
        self.joint = joint
        nodes = list(joint.graph.nodes)
        placeholders = [node for node in nodes if node.op == "placeholder"]
        self.inputs = placeholders[: joint.signature.input_count]
        self.tangents = placeholders[joint.signature.input_count :]
        outputs: tuple[Any, ...] = nodes[-1].args[0]
        self.results = outputs[: joint.result_count]
        self.gradients = outputs[joint.result_count :]
        self.mutated = {self.inputs[mutation.input] for mutation in joint.signature.mutations}

    def forward(self, tensors: list[fx.Node], sizes: list[fx.Node]) -> tuple[fx.GraphModule, dict[fx.Node, Saved]]:
        graph = fx.Graph()
        env: dict[fx.Node, fx.Node] = {}
        needed = {node for node in (*self.results, *tensors, *sizes) if isinstance(node, fx.Node)}
        # Also what nobody reads: random ops move the generator on, others act.
        needed |= {node for node in self.joint.graph.nodes if stays(node) and not node.meta.get("backward")}
        wanted = all_needed(needed, stop=set())
        for node in self.joint.graph.nodes:
            if (node in wanted or node.op == "placeholder") and node not in self.tangents:
                env[node] = _copy(graph, node, env)
        results: list[Any] = [env[node] if isinstance(node, fx.Node) else node for node in self.results]
        places: dict[fx.Node, Saved] = {}
        for node in (*tensors, *sizes):
            if node in self.inputs and node not in self.mutated:
                places[node] = Saved(self.inputs.index(node), None)
            elif node in self.results:
                places[node] = Saved(None, self.results.index(node))
            else:
                places[node] = Saved(None, len(results))
                results.append(self._kept(graph, env[node], node))
        graph.output(tuple(results))
        return self._module(graph, "Forward"), places

    def computed_backward(self, saved: Collection[fx.Node]) -> set[fx.Node]:
        """What the backward is made of where it is given `saved` and the tangents."""
        needed = {node for node in self.gradients if isinstance(node, fx.Node)}
        needed |= {node for node in self.joint.graph.nodes if stays(node) and node.meta.get("backward")}
        return all_needed(needed, stop={*saved, *self.tangents})

    def _kept(self, graph: fx.Graph, copied: fx.Node, node: fx.Node) -> fx.Node:
        """The saved value itself, or a copy if it is an input that will be written to after the forward."""
        if node not in self.mutated:
            return copied
        clone = graph.call_function(aten.clone.default, (copied,))
        clone.meta.update(copied.meta)
        return clone

    def backward(self, tensors: list[fx.Node], sizes: list[fx.Node]) -> fx.GraphModule:
        graph = fx.Graph()
        env: dict[fx.Node, fx.Node] = {}
        for node in (*tensors, *sizes):
            env[node] = graph.placeholder(f"saved_{node.name}")
            env[node].meta.update(node.meta)
        for node in self.tangents:
            env[node] = _copy(graph, node, env)
        wanted = self.computed_backward(env.keys())
        for node in when_needed(list(self.joint.graph.nodes), wanted, env):
            if node in wanted and node not in env:
                if node.op == "placeholder" or (stays(node) and not node.meta.get("backward")):
                    raise ValueError(f"the backward needs {node}, which is not saved")
                env[node] = _copy(graph, node, env)
        graph.output(tuple(env[node] if isinstance(node, fx.Node) else None for node in self.gradients))
        return self._module(graph, "Backward")

    def _module(self, graph: fx.Graph, name: str) -> fx.GraphModule:
        return module_of(graph, self.joint.constants, name)


def _copy(graph: fx.Graph, node: fx.Node, env: dict[fx.Node, fx.Node]) -> fx.Node:
    # Arguments are set afterwards because `create_node` looks through them for what cannot be there.
    made = graph.create_node(node.op, node.target, (), {}, node.name)
    if node.args:
        made.args = map_arg(node.args, env.__getitem__)
    if node.kwargs:
        made.kwargs = map_arg(node.kwargs, env.__getitem__)
    made.meta = dict(node.meta)
    return made


def all_needed(roots: set[fx.Node], stop: set[fx.Node]) -> set[fx.Node]:
    """`roots` and all that they are computed from, not looking behind `stop`."""
    found: set[fx.Node] = set()
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node in found:
            continue
        found.add(node)
        if node not in stop:
            waiting.extend(node.all_input_nodes)
    return found


def computed_in_backward(joint: JointGraph, saved: Collection[fx.Node]) -> set[fx.Node]:
    """The nodes whose values the backward computes, given those."""
    gradients: Any = joint.graph.output_node().args[0]
    roots = {node for node in gradients[joint.result_count :] if isinstance(node, fx.Node)}
    roots |= {node for node in joint.graph.nodes if node.meta.get("backward") and stays(node)}
    return all_needed(roots, stop={*saved}).difference(saved)
