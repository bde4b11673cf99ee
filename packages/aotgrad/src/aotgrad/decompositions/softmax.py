"""Softmax, log-softmax, logsumexp and their backward formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from aotgrad.decompositions.layout import contiguous, has_no_elements
from aotgrad.decompositions.precision import cast, widen
from aotgrad.decompositions.registry import decomposition
from symshapes import is_unbacked

aten = torch.ops.aten


def _lengths(x: Tensor, dims: Sequence[int]) -> list[Any]:
    return [x.shape[dim] for dim in dims or range(x.dim())] if x.dim() else []


def _empty(x: Tensor, dims: Sequence[int]) -> bool:
    """Whether there are no elements; symbolic sizes are asked only along `dims`, where a maximum needs one."""
    if has_no_elements(x):
        return True
    return any(not is_unbacked(length) and bool(length == 0) for length in _lengths(x, dims))


def _may_be_empty(x: Tensor, dims: Sequence[int]) -> bool:
    """Whether only the run can tell if rows along these dimensions have elements: none has no maximum."""
    return any(is_unbacked(n) and not n.node.env.statically_known(n.node.expr >= 1) for n in _lengths(x, dims))


@decomposition(aten._softmax.default)
def softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """eˣ over its sum, x less its maximum first."""
    if _may_be_empty(x, [dim]):
        return NotImplemented
    dtype = torch.float32 if half_to_float else x.dtype
    wide = widen(x)
    if _empty(x, [dim]):
        return contiguous(cast(wide, dtype))
    power = aten.exp.default(wide - aten.amax.default(wide, [dim], True))
    return contiguous(cast(power / aten.sum.dim_IntList(power, [dim], True), dtype))


@decomposition(aten._log_softmax.default)
def log_softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """x less log Σ eˣ, x less its maximum first."""
    if _may_be_empty(x, [dim]):
        return NotImplemented
    dtype = torch.float32 if half_to_float else x.dtype
    wide = widen(x)
    if _empty(x, [dim]):
        return contiguous(cast(wide, dtype))
    shifted = wide - aten.amax.default(wide, [dim], True)
    total = aten.sum.dim_IntList(aten.exp.default(shifted), [dim], True)
    return contiguous(cast(shifted - aten.log.default(total), dtype))


@decomposition(aten._safe_softmax.default)
def safe_softmax(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """`softmax` that is 0 where a whole row is -∞."""
    if _may_be_empty(x, [dim]):
        return NotImplemented
    out = softmax(x if dtype is None else cast(x, dtype), dim, False)
    masked = aten.all.dim(x == -math.inf, dim, True)
    return aten.where.ScalarSelf(masked, 0.0, out)


@decomposition(aten._softmax_backward_data.default)
def softmax_backward(grad: Tensor, out: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    """The gradient of `softmax` from its result: out (grad - Σ grad out)."""
    wide = widen(out)
    product = widen(grad) * wide
    return contiguous(cast(product - wide * aten.sum.dim_IntList(product, [dim], True), input_dtype))


@decomposition(aten._log_softmax_backward_data.default)
def log_softmax_backward(grad: Tensor, out: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    """The gradient of `log_softmax` from its result: grad - exp(out) Σ grad."""
    wide = widen(grad)
    total = aten.sum.dim_IntList(wide, [dim], True)
    return contiguous(cast(wide - aten.exp.default(widen(out)) * total, input_dtype))


@decomposition(aten.logsumexp.default)
def logsumexp(x: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log Σ eˣ, x less its maximum where that is finite."""
    dims = [dim] if isinstance(dim, int) else list(dim)
    if not x.is_floating_point() or _empty(x, dims):
        return NotImplemented
    if _may_be_empty(x, dims):
        return NotImplemented
    wide = widen(x)
    largest = aten.amax.default(wide, dims, True)
    # An infinite maximum would make inf - inf of it.
    largest = aten.where.ScalarSelf(aten.abs.default(largest) == math.inf, 0.0, largest)
    total = aten.sum.dim_IntList(aten.exp.default(wide - largest), dims, keepdim)
    if not keepdim:
        largest = aten.squeeze.dims(largest, dims) if dims else aten.squeeze.default(largest)
    return cast(aten.log.default(total) + largest, x.dtype)
