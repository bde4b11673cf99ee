"""Writes at computed places, from fewer kinds of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from aotgrad.decompositions.layout import contiguous, has_no_elements
from aotgrad.decompositions.registry import decomposition

aten = torch.ops.aten


@decomposition(aten.scatter_reduce.two)
def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Sums and means, at the places along a dimension that `index` says, from additions; others are left as they are."""
    if (
        reduce not in ("sum", "mean")
        or x.dtype is torch.bool
        or x.is_complex()
        or src.dtype is not x.dtype
        or not x.dim()
        or has_no_elements(index)
    ):
        return NotImplemented
    if reduce == "mean" and not x.is_floating_point():
        return NotImplemented
    start = x if include_self else aten.scatter.value(x, dim, index, 0)
    total = aten.scatter_add.default(start, dim, index, src)
    if reduce == "sum":
        return total
    # Counted in whole numbers: sums of ones in half precision stay at 256.
    one = aten.full.default(list(index.shape), 1, dtype=torch.int64, device=x.device)
    first = aten.full.default(list(x.shape), int(include_self), dtype=torch.int64, device=x.device)
    count = aten.scatter_add.default(first, dim, index, one)
    return total / (count if include_self else aten.clamp.default(count, 1))


@decomposition(aten.take.default)
def take(x: Tensor, index: Tensor) -> Tensor:
    """Elements by their number, as memory would be without gaps."""
    if has_no_elements(x) or not x.dim() or index.dtype is not torch.int64:
        return NotImplemented
    return contiguous(aten.index.Tensor(aten.reshape.default(x, [-1]), [index]))


@decomposition(aten.put.default)
def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """x with elements of `source` written or added at places by their number."""
    if index.dtype is not torch.int64:
        return NotImplemented
    if not x.is_contiguous() or not x.dim() or has_no_elements(x) or has_no_elements(index) or source.dtype != x.dtype:
        return NotImplemented
    flat = aten.index_put.default(
        aten.view.default(x, [-1]), [aten.reshape.default(index, [-1])], aten.reshape.default(source, [-1]), accumulate
    )
    return aten.view.default(flat, list(x.shape))


@decomposition(aten.index_fill.int_Scalar)
def index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """x with one number at positions of a dimension."""
    if type(value) not in (bool, int, float) or (isinstance(value, float) and not x.is_floating_point()):
        return NotImplemented
    if not _can_fill(x, dim, index):
        return NotImplemented
    number = aten.full.default([], value, dtype=x.dtype, device=x.device)
    return _filled(x, dim, index, number)


@decomposition(aten.index_fill.int_Tensor)
def index_fill_tensor(x: Tensor, dim: int, index: Tensor, value: Tensor) -> Tensor:
    """x with one number, that of a tensor of no dimensions, at positions of a dimension."""
    if value.dim() or value.dtype != x.dtype or not _can_fill(x, dim, index):
        return NotImplemented
    return _filled(x, dim, index, value)


def _can_fill(x: Tensor, dim: int, index: Tensor) -> bool:
    # The kernel refuses other positions than int64, and dimensions that are not there.
    positions = index.dtype is torch.int64 and index.dim() == 1
    return positions and -x.dim() <= dim < x.dim() and not has_no_elements(x) and not has_no_elements(index)


def _filled(x: Tensor, dim: int, index: Tensor, value: Tensor) -> Tensor:
    return aten.index_put.default(x, [*[None] * (dim % x.dim()), index], value)
