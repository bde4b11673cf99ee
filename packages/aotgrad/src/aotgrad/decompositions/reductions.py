"""Variance, deviation and norms from sums and means."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from aotgrad.decompositions.layout import has_no_elements
from aotgrad.decompositions.precision import cast, widen
from aotgrad.decompositions.registry import decomposition

aten = torch.ops.aten


def _dims(x: Tensor, dim: Any) -> list[int]:
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return list(range(x.dim()))
    return [dim] if isinstance(dim, int) else list(dim)


def _variance(x: Tensor, dims: list[int], correction: Any, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Variance and mean in the precision that kernels compute in."""
    wide = widen(x)
    mean = aten.mean.dim(wide, dims, True)
    centred = wide - mean
    total = aten.sum.dim_IntList(centred * centred, dims, keepdim)
    count: Any = math.prod(x.shape[dim] for dim in dims if x.dim())  # a number's dimension 0 or -1 is none
    left = torch.sym_max(count - correction, 0)
    if type(left) in (int, float) and left == 0:
        variance = total * math.inf  # 0/0, and x/0, as the kernels give
    else:
        variance = total / left
    if not keepdim:
        mean = aten.squeeze.dims(mean, dims)
    return variance, mean


def _refused(x: Tensor) -> bool:
    return not x.is_floating_point() or has_no_elements(x)


@decomposition(aten.var.correction)
def var(x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Tensor:
    """The mean squared distance from the mean, over n - correction (1 by default)."""
    if _refused(x):
        return NotImplemented
    variance, _ = _variance(x, _dims(x, dim), 1 if correction is None else correction, keepdim)
    return cast(variance, x.dtype)


@decomposition(aten.std.correction)
def std(x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Tensor:
    """The root of `var`."""
    if _refused(x):
        return NotImplemented
    variance, _ = _variance(x, _dims(x, dim), 1 if correction is None else correction, keepdim)
    return cast(aten.sqrt.default(variance), x.dtype)


@decomposition(aten.var_mean.correction)
def var_mean(x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """`var` and the mean."""
    if _refused(x):
        return NotImplemented
    variance, mean = _variance(x, _dims(x, dim), 1 if correction is None else correction, keepdim)
    return cast(variance, x.dtype), cast(mean, x.dtype)


@decomposition(aten.std_mean.correction)
def std_mean(x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """`std` and the mean."""
    if _refused(x):
        return NotImplemented
    variance, mean = _variance(x, _dims(x, dim), 1 if correction is None else correction, keepdim)
    return cast(aten.sqrt.default(variance), x.dtype), cast(mean, x.dtype)


@decomposition(aten.linalg_vector_norm.default)
def vector_norm(
    x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    """The norm (Σ |x|ᵒʳᵈ)^(1/ord); the number of elements that are not 0 for 0, the largest or smallest for ±∞."""
    if _refused(x) or (dtype is not None and not dtype.is_floating_point):
        return NotImplemented
    dims = _dims(x, dim)
    wide = widen(x if dtype is None else cast(x, dtype))
    size = aten.abs.default(wide)
    if ord == math.inf:
        out = aten.amax.default(size, dims, keepdim)
    elif ord == -math.inf:
        out = aten.amin.default(size, dims, keepdim)
    elif ord == 0:
        out = aten.sum.dim_IntList(cast(wide != 0, wide.dtype), dims, keepdim)
    elif ord == 1 or _is_one_each(x, dims):
        out = aten.sum.dim_IntList(size, dims, keepdim)
    elif ord == 2:
        out = aten.sqrt.default(aten.sum.dim_IntList(wide * wide, dims, keepdim))
    else:
        total = aten.sum.dim_IntList(aten.pow.Tensor_Scalar(size, ord), dims, keepdim)
        out = aten.pow.Tensor_Scalar(total, 1.0 / ord)
    return cast(out, x.dtype if dtype is None else dtype)


def _is_one_each(x: Tensor, dims: list[int]) -> bool:
    """Whether each result is known to be of one element: its size, which needs no power that may be too large."""
    return all(type(x.shape[dim]) is int and x.shape[dim] == 1 for dim in dims if x.dim())


@decomposition(aten.norm.ScalarOpt_dim, aten.norm.ScalarOpt_dim_dtype)
def norm(x: Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """`linalg_vector_norm`, by the name that it had before."""
    return vector_norm(x, 2 if p is None else p, dim, keepdim, dtype=dtype)


@decomposition(aten.norm.Scalar, aten.norm.ScalarOpt_dtype)
def norm_of_all(x: Tensor, p: Any = 2, *, dtype: torch.dtype | None = None) -> Tensor:
    """The norm of all elements."""
    return vector_norm(x, 2 if p is None else p, dtype=dtype)


@decomposition(aten.dist.default)
def dist(x: Tensor, other: Tensor, p: Any = 2) -> Tensor:
    """The norm of the difference."""
    if _refused(x) or _refused(other) or x.dtype != other.dtype:
        return NotImplemented
    return vector_norm(x - other, p)


@decomposition(aten.nansum.default)
def nansum(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """The sum of all that is a number."""
    if not x.is_floating_point():
        return NotImplemented if x.is_complex() else aten.sum.dim_IntList(x, dim, keepdim, dtype=dtype)
    if has_no_elements(x) or (dtype is not None and not dtype.is_floating_point):
        return NotImplemented
    numbers = aten.where.ScalarSelf(aten.isnan.default(x), 0.0, x)
    return aten.sum.dim_IntList(numbers, dim, keepdim, dtype=dtype)


@decomposition(aten.aminmax.default)
def aminmax(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest and the largest, of a dimension or of all."""
    if x.is_complex() or has_no_elements(x):
        return NotImplemented
    dims = [] if dim is None else [dim]
    return aten.amin.default(x, dims, keepdim), aten.amax.default(x, dims, keepdim)


@decomposition(aten.count_nonzero.default, aten.count_nonzero.dim_IntList)
def count_nonzero(x: Tensor, dim: Any = None) -> Tensor:
    """How many elements are not zero, along dimensions or of all."""
    if x.is_complex() or has_no_elements(x):
        return NotImplemented
    return aten.sum.dim_IntList(x if x.dtype is torch.bool else x != 0, _dims(x, dim))
