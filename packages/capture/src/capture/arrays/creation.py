"""NumPy's functions that make arrays of nothing but sizes and numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from .dtypes import CPU, common, fitted
from .table import Array, DType, Gives, Operand, stands_for

Tensor = torch.Tensor
Shape = int | Sequence[int]
_ARRAY = Gives.ARRAY


def _sizes(shape: Shape) -> list[int]:
    return [*shape] if isinstance(shape, Sequence) else [shape]


def of_numbers(values: Any, dtype: torch.dtype) -> Tensor:
    """An array of known numbers: one, which kernels are written with, or more in nested lists."""
    if not isinstance(values, Sequence):
        return torch.full((), values, dtype=dtype, device=CPU)
    return torch.tensor(values, dtype=dtype, device=CPU)


@stands_for("zeros", gives=_ARRAY)
def zeros(shape: Shape, dtype: DType = None) -> Tensor:
    """``np.zeros``."""
    return torch.zeros(_sizes(shape), dtype=dtype or torch.float64, device=CPU)


@stands_for("ones", gives=_ARRAY)
def ones(shape: Shape, dtype: DType = None) -> Tensor:
    """``np.ones``."""
    return torch.ones(_sizes(shape), dtype=dtype or torch.float64, device=CPU)


@stands_for("empty", gives=_ARRAY)
def empty(shape: Shape, dtype: DType = None) -> Tensor:
    """``np.empty``."""
    return torch.empty(_sizes(shape), dtype=dtype or torch.float64, device=CPU)


@stands_for("full", gives=_ARRAY)
def full(shape: Shape, fill_value: Operand, dtype: DType = None) -> Tensor:
    """``np.full``."""
    value = fitted(fill_value, dtype or common(fill_value))
    return value.expand(_sizes(shape)).clone(memory_format=torch.contiguous_format)


@stands_for("zeros_like", gives=_ARRAY)
def zeros_like(a: Array, dtype: DType = None) -> Tensor:
    """``np.zeros_like``."""
    return torch.zeros_like(a, dtype=dtype or a.dtype)


@stands_for("ones_like", gives=_ARRAY)
def ones_like(a: Array, dtype: DType = None) -> Tensor:
    """``np.ones_like``."""
    return torch.ones_like(a, dtype=dtype or a.dtype)


@stands_for("empty_like", gives=_ARRAY)
def empty_like(prototype: Array, dtype: DType = None) -> Tensor:
    """``np.empty_like``."""
    return torch.empty_like(prototype, dtype=dtype or prototype.dtype)


@stands_for("full_like", gives=_ARRAY)
def full_like(a: Array, fill_value: Operand, dtype: DType = None) -> Tensor:
    """``np.full_like``."""
    return torch.empty_like(a, dtype=dtype or a.dtype).copy_(fitted(fill_value, dtype or a.dtype))


@stands_for("arange", gives=_ARRAY)
def arange(start: float, stop: float | None = None, step: float = 1, dtype: DType = None) -> Tensor:
    """``np.arange``: each element is the first and so many times the difference of the first two."""
    if stop is None:
        start, stop = 0, start
    to = dtype or common(start, stop, step)
    if all(isinstance(each, (int, torch.SymInt)) for each in (start, stop, step)) and to in (torch.int64, torch.int32):
        return torch.arange(start, stop, step, dtype=to, device=CPU)
    if not all(isinstance(each, (int, float)) for each in (start, stop, step)) or to not in (
        torch.float64,
        torch.int64,
    ):
        raise NotImplementedError("np.arange of numbers that may vary, or of another dtype")
    count = max(0, math.ceil((stop - start) / step))
    if to is torch.int64:
        raise NotImplementedError("np.arange of floats in integers")
    return torch.arange(count, dtype=to, device=CPU) * ((start + step) - start) + start


@stands_for("linspace", gives=_ARRAY)
def linspace(start: float, stop: float, num: int = 50, endpoint: bool = True, *, dtype: DType = None) -> Tensor:
    """``np.linspace`` between two numbers, which are the ends exactly."""
    if not all(isinstance(each, (int, float)) for each in (start, stop, num)) or dtype not in (
        None,
        torch.float64,
        torch.float32,
    ):
        raise NotImplementedError("np.linspace of numbers that may vary, or in integers")
    parts = num - 1 if endpoint else num
    steps = torch.arange(num, dtype=torch.float64, device=CPU)
    if parts > 0:
        step = (stop - start) / parts
        found = steps * step + start if step else steps / parts * (stop - start) + start
    else:
        found = steps * (stop - start) + start
    if endpoint and num > 1:
        found = torch.cat([found[:-1], torch.full((1,), stop, dtype=torch.float64, device=CPU)])
    return found.to(dtype or torch.float64)


def _offsets(rows: int, columns: int) -> Tensor:
    """How far to the right of the diagonal each element is."""
    return torch.arange(columns, device=CPU)[None, :] - torch.arange(rows, device=CPU)[:, None]


@stands_for("eye", gives=_ARRAY)
def eye(N: int, M: int | None = None, k: int = 0, dtype: DType = torch.float64) -> Tensor:
    """``np.eye``."""
    return (_offsets(N, N if M is None else M) == k).to(dtype or torch.float64)


@stands_for("identity", gives=_ARRAY)
def identity(n: int, dtype: DType = None) -> Tensor:
    """``np.identity``."""
    return eye(n, dtype=dtype)


@stands_for("tri", gives=_ARRAY)
def tri(N: int, M: int | None = None, k: int = 0, dtype: DType = torch.float64) -> Tensor:
    """``np.tri``."""
    return (_offsets(N, N if M is None else M) <= k).to(dtype or torch.float64)


@stands_for("fft.fftfreq", gives=_ARRAY)
def fftfreq(n: int, d: float = 1.0) -> Tensor:
    """``np.fft.fftfreq``."""
    halves = [torch.arange(0, (n - 1) // 2 + 1, device=CPU), torch.arange(-(n // 2), 0, device=CPU)]
    return torch.cat(halves).to(torch.float64) * (1.0 / (n * d))


@stands_for("fft.rfftfreq", gives=_ARRAY)
def rfftfreq(n: int, d: float = 1.0) -> Tensor:
    """``np.fft.rfftfreq``."""
    return torch.arange(0, n // 2 + 1, device=CPU).to(torch.float64) * (1.0 / (n * d))


def of_parts(parts: Any) -> Tensor:
    """The array that NumPy makes of a number, or of a sequence of arrays and numbers."""
    if not isinstance(parts, Sequence):
        return fitted(parts, common(parts))
    to = common(*parts)
    return torch.stack([fitted(each, to) for each in parts])
