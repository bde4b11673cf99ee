"""Ops that move elements: views, splits, joins, and the backward formulas of views."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from aotgrad import _torch
from aotgrad.decompositions.layout import contiguous, suggested_format
from aotgrad.decompositions.registry import decomposition
from symshapes import is_unbacked

aten = torch.ops.aten


@decomposition(aten.t.default)
def t(x: Tensor) -> Tensor:
    """A matrix with its dimensions swapped; what has fewer dimensions is itself."""
    return aten.permute.default(x, [1, 0]) if x.dim() == 2 else aten.alias.default(x)


@decomposition(aten.transpose.int)
def transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions swapped."""
    order = list(range(x.dim()))
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return aten.permute.default(x, order)


@decomposition(aten._reshape_alias.default)
def reshape_alias(x: Tensor, size: Any, stride: Any) -> Tensor:
    """A view of another size; the strides follow from it."""
    return aten.view.default(x, size)


@decomposition(aten.split.Tensor)
def split(x: Tensor, split_size: Any, dim: int = 0) -> list[Tensor]:
    """Slices of equal length, the last perhaps shorter. Not for a symbolic length."""
    length = x.shape[dim]
    if type(length) is not int or type(split_size) is not int:
        return NotImplemented
    if split_size == 0:
        return [aten.slice.Tensor(x, dim, 0, 0)]
    starts = range(0, max(length, 1), split_size)
    return [aten.slice.Tensor(x, dim, start, min(start + split_size, length)) for start in starts]


@decomposition(aten.split_with_sizes.default)
def split_with_sizes(x: Tensor, split_sizes: list[Any], dim: int = 0) -> list[Tensor]:
    """Slices of the given lengths."""
    if any(type(size) is int and size < 0 for size in split_sizes) or not _adds_up(split_sizes, x.shape[dim]):
        return NotImplemented
    parts = []
    start: Any = 0
    for size in split_sizes:
        parts.append(aten.slice.Tensor(x, dim, start, start + size))
        start = start + size
    return parts


def _adds_up(sizes: list[Any], length: Any) -> bool:
    total: Any = sum(sizes)
    return not (type(total) is int and type(length) is int) or total == length


@decomposition(aten.unbind.int)
def unbind(x: Tensor, dim: int = 0) -> list[Tensor]:
    """One view for each position of a dimension. Not for a symbolic length."""
    length = x.shape[dim]
    if type(length) is not int:
        return NotImplemented
    return [aten.select.int(x, dim, index) for index in range(length)]


@decomposition(aten.stack.default)
def stack(tensors: list[Tensor], dim: int = 0) -> Tensor:
    """Tensors joined along a new dimension. As in eager they are joined along the one behind it, which then splits in two:
    a format that all of them have stays."""
    size, formats = tensors[0].shape, {suggested_format(x) for x in tensors}
    dim = dim % (len(size) + 1)
    if dim < len(size) and len(formats) == 1 and torch.contiguous_format not in formats:
        return aten.view.default(aten.cat.default(tensors, dim), [*size[:dim], len(tensors), *size[dim:]])
    joined = aten.cat.default([aten.unsqueeze.default(x, dim) for x in tensors], dim)
    return contiguous(joined) if dim < len(size) else joined


def _zeros(like: Tensor, size: Any) -> Tensor:
    zero = False if like.dtype == torch.bool else 0.0 if like.is_floating_point() else 0
    return aten.full.default(list(size), zero, dtype=like.dtype, device=like.device)


@decomposition(aten.select_backward.default)
def select_backward(grad: Tensor, input_sizes: Any, dim: int, index: Any) -> Tensor:
    """Zeros with the gradient at the selected position."""
    return aten.select_scatter.default(_zeros(grad, input_sizes), grad, dim, index)


@decomposition(aten.slice_backward.default)
def slice_backward(grad: Tensor, input_sizes: Any, dim: int, start: Any, end: Any, step: Any) -> Tensor:
    """Zeros with the gradient at the slice."""
    return aten.slice_scatter.default(_zeros(grad, input_sizes), grad, dim, start, end, step)


@decomposition(aten.diagonal_backward.default)
def diagonal_backward(grad: Tensor, input_sizes: Any, offset: int, dim1: int, dim2: int) -> Tensor:
    """Zeros with the gradient on the diagonal."""
    return aten.diagonal_scatter.default(_zeros(grad, input_sizes), grad, offset, dim1, dim2)


@decomposition(aten.repeat.default)
def repeat(x: Tensor, repeats: Any) -> Tensor:
    """The tensor several times along each dimension: expanded, then copied."""
    lead = len(repeats) - x.dim()
    if lead < 0:
        return NotImplemented
    size = [1] * lead + list(x.shape)
    if all(type(count) is int and count == 1 for count in repeats):
        return aten.clone.default(aten.view.default(contiguous(x), size), memory_format=torch.contiguous_format)
    spread: list[Any] = []
    whole: list[Any] = []
    inserted = aten.view.default(contiguous(x), [n for length in size for n in (1, length)])
    for count, length in zip(repeats, size, strict=True):
        if is_unbacked(count):  # which `expand` takes for the length that there is where it is -1
            _torch.promise(count >= 0, partial("Trying to create tensor with negative dimension {}".format, count))
        spread += [count, length]
        whole.append(count * length)
    copied = aten.clone.default(aten.expand.default(inserted, spread), memory_format=torch.contiguous_format)
    return aten.view.default(copied, whole)


@decomposition(aten.rot90.default)
def rot90(x: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """A rotation by k quarter turns in the plane of two dimensions."""
    first, second = dims
    quarter = k % 4
    if quarter == 0:
        return aten.clone.default(x, memory_format=torch.contiguous_format)
    if quarter == 2:
        return aten.flip.default(x, [first, second])
    order = list(range(x.dim()))
    order[first], order[second] = order[second], order[first]
    if quarter == 1:
        return aten.permute.default(aten.flip.default(x, [second]), order)
    return aten.permute.default(aten.flip.default(x, [first]), order)


def _triangle(x: Tensor, diagonal: int, lower: bool) -> Tensor:
    rows = aten.arange.start_step(0, x.shape[-2], 1, dtype=torch.int64, device=x.device)
    columns = aten.arange.start_step(0, x.shape[-1], 1, dtype=torch.int64, device=x.device)
    offset = columns - aten.unsqueeze.default(rows, 1)
    kept = offset <= diagonal if lower else offset >= diagonal
    zero = _zeros(x, [])
    return contiguous(aten.where.self(kept, x, zero))


@decomposition(aten.tril.default)
def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """Zero above the diagonal."""
    return _triangle(x, diagonal, lower=True)


@decomposition(aten.triu.default)
def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """Zero below the diagonal."""
    return _triangle(x, diagonal, lower=False)


@decomposition(aten.pixel_shuffle.default)
def pixel_shuffle(x: Tensor, upscale_factor: int) -> Tensor:
    """(..., C r², H, W) to (..., C, H r, W r)."""
    if x.dim() < 3:
        return NotImplemented
    *lead, channels, height, width = x.shape
    r, n = upscale_factor, len(lead)
    split = aten.view.default(contiguous(x), [*lead, channels // (r * r), r, r, height, width])
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    moved = aten.clone.default(aten.permute.default(split, order), memory_format=torch.contiguous_format)
    return _in_format(aten.view.default(moved, [*lead, channels // (r * r), height * r, width * r]), x)


@decomposition(aten.pixel_unshuffle.default)
def pixel_unshuffle(x: Tensor, downscale_factor: int) -> Tensor:
    """(..., C, H r, W r) to (..., C r², H, W)."""
    if x.dim() < 3:
        return NotImplemented
    *lead, channels, height, width = x.shape
    r, n = downscale_factor, len(lead)
    split = aten.view.default(contiguous(x), [*lead, channels, height // r, r, width // r, r])
    order = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
    moved = aten.clone.default(aten.permute.default(split, order), memory_format=torch.contiguous_format)
    return _in_format(aten.view.default(moved, [*lead, channels * r * r, height // r, width // r]), x)


def _in_format(value: Tensor, x: Tensor) -> Tensor:
    wanted = torch.contiguous_format if x.device.type == "cuda" else suggested_format(x)
    return value if wanted is torch.contiguous_format else aten.clone.default(value, memory_format=wanted)
