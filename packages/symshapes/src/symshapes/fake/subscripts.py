"""`x[n]` for a symbolic n: torch's own indexing asks for the value of each number, this selects by it.

In: a tensor and a key. Out: the part that the key's numbers select, and what is left of the key.
"""

from __future__ import annotations

from typing import Any

import torch


def has_symbol(key: Any) -> bool:
    """Whether a symbolic number is an index of its own in a key."""
    return type(key) is torch.SymInt or (type(key) is tuple and any(type(item) is torch.SymInt for item in key))


def select_symbols(tensor: torch.Tensor, key: Any) -> tuple[torch.Tensor, tuple[Any, ...]]:
    """The tensor with its symbolic indices applied, and the key without them.

    Raises IndexError as eager does for a key of too many indices.
    """
    items = key if type(key) is tuple else (key,)
    used = [_dims(item) for item in items]
    free = tensor.dim() - sum(used)
    if free < 0:
        raise IndexError(f"too many indices for tensor of dimension {tensor.dim()}")
    dim, picks = 0, []
    for item, dims in zip(items, used, strict=True):
        if type(item) is torch.SymInt:
            picks.append((dim, item))
        dim += free if item is Ellipsis else dims
    for dim, item in reversed(picks):
        tensor = tensor.select(dim, item)
    return tensor, tuple(item for item in items if type(item) is not torch.SymInt)


def _dims(item: Any) -> int:
    """How many dimensions of a tensor a part of a key is about."""
    if item is None or item is Ellipsis or type(item) is bool:
        return 0
    if isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8):
        return item.dim()
    return 1
