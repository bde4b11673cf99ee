"""NumPy's functions that order, choose and count elements."""

from __future__ import annotations

from typing import Any

import torch

from .dtypes import CPU, common, fitted, promoted
from .elementwise import apply
from .reductions import axes_of
from .table import Array, Gives, Operand, stands_for

Tensor = torch.Tensor
_ARRAY = Gives.ARRAY


def _ordered(a: Tensor) -> None:
    if a.dtype.is_complex:
        raise NotImplementedError("the order of complex numbers")


@stands_for("where", gives=_ARRAY)
def where(condition: Array, x: Operand = None, y: Operand = None) -> Any:
    """``np.where``: a choice, or with a condition alone where it holds."""
    if x is None and y is None:
        return nonzero(condition)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    to = promoted(x, y)
    return torch.where(condition != 0, fitted(x, to), fitted(y, to))


@stands_for("clip", method="clip")
def clip(a: Array, a_min: Operand = None, a_max: Operand = None) -> Any:
    """``np.clip``."""
    _ordered(a)
    if a.dtype is torch.bool:
        raise NotImplementedError("np.clip of truths")
    found: Any = a
    if a_min is not None:
        found = apply("maximum", found, a_min)
    if a_max is not None:
        found = apply("minimum", found, a_max)
    return found.clone() if found is a else found


@stands_for("round", "around", method="round")
def round_(a: Array, decimals: int = 0) -> Any:
    """``np.round``."""
    if a.dtype is torch.bool or a.dtype.is_complex:
        raise NotImplementedError("np.round of truths or complex numbers")
    if not a.dtype.is_floating_point:
        if decimals < 0:
            raise NotImplementedError("np.round of integers to tens")
        return a.clone()
    return torch.round(a.float(), decimals=decimals).to(a.dtype) if decimals == 0 else _rounded(a, decimals)


def _rounded(a: Tensor, decimals: int) -> Any:
    scale = 10.0 ** abs(decimals)
    first, second = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    return apply(second, apply("rint", apply(first, a, scale)), scale)


@stands_for("sort", gives=_ARRAY)
def sort(a: Array, axis: int | None = -1, *, kind: str | None = None, stable: bool | None = None) -> Tensor:
    """``np.sort``: not a number comes last."""
    _ordered(a)
    return _sorted(a, axis).values


@stands_for("argsort", method="argsort", gives=_ARRAY)
def argsort(a: Array, axis: int | None = -1, *, kind: str | None = None, stable: bool | None = None) -> Tensor:
    """``np.argsort`` that keeps equals in order; which comes first otherwise is NumPy's alone to tell."""
    _ordered(a)
    if kind not in ("stable", "mergesort") and stable is not True:
        raise NotImplementedError("np.argsort that may take equals in any order (kind='stable' does not)")
    return _sorted(a, axis).indices


def _sorted(a: Tensor, axis: int | None) -> Any:
    if axis is None:
        return torch.sort(a.reshape(-1), dim=0, stable=True)
    return torch.sort(a, dim=axes_of(a, axis)[0], stable=True)


@stands_for("searchsorted", method="searchsorted")
def searchsorted(a: Array, v: Array, side: str = "left") -> Tensor:
    """``np.searchsorted``."""
    to = common(a, v)
    if to in (torch.bool, torch.float16) or to.is_complex:
        raise NotImplementedError(f"np.searchsorted among {to}")
    return torch.searchsorted(a.to(to).contiguous(), v.to(to).contiguous(), right=side == "right")


@stands_for("nonzero", method="nonzero", gives=_ARRAY)
def nonzero(a: Array) -> tuple[Tensor, ...]:
    """``np.nonzero``."""
    if not a.dim():
        raise ValueError("Calling nonzero on 0d arrays is not allowed")
    return tuple(torch.nonzero(a, as_tuple=True))


@stands_for("flatnonzero", gives=_ARRAY)
def flatnonzero(a: Array) -> Tensor:
    """``np.flatnonzero``."""
    return nonzero(a.reshape(-1))[0]


@stands_for("argwhere", gives=_ARRAY)
def argwhere(a: Array) -> Tensor:
    """``np.argwhere``."""
    if not a.dim():
        raise NotImplementedError("np.argwhere of an array without dimensions")
    return torch.nonzero(a)


@stands_for("unique", gives=_ARRAY)
def unique(ar: Array, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """``np.unique``: in order, not a number once."""
    _ordered(ar)
    if return_inverse and ar.dim() != 1:
        raise NotImplementedError("np.unique with the places of elements of several dimensions")
    values, places = torch.sort(ar.reshape(-1), dim=0, stable=True)
    if not isinstance(values.shape[0], int) or not values.shape[0]:
        raise NotImplementedError("np.unique of elements whose number may vary, or of none")
    alike = values[1:] == values[:-1]
    if values.dtype.is_floating_point:
        alike = alike | (torch.isnan(values[1:]) & torch.isnan(values[:-1]))
    first = torch.cat([torch.ones(1, dtype=torch.bool, device=CPU), ~alike])
    found = [values[first]]
    if return_index:
        found.append(places[first])
    if return_inverse:
        found.append(torch.empty_like(places).scatter(0, places, torch.cumsum(first, 0) - 1))
    if return_counts:
        starts = torch.nonzero(first).squeeze(1)
        found.append(torch.diff(starts, append=torch.full((1,), values.shape[0], dtype=torch.int64, device=CPU)))
    return found[0] if len(found) == 1 else tuple(found)


@stands_for("bincount", gives=_ARRAY)
def bincount(x: Array, *, minlength: int = 0) -> Tensor:
    """``np.bincount`` without weights."""
    if x.dtype.is_floating_point or x.dtype.is_complex or x.dim() != 1:
        raise TypeError("cannot count what are no integers in a row")
    return torch.bincount(x.to(torch.int64), minlength=minlength)


@stands_for("take", method="take", gives=Gives.COMPUTED)
def take(a: Array, indices: Array, axis: int | None = None) -> Tensor:
    """``np.take``."""
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype is torch.bool:
        raise NotImplementedError("places that are no integers")
    x, dim = (a.reshape(-1), 0) if axis is None else (a, axes_of(a, axis)[0])
    return torch.ops.aten.index(x, [None] * dim + [indices.to(torch.int64)])


@stands_for("take_along_axis", gives=_ARRAY)
def take_along_axis(arr: Array, indices: Array, axis: int | None = -1) -> Tensor:
    """``np.take_along_axis``."""
    if indices.dtype is not torch.int64 or axis is None or indices.dim() != arr.dim():
        raise NotImplementedError("places that are no 64 bit integers, or of other dimensions")
    # Torch's function of that name has positions wrap around any number of times, where NumPy refuses them.
    dim = axes_of(arr, axis)[0]
    lines = [torch.arange(n, device=CPU).view(-1, *[1] * (arr.dim() - 1 - at)) for at, n in enumerate(arr.shape)]
    lines[dim] = indices
    return torch.ops.aten.index(arr, lines)


@stands_for("diff", gives=_ARRAY)
def diff(a: Array, n: int = 1, axis: int = -1) -> Any:
    """``np.diff``."""
    (dim,) = axes_of(a, axis)
    for _ in range(n):
        after, before = a.narrow(dim, 1, a.shape[dim] - 1), a.narrow(dim, 0, a.shape[dim] - 1)
        a = apply("not_equal" if a.dtype is torch.bool else "subtract", after, before)
    return a


@stands_for("isin", gives=_ARRAY)
def isin(element: Array, test_elements: Array, *, invert: bool = False) -> Tensor:
    """``np.isin``."""
    _ordered(element)
    to = common(element, test_elements)
    found = (element.to(to).unsqueeze(-1) == test_elements.to(to).reshape(-1)).any(-1)
    return ~found if invert else found


@stands_for("nan_to_num")
def nan_to_num(x: Array, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """``np.nan_to_num``."""
    if x.dtype.is_complex:
        raise NotImplementedError("np.nan_to_num of complex numbers")
    return torch.nan_to_num(x, nan, posinf, neginf).clone() if x.dtype.is_floating_point else x.clone()
