"""Giving a computed value the strides that eager's kernel gives it."""

from __future__ import annotations

import torch

from symshapes import inverse_permutation, is_dense, looks_channels_last, memory_order, same_layout

aten = torch.ops.aten


def has_no_elements(x: torch.Tensor) -> bool:
    """Whether a size is known to be 0; symbolic ones are not asked."""
    return any(type(size) is int and size == 0 for size in x.shape)


def contiguous(value: torch.Tensor) -> torch.Tensor:
    """`value`, or a contiguous copy of it."""
    if value.is_contiguous():
        return value
    return aten.clone.default(value, memory_format=torch.contiguous_format)


def suggested_format(x: torch.Tensor) -> torch.memory_format:
    """The memory format that kernels on `x` prefer: channels-last or contiguous."""
    if not looks_channels_last(x.shape, x.stride()):
        return torch.contiguous_format
    return torch.channels_last if x.dim() == 4 else torch.channels_last_3d


def laid_out_like(value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """`value` in the strides `empty_like(like)` has; `like` has the same size."""
    if not is_dense(like):
        if value.is_contiguous() and not _permuted(like):
            return value
        like = torch.empty_like(like)
    if same_layout(value, like):
        return value
    order = memory_order(like)
    copied = aten.clone.default(aten.permute.default(value, order), memory_format=torch.contiguous_format)
    return aten.permute.default(copied, inverse_permutation(order))


def _permuted(like: torch.Tensor) -> bool:
    return memory_order(like) != list(range(like.dim()))
