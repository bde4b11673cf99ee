"""Layouts of tensors, compared and described without adding guards on symbolic sizes (`symshapes.rules.layout` may guard)."""

from __future__ import annotations

from typing import Any

import torch

from symshapes.expr.symbols import expr_of, hint_of


def same_size(a: Any, b: Any) -> bool:
    """Whether two sizes are the same number or the same expression; never guards."""
    if type(a) is int and type(b) is int:
        return a == b
    return bool(expr_of(a) == expr_of(b))


def same_sizes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have equal sizes; never guards."""
    return a.dim() == b.dim() and all(same_size(mine, other) for mine, other in zip(a.shape, b.shape, strict=True))


def same_metadata(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have equal dtypes, devices, sizes and strides; never guards."""
    return a.dtype == b.dtype and a.device == b.device and same_sizes(a, b) and same_layout(a, b)


def same_layout(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether `a` and `b`, of equal sizes, have equal strides where a stride matters."""
    if a is b:
        return True
    return all(
        same_size(mine, other)
        for mine, other, size in zip(a.stride(), b.stride(), a.shape, strict=True)
        if not (type(size) is int and size == 1)
    )


def is_dense(t: torch.Tensor) -> bool:
    """Whether the elements fill one block of memory without gaps or overlap; never guards (unsure is False)."""
    expected: Any = 1
    left = [(stride, size) for stride, size in zip(t.stride(), t.shape, strict=True) if not same_size(size, 1)]
    while left:
        for position, (stride, size) in enumerate(left):
            if same_size(stride, expected):
                expected = expected * size
                del left[position]
                break
        else:
            return False
    return True


def memory_order(like: torch.Tensor) -> list[int]:
    """Dimensions from outermost to innermost in memory."""
    strides = [hint_of(stride) for stride in like.stride()]
    return sorted(range(like.dim()), key=lambda dim: -strides[dim])


def inverse_permutation(order: list[int]) -> list[int]:
    """The permutation that undoes `order`."""
    inverse = [0] * len(order)
    for position, dim in enumerate(order):
        inverse[dim] = position
    return inverse
