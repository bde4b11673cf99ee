"""Factories: all that make a tensor of one value become `full`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from aotgrad.decompositions.precision import number
from aotgrad.decompositions.registry import decomposition
from symshapes import ambient, inverse_permutation, is_dense, memory_order

aten = torch.ops.aten


def _full(size: Any, value: Any, dtype: torch.dtype, device: Any) -> Tensor:
    device = torch.device("cpu" if device is None else device)
    return aten.full.default(list(size), number(value, dtype), dtype=dtype, device=device)


def _default(dtype: torch.dtype | None) -> torch.dtype:
    return ambient().default_dtype if dtype is None else dtype


@decomposition(aten.zeros.default)
def zeros(size: Any, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Tensor:
    """`full` with 0."""
    return _full(size, 0, _default(dtype), device)


@decomposition(aten.ones.default)
def ones(size: Any, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Tensor:
    """`full` with 1."""
    return _full(size, 1, _default(dtype), device)


@decomposition(aten.scalar_tensor.default)
def scalar_tensor(
    value: Any, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Tensor:
    """`full` of no dimensions."""
    return _full([], value, _default(dtype), device)


@decomposition(aten.new_zeros.default)
def new_zeros(
    like: Tensor, size: Any, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Tensor:
    """`full` with 0, of the dtype and on the device of another tensor."""
    return _full(size, 0, dtype or like.dtype, device or like.device)


@decomposition(aten.new_ones.default)
def new_ones(
    like: Tensor, size: Any, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Tensor:
    """`full` with 1, of the dtype and on the device of another tensor."""
    return _full(size, 1, dtype or like.dtype, device or like.device)


@decomposition(aten.new_full.default)
def new_full(
    like: Tensor,
    size: Any,
    fill_value: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Tensor:
    """`full`, of the dtype and on the device of another tensor."""
    return _full(size, fill_value, dtype or like.dtype, device or like.device)


@decomposition(aten.full_like.default)
def full_like(
    like: Tensor,
    fill_value: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    memory_format: torch.memory_format | None = None,
) -> Tensor:
    """`full` of another tensor's size, permuted to its order in memory; channels-last formats are left as they are."""
    dtype, device = dtype or like.dtype, device or like.device
    if memory_format not in (None, torch.preserve_format, torch.contiguous_format):
        return NotImplemented
    if memory_format is torch.contiguous_format or like.is_contiguous():
        return _full(like.shape, fill_value, dtype, device)
    if not is_dense(like):
        like = torch.empty_like(like)
        if like.is_contiguous():
            return _full(like.shape, fill_value, dtype, device)
    order = memory_order(like)
    made = _full([like.shape[dim] for dim in order], fill_value, dtype, device)
    return aten.permute.default(made, inverse_permutation(order))


@decomposition(aten.zeros_like.default)
def zeros_like(like: Tensor, **options: Any) -> Tensor:
    """`full_like` with 0."""
    return full_like(like, 0, **options)


@decomposition(aten.ones_like.default)
def ones_like(like: Tensor, **options: Any) -> Tensor:
    """`full_like` with 1."""
    return full_like(like, 1, **options)


@decomposition(aten.arange.default)
def arange(end: Any, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Tensor:
    """`arange` from 0 in steps of 1."""
    return _arange(0, end, 1, dtype, device)


@decomposition(aten.arange.start)
def arange_from(
    start: Any, end: Any, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Tensor:
    """`arange` in steps of 1."""
    return _arange(start, end, 1, dtype, device)


def _arange(start: Any, end: Any, step: Any, dtype: Any, device: Any) -> Tensor:
    if dtype is None:
        whole = all(isinstance(value, (int, torch.SymInt)) for value in (start, end))
        dtype = torch.int64 if whole else ambient().default_dtype
    device = torch.device("cpu" if device is None else device)
    return aten.arange.start_step(start, end, step, dtype=dtype, device=device)
