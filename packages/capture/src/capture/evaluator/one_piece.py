"""Calls that act on autograd's graph stand in one piece with what they are about: between pieces it is not seen.

A graph with control flow is compiled in pieces, each with one place in autograd's graph. In: the graph so far, and what gradients or
hooks are asked of. Out: ``Unsupported`` where a piece would end between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import fx

from capture.errors import Unsupported
from capture.variables.autograd_history import Act
from symshapes import ControlFlow

from .places import differentiable


def _is_control(node: fx.Node) -> bool:
    return isinstance(node.target, ControlFlow)


def _before(graph: fx.Graph) -> set[fx.Node]:
    """What was computed before the last control flow, and that itself; nothing, where there is none."""
    nodes: list[fx.Node] = list(graph.nodes)
    last = next((at for at in reversed(range(len(nodes))) if _is_control(nodes[at])), -1)
    return set(nodes[: last + 1])


def require_history(graph: fx.Graph, outputs: Iterable[fx.Node]) -> None:
    """Raise where gradients of these lead through what another piece computes."""
    earlier = _before(graph)
    if not earlier:
        return
    waiting, seen = list(outputs), set[fx.Node]()
    while waiting:
        node = waiting.pop()
        if node in seen or node.op == "placeholder" or not differentiable(node.meta.get("val")):
            continue
        seen.add(node)
        if node in earlier:
            raise Unsupported("gradients of what was computed before control flow, or a switch of torch, in the graph")
        waiting += node.all_input_nodes


def require_place(graph: fx.Graph, node: fx.Node) -> None:
    """Raise where a hook would be hung on what another piece computes, or uses, or taken away from there."""
    if node in _before(graph):
        raise Unsupported("a hook on what was computed before control flow, or a switch of torch, in the graph")


def require_no_input_hooks(acts: Sequence[Act], operation: Any) -> None:
    """Raise where control flow would follow a hook on an input, which each piece has for itself."""
    if isinstance(operation, ControlFlow) and any(
        act.hook is not None and not act.is_over and act.tensor.node.op == "placeholder" for act in acts
    ):
        raise Unsupported("control flow, or a switch of torch, after a hook on an input of the graph")
