"""NumPy's functions that make one element of many: sums, extremes, means, and what is cumulated."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from .dtypes import CPU, common
from .elementwise import apply
from .table import Array, DType, Gives, Operand, stands_for

Tensor = torch.Tensor
Axis = int | Sequence[int] | None


def axes_of(a: Tensor, axis: Axis) -> list[int]:
    """Axes as numbers from 0. Raises ``IndexError`` for one that there is not, and ``ValueError`` for one that is there twice."""
    given = range(a.dim()) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    if any(not -a.dim() <= each < a.dim() for each in given):
        raise IndexError(f"axis {axis} is out of bounds for array of dimension {a.dim()}")
    found = [each % a.dim() for each in given]
    if len(set(found)) < len(found):
        raise ValueError("duplicate value in 'axis'")
    return found


def _reduced(function: Callable[[Tensor, int], Tensor], a: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    """What a function of one dimension makes of several, taken as one."""
    axes = axes_of(a, axis)
    if len(axes) == 1 and a.dim():
        found = function(a, axes[0])
        return found.unsqueeze(axes[0]) if keepdims else found
    kept = [dim for dim in range(a.dim()) if dim not in axes]
    moved = a.permute(*kept, *axes) if a.dim() else a
    found = function(moved.reshape([a.shape[dim] for dim in kept] + [math.prod(a.shape[dim] for dim in axes)]), -1)
    return found.reshape([1 if dim in axes else size for dim, size in enumerate(a.shape)]) if keepdims else found


def _whole(a: Tensor) -> bool:
    return not (a.dtype.is_floating_point or a.dtype.is_complex)


def _summed_as(a: Tensor, dtype: DType) -> torch.dtype:
    """What sums are made in: of small integers, int64. Raises ``NotImplementedError`` where that is an unsigned one."""
    if dtype is not None:
        return dtype
    if a.dtype is torch.uint8:
        raise NotImplementedError("sums of unsigned integers, which are of 64 bits")
    return torch.int64 if _whole(a) else a.dtype


def _exact(a: Tensor) -> Tensor:
    """Half precision is added up in single precision."""
    return a.float() if a.dtype is torch.float16 else a


@stands_for("sum", method="sum")
def sum_(a: Array, axis: Axis = None, dtype: DType = None, *, keepdims: bool = False) -> Tensor:
    """``np.sum``."""
    a = a.to(_summed_as(a, dtype))
    axes = axes_of(a, axis)
    return torch.sum(a, axes, keepdim=keepdims, dtype=a.dtype) if axes or not a.dim() else a.clone()


@stands_for("prod", method="prod")
def prod(a: Array, axis: Axis = None, dtype: DType = None, *, keepdims: bool = False) -> Tensor:
    """``np.prod``."""
    a = a.to(_summed_as(a, dtype))
    return _reduced(lambda x, dim: torch.prod(_exact(x), dim).to(a.dtype), a, axis, keepdims)


def _averaged_as(a: Tensor) -> torch.dtype:
    return torch.float64 if _whole(a) else a.dtype


@stands_for("mean", method="mean")
def mean(a: Array, axis: Axis = None, dtype: DType = None, *, keepdims: bool = False) -> Tensor:
    """``np.mean``."""
    given = dtype or _averaged_as(a)
    if _whole(torch.empty((), dtype=given, device=CPU)):
        raise NotImplementedError("a mean in integers")
    axes = axes_of(a, axis)
    a = _exact(a.to(given))
    return (torch.mean(a, axes, keepdim=keepdims) if axes or not a.dim() else a.clone()).to(given)


def _spread(function: Callable[..., Tensor], a: Tensor, axis: Axis, ddof: float, keepdims: bool) -> Tensor:
    if a.dtype.is_complex or not isinstance(ddof, (int, float)):
        raise NotImplementedError("the variance of complex numbers")
    to = _averaged_as(a)
    x = _exact(a.to(to))
    return _reduced(lambda x, dim: function(x, dim, correction=ddof), x, axis, keepdims).to(to)


@stands_for("var", method="var")
def var(a: Array, axis: Axis = None, *, ddof: float = 0, keepdims: bool = False) -> Tensor:
    """``np.var``."""
    return _spread(torch.var, a, axis, ddof, keepdims)


@stands_for("std", method="std")
def std(a: Array, axis: Axis = None, *, ddof: float = 0, keepdims: bool = False) -> Tensor:
    """``np.std``."""
    return _spread(torch.std, a, axis, ddof, keepdims)


def _ordered(a: Tensor) -> None:
    if a.dtype.is_complex:
        raise NotImplementedError("the order of complex numbers")


@stands_for("max", "amax", method="max")
def max_(a: Array, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """``np.max``."""
    _ordered(a)
    axes = axes_of(a, axis)
    return torch.amax(a, axes, keepdim=keepdims) if axes or not a.dim() else a.clone()


@stands_for("min", "amin", method="min")
def min_(a: Array, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """``np.min``."""
    _ordered(a)
    axes = axes_of(a, axis)
    return torch.amin(a, axes, keepdim=keepdims) if axes or not a.dim() else a.clone()


@stands_for("ptp")
def ptp(a: Array, axis: Axis = None, *, keepdims: bool = False) -> Any:
    """``np.ptp``."""
    return apply("subtract", max_(a, axis, keepdims=keepdims), min_(a, axis, keepdims=keepdims))


def _place(function: Callable[..., Tensor], a: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    _ordered(a)
    if a.dtype is torch.bool:
        a = a.to(torch.uint8)
    if axis is None:
        found = function(a.reshape(-1), 0)
        return found.reshape([1] * a.dim()) if keepdims else found
    return function(a, axes_of(a, axis)[0], keepdim=keepdims)


@stands_for("argmax", method="argmax")
def argmax(a: Array, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """``np.argmax``."""
    return _place(torch.argmax, a, axis, keepdims)


@stands_for("argmin", method="argmin")
def argmin(a: Array, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """``np.argmin``."""
    return _place(torch.argmin, a, axis, keepdims)


@stands_for("any", method="any")
def any_(a: Array, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """``np.any``."""
    axes = axes_of(a, axis)
    found = a != 0
    return torch.any(found, axes, keepdim=keepdims) if axes else found


@stands_for("all", method="all")
def all_(a: Array, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """``np.all``."""
    axes = axes_of(a, axis)
    found = a != 0
    return torch.all(found, axes, keepdim=keepdims) if axes else found


def _cumulated(function: Callable[..., Tensor], a: Tensor, axis: int | None, dtype: DType) -> Tensor:
    to = _summed_as(a, dtype)
    x, dim = (a.reshape(-1), 0) if axis is None else (a, axes_of(a, axis)[0])
    return function(_exact(x.to(to)), dim).to(to)


@stands_for("cumsum", method="cumsum")
def cumsum(a: Array, axis: int | None = None, dtype: DType = None) -> Tensor:
    """``np.cumsum``."""
    return _cumulated(torch.cumsum, a, axis, dtype)


@stands_for("cumprod", method="cumprod")
def cumprod(a: Array, axis: int | None = None, dtype: DType = None) -> Tensor:
    """``np.cumprod``."""
    return _cumulated(torch.cumprod, a, axis, dtype)


@stands_for("nansum")
def nansum(a: Array, axis: Axis = None, dtype: DType = None, *, keepdims: bool = False) -> Tensor:
    """``np.nansum``."""
    return sum_(a if _whole(a) else torch.where(torch.isnan(a), 0, a), axis, dtype, keepdims=keepdims)


@stands_for("nanmean")
def nanmean(a: Array, axis: Axis = None, *, keepdims: bool = False) -> Any:
    """``np.nanmean``."""
    if _whole(a):
        return mean(a, axis, keepdims=keepdims)
    known = ~torch.isnan(a)
    x = torch.where(known, _exact(a), 0)
    total, count = sum_(x, axis, keepdims=keepdims), sum_(known, axis, keepdims=keepdims)
    return (total / count).to(a.dtype)


@stands_for("median")
def median(a: Array, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """``np.median``: the mean of the two in the middle."""
    _ordered(a)
    to = _averaged_as(a)
    x = a.to(to)

    def middle(x: Tensor, dim: int) -> Tensor:
        n = x.shape[dim]
        if not isinstance(n, int) or n == 0:
            raise NotImplementedError("the median of elements whose number may vary")
        rows = torch.sort(x, dim).values
        pair = torch.stack([rows.select(dim, (n - 1) // 2), rows.select(dim, n // 2)])
        last = rows.select(dim, n - 1)
        return torch.where(torch.isnan(last), last, mean(pair, 0))

    return _reduced(middle, x, axis, keepdims)


def _between(a: Tensor, axis: Axis, share: Any, keepdims: bool) -> Tensor:
    """Where a share of the elements lies below: between the two next to that place, as NumPy rounds it."""
    _ordered(a)
    if not isinstance(share, (int, float)) or not 0 <= share <= 1:
        raise NotImplementedError("quantiles of several or of unknown shares")
    if a.dtype is torch.float16 or a.dtype is torch.bool:
        raise NotImplementedError(f"quantiles of {a.dtype}")
    x = a.to(_averaged_as(a))

    def found(x: Tensor, dim: int) -> Tensor:
        n = x.shape[dim]
        if not isinstance(n, int) or n == 0:
            raise NotImplementedError("quantiles of elements whose number may vary")
        rows = torch.sort(x, dim).values
        place = share * (n - 1)
        part = place - math.floor(place)
        low, high = rows.select(dim, math.floor(place)), rows.select(dim, min(math.floor(place) + 1, n - 1))
        between = high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part
        last = rows.select(dim, n - 1)
        return torch.where(torch.isnan(last), last, between)

    return _reduced(found, x, axis, keepdims)


@stands_for("quantile")
def quantile(a: Array, q: float, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """``np.quantile`` of one known share."""
    return _between(a, axis, q, keepdims)


@stands_for("percentile")
def percentile(a: Array, q: float, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """``np.percentile`` of one known share."""
    return _between(a, axis, q / 100 if isinstance(q, (int, float)) else q, keepdims)


@stands_for("average")
def average(a: Array, axis: Axis = None, weights: Any = None, *, keepdims: bool = False) -> Any:
    """``np.average`` without weights."""
    if weights is not None:
        raise NotImplementedError("an average with weights")
    return mean(a, axis, keepdims=keepdims)


#: Python's own number in some versions of NumPy.
_COUNT = Gives.COMPUTED if isinstance(np.count_nonzero(np.ones(1)), np.generic) else Gives.NUMBER


@stands_for("count_nonzero", gives=_COUNT)
def count_nonzero(a: Array) -> Tensor:
    """``np.count_nonzero`` of all elements."""
    return torch.sum(a != 0)


@stands_for("allclose", gives=Gives.NUMBER)
def allclose(a: Array, b: Array, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """``np.allclose``."""
    return torch.all(isclose(a, b, rtol, atol, equal_nan))


@stands_for("isclose")
def isclose(a: Operand, b: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """``np.isclose``."""
    if not isinstance(rtol, (int, float)) or not isinstance(atol, (int, float)):
        raise NotImplementedError("tolerances that are arrays")
    to = common(a, b, 1.0)
    x, y = (each.to(to) if isinstance(each, Tensor) else torch.full((), each, dtype=to, device=CPU) for each in (a, b))
    near = torch.abs(x - y) <= atol + rtol * torch.abs(y)
    found = (near & torch.isfinite(y)) | (x == y)
    return found | (torch.isnan(x) & torch.isnan(y)) if equal_nan else found


@stands_for("array_equal", gives=Gives.NUMBER)
def array_equal(a1: Array, a2: Array, equal_nan: bool = False) -> Tensor:
    """``np.array_equal`` of arrays of one shape."""
    if equal_nan or a1.dim() != a2.dim() or any(n != m for n, m in zip(a1.shape, a2.shape, strict=True)):
        raise NotImplementedError("arrays that are not equal by their shapes")
    to = common(a1, a2)
    return torch.all(a1.to(to) == a2.to(to))
