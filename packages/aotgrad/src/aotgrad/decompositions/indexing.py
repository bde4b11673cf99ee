"""Gradients of embeddings in terms of `index` and `index_put`.

`index_select`, `index_add` and `index_copy` stay as they are: they refuse the negative positions that `index` takes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

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
