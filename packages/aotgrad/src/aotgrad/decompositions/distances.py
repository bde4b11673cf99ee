"""Distances between rows, as products of matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from aotgrad.decompositions.registry import decomposition

aten = torch.ops.aten


def _squares(x: Tensor) -> Tensor:
    return aten.sum.dim_IntList(x * x, [-1], True)


@decomposition(aten._euclidean_dist.default)
def euclidean_dist(x1: Tensor, x2: Tensor) -> Tensor:
    """√(|x1|² + |x2|² - 2 x1·x2), of all rows of `x1` (..., P, M) and of `x2` (..., R, M): (..., P, R)."""
    across = aten.transpose.int(x2, -1, -2)
    products = aten.matmul.default(x1, across)
    squares = _squares(x1) + aten.transpose.int(_squares(x2), -1, -2) - 2 * products
    return aten.sqrt.default(aten.clamp_min.default(squares, 0))
