"""Diagonals that are written: each element is asked whether it lies on one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from aotgrad.decompositions.layout import has_no_elements, laid_out_like
from aotgrad.decompositions.registry import decomposition
from symshapes import is_dense

aten = torch.ops.aten


def _placed(values: Tensor, rows: Any, columns: Any, offset: int, dim1: int, dim2: int) -> tuple[Tensor, Tensor]:
    """Whether an element of a tensor lies on the diagonal of two of its dimensions, and which of `values`, whose last dimension
    runs along the diagonal, it then is; both broadcast to the tensor."""
    rank = values.dim() + 1
    along, across, length = (dim1, dim2, rows) if offset >= 0 else (dim2, dim1, columns)
    padded = aten.constant_pad_nd.default(values, [0, length - values.shape[-1]], 0)
    order = list(range(rank - 2))
    order.insert(along - (across < along), rank - 2)
    spread = aten.unsqueeze.default(aten.permute.default(padded, order), across)
    row, column = (
        aten.view.default(
            aten.arange.start_step(0, size, 1, dtype=torch.int64, device=values.device),
            [size if d == dim else 1 for d in range(rank)],
        )
        for size, dim in ((rows, dim1), (columns, dim2))
    )
    return column - row == offset, spread


@decomposition(aten.diag_embed.default)
def diag_embed(x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Zeros with x on a diagonal of two new dimensions."""
    rank = x.dim() + 1
    dim1, dim2 = dim1 % rank, dim2 % rank
    if dim1 == dim2 or has_no_elements(x):
        return NotImplemented
    size = x.shape[-1] + abs(offset)
    on, spread = _placed(x, size, size, offset, dim1, dim2)
    zero = aten.full.default([], 0, dtype=x.dtype, device=x.device)
    out = aten.where.self(on, spread, zero)
    return out if out.is_contiguous() else aten.clone.default(out, memory_format=torch.contiguous_format)


@decomposition(aten.diagonal_scatter.default)
def diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """x with `src` on a diagonal of two of its dimensions."""
    rank = x.dim()
    dim1, dim2 = dim1 % rank, dim2 % rank
    kept = [x.shape[d] for d in range(rank) if d not in (dim1, dim2)]
    same = src.dtype == x.dtype and src.device == x.device and list(src.shape[:-1]) == kept
    # Of a tensor with gaps the kernel keeps the gaps.
    if dim1 == dim2 or not same or has_no_elements(x) or has_no_elements(src) or not is_dense(x):
        return NotImplemented
    if src.shape[-1] != aten.diagonal.default(x, offset, dim1, dim2).shape[-1]:
        return NotImplemented
    on, spread = _placed(src, x.shape[dim1], x.shape[dim2], offset, dim1, dim2)
    return laid_out_like(aten.where.self(on, spread, x), x)


@decomposition(aten.block_diag.default)
def block_diag(tensors: list[Tensor]) -> Tensor:
    """Zeros with matrices one after another on the diagonal; vectors are matrices of one row."""
    matrices = [aten.view.default(x, [1, *x.shape] if x.dim() else [1, 1]) if x.dim() < 2 else x for x in tensors]
    if len({(x.dtype, x.device) for x in matrices}) > 1 or any(x.dim() > 2 or has_no_elements(x) for x in matrices):
        return NotImplemented
    whole: Any = sum(x.shape[1] for x in matrices)
    rows, before = [], 0
    for x in matrices:
        after = whole - before - x.shape[1]
        rows.append(aten.constant_pad_nd.default(x, [before, after], 0))
        before = before + x.shape[1]
    return aten.cat.default(rows, 0)
