"""Where a graph's calls that set autocast take effect, so that a piece of the graph can make those that it is under.

In: a graph's nodes in order. Out: the runs of such calls (`blocks`), after each of which autocast is again as before the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from aotgrad.errors import Unsupported

_BY_DEVICE: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.set_autocast_enabled: torch.is_autocast_enabled,
    torch.set_autocast_dtype: torch.get_autocast_dtype,
}
"""What sets autocast for a device, and what tells how it is set."""
_STEPS = {torch.autocast_increment_nesting: 1, torch.autocast_decrement_nesting: -1}
_CACHE = torch.set_autocast_cache_enabled


def sets_autocast(node: fx.Node) -> bool:
    """Whether a node is a call that sets autocast, or forgets what was cast."""
    target: Any = node.target
    known = target in _BY_DEVICE or target in _STEPS or target in (_CACHE, torch.clear_autocast_cache)
    return node.op == "call_function" and known


def autocast_blocks(nodes: Sequence[fx.Node]) -> list[list[fx.Node]]:
    """The calls that set autocast, in runs: what stands between the first and the last of a run is under it.

    Raises Unsupported where the graph leaves autocast other than it was.
    """
    found: list[list[fx.Node]] = []
    begun: dict[Any, Any] = {}
    state: dict[Any, Any] = {}
    for node in filter(sets_autocast, nodes):
        key, asked = _what(node)
        if key is None:
            continue
        if key not in begun:
            begun[key] = state[key] = asked()
        value = state[key] + _STEPS[node.target] if node.target in _STEPS else node.args[-1]
        outside = state == begun
        if outside and value == state[key]:
            continue
        if outside:
            found.append([])
        state[key] = value
        found[-1].append(node)
    if state != begun:
        raise Unsupported("control flow in a graph that leaves autocast on", found[-1][0])
    return found


def _what(node: fx.Node) -> tuple[Any, Callable[[], Any]]:
    """What a call sets, if anything, and what tells how it is set before the graph runs."""
    target: Any = node.target
    if target in _STEPS:
        return "nesting", int
    if target is _CACHE:
        return _CACHE, torch.is_autocast_cache_enabled
    if target in _BY_DEVICE:
        device = node.args[0]
        return (target, device), lambda: _BY_DEVICE[target](device)
    return None, lambda: None
