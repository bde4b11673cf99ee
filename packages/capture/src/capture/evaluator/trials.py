"""Operators under an exception handler of the program: what only a kernel refuses is found out before a graph holds it.

Fakes refuse wrong shapes, and most wrong dtypes. The rest a kernel would say when the graph runs, outside the handler.
In: a call on fakes. Out: the kernel's error for the same call on zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from capture._torch import OpOverload, OpOverloadPacket
from symshapes import SYMBOLIC, hint_of

#: Elements that zeros are made of at most: larger calls are taken to be as welcome as they look.
_MOST = 1 << 22


def refusal(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> str | None:
    """What a call raises on zeros of the fakes' metadata, in words; None if it does not, or is not to be tried."""
    leaves = tree_leaves([args, kwargs])
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if not tensors or any(t.layout is not torch.strided for t in tensors) or is_programs_own(function):
        return None
    if sum(_span(t) for t in tensors) > _MOST:
        return None
    # Random numbers go on afterwards as they would have.
    with torch.random.fork_rng(devices={t.device.index or 0 for t in tensors if t.device.type == "cuda"}):
        try:
            function(*tree_map(_real, args), **tree_map(_real, kwargs))
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return None


def is_programs_own(function: Callable[..., Any]) -> bool:
    """Whether it may do anything: a custom operator."""
    own = isinstance(function, (OpOverload, OpOverloadPacket))
    name = getattr(function, "_qualified_op_name", None) or str(getattr(function, "_schema", ""))
    return own and not name.startswith("aten::")


def _span(tensor: torch.Tensor) -> int:
    """Elements from its first in memory to its last."""
    sizes, strides = map(hint_of, tensor.shape), map(hint_of, tensor.stride())
    return 1 + sum(max(size - 1, 0) * abs(stride) for size, stride in zip(sizes, strides, strict=True))


def _real(value: Any) -> Any:
    if isinstance(value, SYMBOLIC):
        return hint_of(value)
    if not isinstance(value, torch.Tensor):
        return value
    memory = torch.zeros(_span(value), dtype=value.dtype, device=value.device)
    made = memory.as_strided([hint_of(size) for size in value.shape], [hint_of(stride) for stride in value.stride()])
    return made.requires_grad_(value.requires_grad) if value.is_leaf else made
