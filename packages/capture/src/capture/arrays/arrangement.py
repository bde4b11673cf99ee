"""NumPy's functions that arrange elements: shapes, parts, copies, and arrays put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .dtypes import CPU, common, numpy_dtype, told_alike
from .reductions import axes_of, sum_
from .table import Array, Arrays, DType, Gives, stands_for

Tensor = torch.Tensor
Shape = int | Sequence[int]

_ARRAY = Gives.ARRAY


def _sizes(shape: Shape) -> list[int]:
    return [*shape] if isinstance(shape, Sequence) else [shape]


def _in_order(order: str) -> None:
    if order not in ("C", "K", "A"):
        raise NotImplementedError(f"order {order!r}")


@stands_for("reshape", method="reshape", gives=_ARRAY)
def reshape(a: Array, shape: Shape, order: str = "C") -> Tensor:
    """``np.reshape``, a view where that is one."""
    _in_order(order)
    return torch.reshape(a, _sizes(shape))


@stands_for("ravel", method="ravel", gives=_ARRAY)
def ravel(a: Array, order: str = "C") -> Tensor:
    """``np.ravel``, a view where elements lie in order."""
    _in_order(order)
    return a.view(-1) if a.is_contiguous() else a.contiguous().view(-1)


@stands_for(method="flatten", gives=_ARRAY)
def flatten(a: Array, order: str = "C") -> Tensor:
    """``ndarray.flatten``, a copy."""
    _in_order(order)
    return a.clone(memory_format=torch.contiguous_format).view(-1)


@stands_for("transpose", "permute_dims", method="transpose", gives=_ARRAY)
def transpose(a: Array, axes: Sequence[int] | None = None) -> Tensor:
    """``np.transpose``."""
    return torch.permute(a, list(range(a.dim()))[::-1] if axes is None else list(axes))


@stands_for("matrix_transpose", gives=_ARRAY)
def matrix_transpose(x: Array) -> Tensor:
    """``np.matrix_transpose``."""
    return x.transpose(-1, -2)


@stands_for("swapaxes", method="swapaxes", gives=_ARRAY)
def swapaxes(a: Array, axis1: int, axis2: int) -> Tensor:
    """``np.swapaxes``."""
    (first,), (second,) = axes_of(a, axis1), axes_of(a, axis2)
    return torch.swapaxes(a, first, second)


@stands_for("moveaxis", gives=_ARRAY)
def moveaxis(a: Array, source: Shape, destination: Shape) -> Tensor:
    """``np.moveaxis``."""
    return torch.movedim(a, axes_of(a, source), axes_of(a, destination))


@stands_for("expand_dims", gives=_ARRAY)
def expand_dims(a: Array, axis: Shape) -> Tensor:
    """``np.expand_dims``."""
    axes = _sizes(axis)
    rank = a.dim() + len(axes)
    for at in sorted(each % rank for each in axes):
        a = a.unsqueeze(at)
    return a


@stands_for("squeeze", method="squeeze", gives=_ARRAY)
def squeeze(a: Array, axis: Shape | None = None) -> Tensor:
    """``np.squeeze``."""
    axes = [dim for dim, n in enumerate(a.shape) if n == 1] if axis is None else axes_of(a, axis)
    if any(a.shape[dim] != 1 for dim in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return torch.squeeze(a, axes) if axes else a.view(a.shape)


@stands_for("broadcast_to", gives=Gives.READ_ONLY)
def broadcast_to(array: Array, shape: Shape) -> Tensor:
    """``np.broadcast_to``."""
    return torch.broadcast_to(array, _sizes(shape))


@stands_for("diagonal", method="diagonal", gives=Gives.READ_ONLY)
def diagonal(a: Array, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """``np.diagonal``."""
    (first,), (second,) = axes_of(a, axis1), axes_of(a, axis2)
    return torch.diagonal(a, offset, first, second)


@stands_for("trace", method="trace")
def trace(a: Array, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DType = None) -> Tensor:
    """``np.trace``."""
    return sum_(diagonal(a, offset, axis1, axis2), -1, dtype)


@stands_for("atleast_1d", gives=_ARRAY)
def atleast_1d(a: Array) -> Tensor:
    """``np.atleast_1d`` of one array."""
    return a if a.dim() else a.view(1)


@stands_for("atleast_2d", gives=_ARRAY)
def atleast_2d(a: Array) -> Tensor:
    """``np.atleast_2d`` of one array."""
    return a if a.dim() > 1 else atleast_1d(a).unsqueeze(0)


@stands_for("atleast_3d", gives=_ARRAY)
def atleast_3d(a: Array) -> Tensor:
    """``np.atleast_3d`` of one array."""
    return a if a.dim() > 2 else atleast_2d(a).unsqueeze(-1)


# Copies


@stands_for("copy", gives=_ARRAY)
def copy(a: Array, order: str = "K") -> Tensor:
    """``np.copy``, laid out as what is copied."""
    _in_order(order)
    return a.clone(memory_format=torch.contiguous_format if order == "C" else torch.preserve_format)


@stands_for(method="copy", gives=_ARRAY)
def copied(a: Array, order: str = "C") -> Tensor:
    """``ndarray.copy``."""
    return copy(a, order)


@stands_for("array", gives=_ARRAY)
def array(object: Array, dtype: DType = None, *, copy: bool = True, ndmin: int = 0) -> Tensor:
    """``np.array`` of an array."""
    if copy is not True:
        raise NotImplementedError("np.array that copies or not")
    found = object.to(dtype or object.dtype, copy=True)
    return found.view([1] * max(0, ndmin - found.dim()) + list(found.shape))


@stands_for("asarray", "asanyarray", gives=_ARRAY)
def asarray(a: Array, dtype: DType = None) -> Tensor:
    """``np.asarray`` of an array, itself if its dtype fits."""
    return a if dtype in (None, a.dtype) else a.to(dtype)


@stands_for("ascontiguousarray", gives=_ARRAY)
def ascontiguousarray(a: Array, dtype: DType = None) -> Tensor:
    """``np.ascontiguousarray``."""
    return atleast_1d(asarray(a, dtype).contiguous())


@stands_for(method="astype", gives=_ARRAY)
def astype(
    a: Array, dtype: DType, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
) -> Any:
    """``ndarray.astype``."""
    assert dtype is not None
    _in_order(order)
    if not np.can_cast(numpy_dtype(a.dtype), numpy_dtype(dtype), casting):  # type: ignore[arg-type]
        raise TypeError(f"Cannot cast array data according to the rule {casting!r}")
    if a.dtype.is_complex and not dtype.is_complex:
        if dtype is torch.bool:
            return a != 0
        a = a.real
    return a.to(dtype, copy=True) if copy else asarray(a, dtype)


# Together


def _alike(arrays: Sequence[Tensor], dtype: DType = None) -> list[Tensor]:
    to = dtype or common(*arrays)
    return [each.to(to) for each in arrays]


def _together(arrays: Sequence[Tensor], axis: int) -> Tensor:
    if any(each.dim() > 1 for each in arrays):
        told_alike(arrays)
    return torch.cat(list(arrays), axis)


@stands_for("concatenate", "concat", gives=_ARRAY)
def concatenate(arrays: Arrays, axis: int | None = 0, *, dtype: DType = None) -> Tensor:
    """``np.concatenate``."""
    together = _alike(arrays, dtype)
    if axis is None:
        return torch.cat([each.reshape(-1) for each in together])
    if len({each.dim() for each in together}) > 1 or not together[0].dim():
        raise ValueError("all the input array dimensions must match, and be one at least")
    return _together(together, axis)


@stands_for("stack", gives=_ARRAY)
def stack(arrays: Arrays, axis: int = 0, *, dtype: DType = None) -> Tensor:
    """``np.stack``."""
    told_alike(arrays)
    return torch.stack(_alike(arrays, dtype), axis)


@stands_for("vstack", gives=_ARRAY)
def vstack(tup: Arrays, *, dtype: DType = None) -> Tensor:
    """``np.vstack``."""
    return _together([atleast_2d(each) for each in _alike(tup, dtype)], 0)


@stands_for("hstack", gives=_ARRAY)
def hstack(tup: Arrays, *, dtype: DType = None) -> Tensor:
    """``np.hstack``."""
    together = [atleast_1d(each) for each in _alike(tup, dtype)]
    return _together(together, 0 if together[0].dim() == 1 else 1)


@stands_for("dstack", gives=_ARRAY)
def dstack(tup: Arrays, *, dtype: DType = None) -> Tensor:
    """``np.dstack``."""
    return _together([atleast_3d(each) for each in _alike(tup, dtype)], 2)


@stands_for("column_stack", gives=_ARRAY)
def column_stack(tup: Arrays) -> Tensor:
    """``np.column_stack``."""
    return _together([each.reshape(-1, 1) if each.dim() < 2 else each for each in _alike(tup)], 1)


@stands_for("append", gives=_ARRAY)
def append(arr: Array, values: Array, axis: int | None = None) -> Tensor:
    """``np.append``."""
    return concatenate([arr, values], axis)


@stands_for("array_split", gives=_ARRAY)
def array_split(ary: Array, indices_or_sections: Shape, axis: int = 0) -> list[Tensor]:
    """``np.array_split``, into views."""
    return list(torch.tensor_split(ary, indices_or_sections, axes_of(ary, axis)[0]))


@stands_for("split", gives=_ARRAY)
def split(ary: Array, indices_or_sections: Shape, axis: int = 0) -> list[Tensor]:
    """``np.split``, into views."""
    if isinstance(indices_or_sections, int) and ary.shape[axis] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return array_split(ary, indices_or_sections, axis)


@stands_for("tile", gives=_ARRAY)
def tile(A: Array, reps: Shape) -> Tensor:
    """``np.tile``."""
    return torch.tile(A, _sizes(reps)).clone()


@stands_for("repeat", method="repeat", gives=_ARRAY)
def repeat(a: Array, repeats: int, axis: int | None = None) -> Tensor:
    """``np.repeat``, each as often."""
    if not isinstance(repeats, (int, torch.SymInt)):
        raise NotImplementedError("elements repeated each as often as an array says")
    x, dim = (a.reshape(-1), 0) if axis is None else (a, axes_of(a, axis)[0])
    return torch.repeat_interleave(x, repeats, dim)


@stands_for("roll", gives=_ARRAY)
def roll(a: Array, shift: Shape, axis: Shape | None = None) -> Tensor:
    """``np.roll``."""
    if axis is None:
        return torch.roll(a.reshape(-1), _sizes(shift), 0).reshape(a.shape)
    return torch.roll(a, _sizes(shift), [axes_of(a, each)[0] for each in _sizes(axis)])


@stands_for("pad", gives=_ARRAY)
def pad(array: Array, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Tensor:
    """``np.pad`` with one constant."""
    if mode != "constant" or not isinstance(constant_values, (int, float)):
        raise NotImplementedError(f"padding of mode {mode!r}")
    widths = [pad_width, pad_width] if isinstance(pad_width, int) else list(pad_width)
    pairs: list[Sequence[int]] = [list(each) if isinstance(each, Sequence) else widths for each in widths]
    if len(pairs) != array.dim():
        pairs = [pairs[0]] * array.dim()
    if any(len(pair) != 2 or min(pair) < 0 for pair in pairs):
        raise NotImplementedError("padding by other than pairs of widths")
    sizes = [low + n + high for n, (low, high) in zip(array.shape, pairs, strict=True)]
    found = torch.full(sizes, constant_values, dtype=array.dtype, device=CPU)
    inner = found
    for dim, (n, (low, _)) in enumerate(zip(array.shape, pairs, strict=True)):
        inner = inner.narrow(dim, low, n)
    inner.copy_(array)
    return found


def _of_rows(m: Tensor) -> Tensor:
    if m.dim() < 2:
        raise NotImplementedError("triangles of arrays of one dimension")
    return m


@stands_for("tril", gives=_ARRAY)
def tril(m: Array, k: int = 0) -> Tensor:
    """``np.tril``."""
    return torch.tril(_of_rows(m), k)


@stands_for("triu", gives=_ARRAY)
def triu(m: Array, k: int = 0) -> Tensor:
    """``np.triu``."""
    return torch.triu(_of_rows(m), k)


@stands_for("meshgrid", gives=_ARRAY)
def meshgrid(*xi: Array, indexing: str = "xy") -> tuple[Tensor, ...]:
    """``np.meshgrid``."""
    if any(each.dim() > 1 for each in xi):
        raise NotImplementedError("grids of arrays of several dimensions")
    flat = [each.reshape(-1) for each in xi]
    sizes = [each.shape[0] for each in flat]
    found = [x.view([-1 if i == at else 1 for i in range(len(flat))]).expand(sizes) for at, x in enumerate(flat)]
    if indexing == "xy" and len(flat) > 1:
        found = [each.transpose(0, 1) for each in found]
    return tuple(each.clone(memory_format=torch.contiguous_format) for each in found)


@stands_for("fft.fftshift", gives=_ARRAY)
def fftshift(x: Array, axes: Shape | None = None) -> Tensor:
    """``np.fft.fftshift``."""
    return torch.fft.fftshift(x, None if axes is None else _sizes(axes))


@stands_for("fft.ifftshift", gives=_ARRAY)
def ifftshift(x: Array, axes: Shape | None = None) -> Tensor:
    """``np.fft.ifftshift``."""
    return torch.fft.ifftshift(x, None if axes is None else _sizes(axes))
