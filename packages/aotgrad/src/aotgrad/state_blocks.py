"""Where a graph's calls that set torch's state take effect, so that a piece of the graph can make those that it is under.

In: a graph's nodes in order; `meta["was"]` of a call that sets a setting is what was in force before it. Out: the runs of such calls,
after each of which all is again as before the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from aotgrad import _torch
from aotgrad.errors import Unsupported

#: What counts blocks of autocast.
_STEPS = {torch.autocast_increment_nesting: 1, torch.autocast_decrement_nesting: -1}


def sets_state(node: fx.Node) -> bool:
    """Whether a node is a call that sets what can be told and set back (autocast, say), grad mode apart, or forgets what was cast."""
    target: Any = node.target
    if node.op != "call_function" or target is _torch.set_grad_enabled:
        return False
    return "was" in node.meta or target in _STEPS or target is torch.clear_autocast_cache


def state_blocks(nodes: Sequence[fx.Node]) -> list[list[fx.Node]]:
    """The calls that set state, in runs: what stands between the first and the last of a run is under it.

    Raises Unsupported where the graph leaves state other than it was.
    """
    found: list[list[fx.Node]] = []
    begun: dict[Any, Any] = {}
    state: dict[Any, Any] = {}
    for node in filter(sets_state, nodes):
        target: Any = node.target
        key: Any
        if target in _STEPS:
            key, was, value = "nesting", 0, state.get("nesting", 0) + _STEPS[target]
        elif "was" in node.meta:
            key, was, value = (target, node.args[:-1]), node.meta["was"], node.args[-1]
        else:
            continue
        if key not in begun:
            begun[key] = state[key] = was
        outside = state == begun
        if outside and value == state[key]:
            continue
        if outside:
            found.append([])
        state[key] = value
        found[-1].append(node)
    if state != begun:
        raise Unsupported("control flow in a graph that leaves torch's state other than it was", found[-1][0])
    return found
