"""Which graphs can't be recorded: a replay repeats launches on one device, and nothing else.

Flows in: a functional ATen graph. Flows out: a reason, or None.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from inductor.lowerings import LOWERINGS
from symshapes import facts_if_operator, is_unbacked


def devices_of(graph: fx.Graph) -> list[torch.device]:
    """The devices that a graph's tensors are on."""
    values = pytree.tree_leaves([node.meta.get("val") for node in graph.nodes])
    return list(dict.fromkeys(value.device for value in values if isinstance(value, torch.Tensor)))


def refusal(graph: fx.Graph) -> str | None:
    """Why a graph's launches can't be recorded, as far as the graph tells; None if nothing speaks against it."""
    for node in graph.nodes:
        leaves = pytree.tree_leaves(node.meta.get("val"))
        numbers = [n for leaf in leaves for n in (leaf.shape if isinstance(leaf, torch.Tensor) else (leaf,))]
        if any(map(is_unbacked, numbers)):
            return f"the host waits for what {node.target} finds"
        if node.op == "call_function" and any(isinstance(leaf, torch.Tensor) for leaf in leaves):
            reason = _of_call(node)
            if reason is not None:
                return reason
    devices = sorted(map(str, devices_of(graph)))
    return f"it works on {' and '.join(devices)}" if len(devices) > 1 else None


def _of_call(node: fx.Node) -> str | None:
    facts = facts_if_operator(node.target)
    if facts is None:
        return None if _is_of_python(node.target) else f"{_name(node.target)} may do more than launch kernels"
    # Torch's own operators do as their schemas say, and so does what becomes a loop; of others nobody knows what they do besides,
    # which a replay would not, but for those that are said to launch no more than kernels.
    known = facts.fresh or facts.aliases or facts.hides_views or facts.launches or node.target in LOWERINGS
    if (facts.acts and not facts.random) or not known:
        return f"{node.target} may do more than launch kernels"
    if any(isinstance(leaf, torch.Generator) for leaf in pytree.tree_leaves((node.args, node.kwargs))):
        return f"{node.target} draws from a generator of the program's own"
    return None


def _is_of_python(target: Any) -> bool:
    """Whether it is an operation of Python's, such as taking an item of several results."""
    return getattr(target, "__module__", None) in ("_operator", "builtins")


def _name(target: Any) -> str:
    return str(getattr(target, "__name__", target))
