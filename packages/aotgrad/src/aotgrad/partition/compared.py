"""Values that the backward must find by their very bits, so that it cannot compute them again.

In: a node of a joint graph's forward. Out: whether it is such a one.
"""

from __future__ import annotations

import torch
from torch import fx

from aotgrad.views import is_view

aten = torch.ops.aten

_COMPARING = {aten.eq.Tensor, aten.ne.Tensor}


def is_compared(node: fx.Node) -> bool:
    """Whether the backward compares the value with what the forward made of it: where the maximum was, say. It is found only if
    it has the very bits again, and another kernel may round otherwise: values of a chain in float32, a sum of a product at once.
    """
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return False
    waiting, seen = [node], {node}
    while waiting:
        for user in waiting.pop().users:
            if user.target in _COMPARING and user.meta.get("backward"):
                return True
            if is_view(user.target) and user not in seen:
                seen.add(user)
                waiting.append(user)
    return False
