"""Products of vectors, and sums of several products, from sums and from products of matrices."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from aotgrad.decompositions.layout import has_no_elements
from aotgrad.decompositions.precision import cast, widen
from aotgrad.decompositions.registry import decomposition

aten = torch.ops.aten


def _refused(*tensors: Tensor) -> bool:
    """Whether a kernel is asked what it refuses, or what is another sum: of complex numbers, of bools, of nothing."""
    return len({x.dtype for x in tensors}) > 1 or any(
        x.is_complex() or x.dtype is torch.bool or has_no_elements(x) for x in tensors
    )


@decomposition(aten.linalg_cross.default)
def cross(x: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The vector product of what lies along a dimension of three. Not of complex numbers."""
    if _refused(x, other) or x.shape[dim] != 3 or other.shape[dim] != 3:
        return NotImplemented
    dim = dim % x.dim()
    a, b = ([aten.select.int(widen(value), dim, at) for at in range(3)] for value in (x, other))
    parts = [a[(at + 1) % 3] * b[(at + 2) % 3] - a[(at + 2) % 3] * b[(at + 1) % 3] for at in range(3)]
    return aten.stack.default([cast(part, x.dtype) for part in parts], dim)


@decomposition(aten.dot.default, aten.vdot.default)
def dot(x: Tensor, other: Tensor) -> Tensor:
    """The sum of the products of elements, of real numbers."""
    if _refused(x, other) or x.shape != other.shape:
        return NotImplemented
    return cast(aten.sum.dim_IntList(widen(x) * widen(other), [0], dtype=widen(x).dtype), x.dtype)


@decomposition(aten.addr.default)
def addr(x: Tensor, first: Tensor, second: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta x + alpha times the products of each element of `first` with each of `second`; without x where beta is 0."""
    scales = (int, float) if x.is_floating_point() else (int,)
    if (
        _refused(x, first, second)
        or first.dim() != 1
        or second.dim() != 1
        or not all(type(scale) in scales for scale in (beta, alpha))
    ):
        return NotImplemented
    first = widen(first) if alpha == 1 else widen(first) * alpha
    products = aten.unsqueeze.default(first, 1) * widen(second)
    if beta == 0:
        return cast(products, x.dtype)
    return cast((widen(x) if beta == 1 else widen(x) * beta) + products, x.dtype)


@decomposition(aten.addbmm.default)
def addbmm(x: Tensor, left: Tensor, right: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta x + alpha Σ left_i right_i: one product, of the matrices of each side beside each other."""
    if _refused(x, left, right) or left.shape[0] != right.shape[0] or left.shape[2] != right.shape[1]:
        return NotImplemented
    count, rows, depth = left.shape
    wide = aten.clone.default(aten.permute.default(left, [1, 0, 2]), memory_format=torch.contiguous_format)
    long = aten.clone.default(right, memory_format=torch.contiguous_format)
    return aten.addmm.default(
        x,
        aten.view.default(wide, [rows, count * depth]),
        aten.view.default(long, [count * depth, right.shape[2]]),
        beta=beta,
        alpha=alpha,
    )


@decomposition(aten.trace.default)
def trace(x: Tensor) -> Tensor:
    """The sum of what lies on the diagonal of a matrix."""
    if _refused(x) or x.dim() != 2:
        return NotImplemented
    return aten.sum.default(aten.diagonal.default(x))
