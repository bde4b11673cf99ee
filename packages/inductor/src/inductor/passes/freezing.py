"""Freezing: a graph's tensors are constants, and what follows from them alone is computed once, by eager kernels.

In: an ATen graph that holds tensors (`get_attr`), with fake values in `meta["val"]`. Out: a copy that holds what was computed of
them; calls that nobody reads any more are gone. No more memory than `ROOM`, or twice the largest tensor that it comes of, is given
to one value: what grows beyond that, say by being repeated, is computed at each call.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from inductor._torch import OpOverload, no_autocast, no_function_modes
from inductor.passes.graphs import reaches_output
from inductor.passes.patterns import is_static
from symshapes import facts_if_operator

ROOM = 1 << 20


class Constants:
    """The tensors that a graph holds, by `get_attr` target, and what else is known of its nodes without a call's inputs."""

    def __init__(self, graph: fx.Graph, tensors: dict[str, torch.Tensor]) -> None:
        self.graph = graph
        self.tensors = tensors
        self._weight: dict[fx.Node, int] = {}
        """For what is known: bytes of the largest held tensor that it comes of; 0 if of none."""
        for node in graph.nodes:
            self._look_at(node)

    def __contains__(self, node: Any) -> bool:
        return node in self._weight

    def comes_of_held(self, node: fx.Node) -> bool:
        """Whether a known value is computed from a tensor that the graph holds, and not only of numbers."""
        return self._weight[node] > 0

    def value(self, node: fx.Node) -> Any:
        """The value of a known node: a held tensor itself, or what eager's kernels make of those."""
        needed, todo = {node}, [node]
        while todo:
            for each in todo.pop().all_input_nodes:
                if each not in needed:
                    needed.add(each)
                    todo.append(each)
        env: dict[fx.Node, Any] = {}
        with eagerly():
            for each in sorted(needed):
                env[each] = self.tensors[str(each.target)] if each.op == "get_attr" else _computed(each, env)
        return env[node]

    def hold(self, value: torch.Tensor, like: fx.Node, before: fx.Node) -> fx.Node:
        """A new node, ahead of `before`, for a tensor of the metadata of `like`, which names it."""
        with self.graph.inserting_before(before):
            made = self.graph.create_node("get_attr", f"{like.name}_frozen", (), {})
        made.target = made.name
        self.tensors[made.name] = value
        made.meta |= {key: like.meta[key] for key in ("val", "source") if key in like.meta}
        self._look_at(made)
        return made

    def look_at(self, node: fx.Node) -> None:
        """Take in a call that was made since."""
        self._look_at(node)

    def _look_at(self, node: fx.Node) -> None:
        if node.op == "get_attr":
            tensor = self.tensors.get(str(node.target))
            if tensor is not None:
                self._weight[node] = max(_bytes(tensor), 1)
        elif node.op == "call_function" and all(each in self._weight for each in node.all_input_nodes):
            weight = max((self._weight[each] for each in node.all_input_nodes), default=0)
            if _is_computable(node) and _size(node.meta["val"]) <= max(ROOM, 2 * weight):
                self._weight[node] = weight


def fold_constants(graph: fx.Graph, constants: Constants) -> int:
    """Compute what is known, change the graph to hold it, and say how many values that were.

    Views of held tensors stay views; what is a result of the graph is made anew by each call.
    """
    folded = 0
    for node in list(graph.nodes):
        if node not in constants or all(user in constants for user in node.users):
            continue
        for each in _worth_holding(node, constants):
            value = _laid_out(constants.value(each), each.meta["val"])
            each.replace_all_uses_with(constants.hold(value, each, each))
            folded += 1
    drop_unread(graph)
    return folded


def _worth_holding(node: fx.Node, constants: Constants) -> Iterator[fx.Node]:
    todo = [node]
    while todo:
        each = todo.pop()
        if each.op == "get_attr" or not constants.comes_of_held(each):
            continue
        facts = facts_if_operator(each.target)
        many = not isinstance(each.meta["val"], torch.Tensor)
        if many or (facts is not None and (facts.aliases or facts.hides_views)) or reaches_output(each):
            todo.extend(each.all_input_nodes)
        else:
            yield each


def drop_unread(graph: fx.Graph) -> None:
    """Erase calls and constants that nobody reads."""
    for node in reversed(list(graph.nodes)):
        if not node.users and (node.op == "get_attr" or (node.op == "call_function" and _acts_not(node))):
            graph.erase_node(node)


@contextmanager
def eagerly() -> Iterator[None]:
    """What runs inside is computed as the graph says, and leaves no trace: no gradients, no casts by autocast, and no modes of the
    program's that see it, or that would have it make fake tensors."""
    with torch.inference_mode(False), torch.no_grad(), no_autocast(), _disable_current_modes(), no_function_modes():
        yield


def _computed(node: fx.Node, env: dict[fx.Node, Any]) -> Any:
    target: Any = node.target
    return target(*fx.node.map_arg(node.args, env.__getitem__), **fx.node.map_arg(node.kwargs, env.__getitem__))


def _is_computable(node: fx.Node) -> bool:
    """Whether a call gives tensors of known sizes, and nothing else than its arguments decides which."""
    value = node.meta.get("val")
    tensors = value if isinstance(value, tuple | list) else (value,)
    if not tensors or not all(isinstance(each, torch.Tensor) for each in tensors) or not is_static(value):
        return False
    if node.target is operator.getitem:
        return True
    # Of an operator of somebody's own nobody knows what else it reads.
    known = isinstance(node.target, OpOverload) and node.target.namespace == "aten"
    return known and _acts_not(node) and not _has_symbols(node)


def _acts_not(node: fx.Node) -> bool:
    facts = facts_if_operator(node.target)
    return node.target is operator.getitem if facts is None else not facts.acts


def _has_symbols(node: fx.Node) -> bool:
    found = False

    def look(value: Any) -> Any:
        nonlocal found
        found = found or not is_static(value)
        return value

    fx.node.map_aggregate((node.args, node.kwargs), lambda value: value if isinstance(value, fx.Node) else look(value))
    return found


def _laid_out(value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The value with the strides that the graph was traced with."""
    assert value.shape == like.shape and value.dtype is like.dtype, f"{value.shape} {value.dtype} for {like}"
    if value.stride() == like.stride():
        return value
    with eagerly():
        made = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=value.device)
        return made.copy_(value)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _size(value: Any) -> int:
    return sum(map(_bytes, value if isinstance(value, tuple | list) else (value,)))
