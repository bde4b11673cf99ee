"""Passes over a finished graph: nodes that nobody needs go, values lose their autograd state."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from symshapes import FakeMode, facts_if_operator

aten = torch.ops.aten


def remove_dead(graph: fx.Graph) -> None:
    """Erase calls whose results nobody uses, but for those that do something besides."""
    graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output") or stays(node))


def stays(node: fx.Node) -> bool:
    """Whether the node runs once and in its place even if unread: it moves a random generator on, or returns nothing."""
    facts = facts_if_operator(node.target)
    return facts is not None and facts.acts


def clean_values(graph: fx.Graph, mode: FakeMode) -> None:
    """Replace fake values that have autograd state (they were what autograd ran on) by detached ones."""
    for node in graph.nodes:
        value = node.meta.get("val")
        if value is not None:
            node.meta["val"] = _clean(value, mode)


def _clean(value: Any, mode: FakeMode) -> Any:
    if isinstance(value, torch.Tensor):
        return mode.dispatch(aten.detach.default, (value,), {}) if value.requires_grad else value
    if isinstance(value, (tuple, list)):
        return type(value)(_clean(item, mode) for item in value)
    return value
