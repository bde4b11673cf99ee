"""Giving a computed value the strides that eager's kernel gives it."""

from __future__ import annotations

import torch
from symshapes import hint_of

from aotgrad.strides import is_dense, same_layout

aten = torch.ops.aten


def contiguous(value: torch.Tensor) -> torch.Tensor:
    """`value`, or a contiguous copy of it."""
    if value.is_contiguous():
        return value
    return aten.clone.default(value, memory_format=torch.contiguous_format)


def order_of(like: torch.Tensor) -> list[int]:
    """Dimensions from outermost to innermost in memory."""
    strides = [hint_of(stride) for stride in like.stride()]
    return sorted(range(like.dim()), key=lambda dim: -strides[dim])


def inverse_order(order: list[int]) -> list[int]:
    """The permutation that undoes `order`."""
    inverse = [0] * len(order)
    for position, dim in enumerate(order):
        inverse[dim] = position
    return inverse


def laid_out_like(value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """`value` in the strides `empty_like(like)` has; `like` has the same size."""
    if not is_dense(like):
        if value.is_contiguous() and not _permuted(like):
            return value
        like = torch.empty_like(like)
    if same_layout(value, like):
        return value
    order = order_of(like)
    copied = aten.clone.default(aten.permute.default(value, order), memory_format=torch.contiguous_format)
    return aten.permute.default(copied, inverse_order(order))


def _permuted(like: torch.Tensor) -> bool:
    return order_of(like) != list(range(like.dim()))
