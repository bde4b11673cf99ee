"""Distances between rows, as products of matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from aotgrad.decompositions.registry import decomposition

aten = torch.ops.aten


@decomposition(aten._euclidean_dist.default)
def euclidean_dist(x1: Tensor, x2: Tensor) -> Tensor:
    """√(|x1|² + |x2|² - 2 x1·x2), of all rows of `x1` (..., P, M) and of `x2` (..., R, M): (..., P, R).

    As one product, of rows that end in a square and a one: what cancels is summed together, as eager does it.
    """
    squares = [aten.sum.dim_IntList(x * x, [-1], True) for x in (x1, x2)]
    ones = [aten.ones_like.default(square) for square in squares]
    left = aten.cat.default([-2 * x1, squares[0], ones[0]], -1)
    right = aten.cat.default([x2, ones[1], squares[1]], -1)
    found = aten.matmul.default(left, aten.transpose.int(right, -1, -2))
    return aten.sqrt.default(aten.clamp_min.default(found, 0))
