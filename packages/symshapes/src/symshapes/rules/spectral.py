"""Fourier transforms, as MKL leaves their results: along transformed dimensions first.

Other devices and builds have other libraries: there torch's meta kernels answer (NotImplemented).
"""

from collections.abc import Sequence
from typing import Any

import torch

from symshapes.facts import complex_dtype, real_dtype
from symshapes.rules.layout import Size, TensorMeta, contiguous_strides, sorted_by_stride
from symshapes.rules.registry import rule


def _by_mkl(self: TensorMeta) -> bool:
    return self.device.type == "cpu" and torch.backends.mkl.is_available()


def _transformed(self: TensorMeta, size: Sequence[Size], dims: Sequence[int], dtype: torch.dtype) -> TensorMeta:
    """A result of this size: dimensions of the batch outermost, those transformed within, in their order."""
    batch = sorted_by_stride(self, [dim for dim in range(len(size)) if dim not in dims])
    order = [*batch, *dims]
    dense = contiguous_strides([size[dim] for dim in order])
    strides: list[Size] = [0] * len(size)
    for dim, step in zip(order, dense, strict=True):
        strides[dim] = step
    return TensorMeta(tuple(size), tuple(strides), dtype, self.device)


@rule("_fft_c2c")
def fft_c2c(self: TensorMeta, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    """Complex to complex."""
    if not _by_mkl(self) or not dim:
        return NotImplemented
    return _transformed(self, self.size, sorted_by_stride(self, dim), self.dtype)


@rule("_fft_r2c")
def fft_r2c(self: TensorMeta, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    """Real to complex; half of the last dimension where `onesided`."""
    if not _by_mkl(self):
        return NotImplemented
    *others, last = dim
    size = list(self.size)
    if onesided:
        size[last] = size[last] // 2 + 1
    return _transformed(self, size, [*sorted_by_stride(self, others), last], complex_dtype(self.dtype))


@rule("_fft_c2r")
def fft_c2r(self: TensorMeta, dim: Sequence[int], normalization: int, last_dim_size: Size) -> Any:
    """Half of a complex spectrum to real; the last dimension alone, after the others."""
    if not _by_mkl(self):
        return NotImplemented
    *others, last = dim
    inner = fft_c2c(self, others, normalization, False) if others else self
    size = list(self.size)
    size[last] = last_dim_size
    return _transformed(inner, size, [last], real_dtype(self.dtype))
