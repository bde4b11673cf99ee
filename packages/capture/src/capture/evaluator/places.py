"""Tensors whose own place in autograd's graph the program asks for or acts on: hooks, kept and partial gradients.

In: such tensors, noted as their uses are evaluated. Out: an earlier step to break at. A compiled graph is one place to
autograd: where a tensor and what was computed from it both come out of it, gradients pass the tensor by.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves


def earlier_step(placed: Iterable[tuple[int, fx.Node]], step: int) -> int:
    """Where to break instead of at `step`, so that nothing differentiable was computed yet from what was noted there."""
    found = step
    for noted, node in placed:
        made = node.meta.get("step")
        if noted != step or made is None:
            continue  # another step's; an input
        later = (user.meta.get("step", step) for user in node.users if differentiable(user.meta.get("val")))
        found = min(found, *(s for s in later if made < s), step)
    return found


def differentiable(values: Any) -> bool:
    """Whether a tensor is among these, or within what they contain, that requires gradients."""
    return any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in tree_leaves(values))
