"""Gradients of embeddings and nearest-neighbour resampling in terms of `index` and `index_put`.

`index_select`, `index_add` and `index_copy` stay as they are: they refuse the negative positions that `index` takes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from aotgrad.decompositions.layout import contiguous, suggested_format
from aotgrad.decompositions.precision import cast, widen
from aotgrad.decompositions.registry import decomposition

aten = torch.ops.aten


@decomposition(aten.embedding_dense_backward.default)
def embedding_dense_backward(
    grad: Tensor, indices: Tensor, num_weights: Any, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    """The gradient of all rows of an embedding: what was looked up is added to its row, without the row of padding."""
    wide = widen(grad)
    if indices.dtype != torch.int64:
        indices = cast(indices, torch.int64)
    if scale_grad_by_freq:
        counts = aten.full.default([num_weights], 0, dtype=torch.int64, device=indices.device)
        one = aten.full.default(list(indices.shape), 1, dtype=torch.int64, device=indices.device)
        counts = aten.index_put.default(counts, [indices], one, True)
        scale = cast(aten.index.Tensor(counts, [indices]), wide.dtype)
        wide = wide / aten.unsqueeze.default(scale, -1)
    if padding_idx >= 0:
        padding = aten.unsqueeze.default(indices == padding_idx, -1)
        wide = aten.where.ScalarSelf(padding, 0.0, wide)
    table = aten.full.default([num_weights, grad.shape[-1]], 0.0, dtype=wide.dtype, device=grad.device)
    return cast(aten.index_put.default(table, [indices], wide, True), grad.dtype)


def _nearest(x: Tensor, length: Any, size: Any, scale: float | None) -> Tensor:
    """For each of `size` places, the index of the nearest of `length`: floor(place * scale), in float32 as eager."""
    places = aten.arange.start_step(0, size, 1, dtype=torch.float32, device=x.device)
    step = 1.0 / scale if scale is not None and scale > 0 else length / size
    return aten.clamp.default(cast(places * step, torch.int64), None, length - 1)


@decomposition(aten.upsample_nearest1d.default)
def upsample_nearest1d(x: Tensor, output_size: Any, scales: float | None = None) -> Tensor:
    """The nearest elements of an (N, C, W) tensor. Not for symbolic sizes."""
    return _upsampled(x, output_size, [scales])


@decomposition(aten.upsample_nearest2d.default)
def upsample_nearest2d(
    x: Tensor, output_size: Any, scales_h: float | None = None, scales_w: float | None = None
) -> Tensor:
    """The nearest elements of an (N, C, H, W) tensor. Not for symbolic sizes."""
    return _upsampled(x, output_size, [scales_h, scales_w])


@decomposition(aten.upsample_nearest3d.default)
def upsample_nearest3d(
    x: Tensor,
    output_size: Any,
    scales_d: float | None = None,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Tensor:
    """The nearest elements of an (N, C, D, H, W) tensor. Not for symbolic sizes."""
    return _upsampled(x, output_size, [scales_d, scales_h, scales_w])


def _upsampled(x: Tensor, output_size: Any, scales: list[float | None]) -> Tensor:
    if any(type(size) is not int for size in (*x.shape[2:], *output_size)):
        return NotImplemented
    rank = len(output_size)
    indices: list[Tensor | None] = [None, None]
    for dim, (size, scale) in enumerate(zip(output_size, scales, strict=True)):
        index = _nearest(x, x.shape[dim + 2], size, scale)
        for _ in range(rank - 1 - dim):
            index = aten.unsqueeze.default(index, -1)
        indices.append(index)
    out = aten.index.Tensor(x, indices)
    wanted = suggested_format(x)
    return contiguous(out) if wanted is torch.contiguous_format else aten.clone.default(out, memory_format=wanted)
