"""Operators under an exception handler of the program: what only a kernel refuses is found out before a graph holds it.

Fakes refuse wrong shapes, and most wrong dtypes. The rest a kernel would say when the graph runs, outside the handler.
In: a call on fakes. Out: the kernel's error for the same call on zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from capture._torch import OpOverload, OpOverloadPacket, beneath_levels
from symshapes import SYMBOLIC, hint_of

#: Elements that zeros are made of at most: larger calls are taken to be as welcome as they look.
_MOST = 1 << 22
#: Elements along a dimension where only the numbers of a call count.
_SMALL = 2


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


def range_refusal(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> str | None:
    """What a call raises, in words, because a number is beyond what a dtype holds; None if it does not.

    That is said before anything is computed, so tensors are small, and the host's.
    """
    if is_programs_own(function):
        return None
    with torch.random.fork_rng(devices=()), beneath_levels():
        try:
            function(*tree_map(_small, args), **{name: tree_map(_small, value) for name, value in kwargs.items()})
        except RuntimeError as error:
            words = str(error)  # sizes are numbers, too
            return f"RuntimeError: {words}" if "without overflow" in words and "int64" not in words else None
        except Exception:  # of what is made smaller here, and no news
            return None
    return None


def _small(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        sizes = [min(hint_of(size), _SMALL) for size in value.shape]
        return torch.zeros(sizes, dtype=value.dtype).requires_grad_(value.requires_grad)
    if isinstance(value, torch.device):
        return torch.device("cpu")
    real = hint_of(value) if isinstance(value, SYMBOLIC) else value
    return max(-1, min(real, 1)) if type(real) is int else real  # a size, or a place


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
