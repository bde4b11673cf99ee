"""Reductions, scans and softmaxes over dimensions."""

from collections.abc import Sequence
from typing import Any

import torch

from symshapes.expr.symbols import is_unbacked
from symshapes.facts import Operand, float_dtype, real_dtype, result_dtype
from symshapes.rules.layout import (
    Size,
    TensorMeta,
    contiguous_strides,
    demand,
    fresh,
    numel,
    preserved_strides,
    wrap_dim,
    wrap_dims,
)
from symshapes.rules.registry import rule

Dims = Sequence[int] | int | None


def reduced(self: TensorMeta, dims: Dims, keepdim: bool, dtype: torch.dtype | None = None) -> TensorMeta:
    """The result of reducing `dims` (None or empty: all), row-major."""
    gone = set(wrap_dims(dims, len(self.size)))
    size = [1 if dim in gone else length for dim, length in enumerate(self.size) if keepdim or dim not in gone]
    return fresh(size, self, dtype)


def _has_elements(count: Size, words: str, kind: type[Exception] = IndexError) -> None:
    demand(count != 0, lambda: kind(words))


def _nonempty(self: TensorMeta, dims: Dims, name: str) -> None:
    """Reductions without a neutral element need an element."""
    for dim in wrap_dims(dims, len(self.size)):
        _has_elements(self.size[dim], f"{name}(): Expected reduction dim {dim} to have non-zero size.")


def _sum_dtype(self: TensorMeta, dtype: torch.dtype | None) -> torch.dtype:
    if dtype is not None:
        return dtype
    return self.dtype if self.dtype.is_floating_point or self.dtype.is_complex else torch.int64


@rule("sum", "prod", "nansum")
def sum_all(
    self: TensorMeta, dim: Dims = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> TensorMeta:
    """Integers and bools add up as int64."""
    return reduced(self, dim, keepdim, _sum_dtype(self, dtype))


@rule("sum.dim_IntList")
def sum_dims(self: TensorMeta, dim: Dims, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> TensorMeta:
    """Integers and bools add up as int64."""
    return reduced(self, dim, keepdim, _sum_dtype(self, dtype))


@rule("prod.dim_int")
def prod_dim(self: TensorMeta, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> TensorMeta:
    """Integers and bools multiply as int64."""
    return reduced(self, dim, keepdim, _sum_dtype(self, dtype))


@rule("mean", "mean.dim")
def mean(self: TensorMeta, dim: Dims = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> TensorMeta:
    """Only floating dtypes have a mean."""
    found = dtype or self.dtype
    if not (found.is_floating_point or found.is_complex):
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype."
        )
    return reduced(self, dim, keepdim, found)


@rule("amax", "amin")
def amax(self: TensorMeta, dim: Dims = (), keepdim: bool = False) -> TensorMeta:
    """The largest element over dimensions."""
    _nonempty(self, dim, "amax")
    return reduced(self, dim, keepdim)


@rule("max", "min")
def max_all(self: TensorMeta) -> TensorMeta:
    """The largest or smallest of all; there has to be one."""
    demand(
        numel(self.size) != 0,
        lambda: RuntimeError(
            "max(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
            "'dim' argument."
        ),
    )
    return fresh((), self)


@rule("median", "nanmedian")
def median(self: TensorMeta) -> TensorMeta:
    """The one in the middle; NaN if there is none."""
    return fresh((), self)


@rule("max.dim", "min.dim", "mode", "median.dim", "nanmedian.dim")
def max_dim(self: TensorMeta, dim: int = -1, keepdim: bool = False) -> tuple[TensorMeta, TensorMeta]:
    """One element of a dimension, and where it was."""
    _nonempty(self, dim, "max")
    values = reduced(self, dim, keepdim)
    return values, values._replace(dtype=torch.int64)


@rule("kthvalue")
def kthvalue(self: TensorMeta, k: Size, dim: int = -1, keepdim: bool = False) -> tuple[TensorMeta, TensorMeta]:
    """The k-th smallest element of a dimension, and where it was."""
    return max_dim(self, dim, keepdim)


@rule("aminmax")
def aminmax(self: TensorMeta, *, dim: int | None = None, keepdim: bool = False) -> tuple[TensorMeta, TensorMeta]:
    """Smallest and largest element."""
    if dim is None:
        _has_elements(
            numel(self.size),
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.",
            RuntimeError,
        )
    else:
        _nonempty(self, dim, "aminmax")
    out = reduced(self, dim, keepdim)
    return out, out


@rule("argmax", "argmin")
def argmax(self: TensorMeta, dim: int | None = None, keepdim: bool = False) -> TensorMeta:
    """Where the largest element is."""
    if dim is not None:
        _nonempty(self, dim, "argmax")
    elif any(map(is_unbacked, self.size)):
        _has_elements(numel(self.size), "argmax(): Expected reduction dim to be specified for input.numel() == 0.")
    return reduced(self, dim, keepdim, torch.int64)


@rule("_is_all_true", "_is_any_true")
def is_true(self: TensorMeta) -> TensorMeta:
    """One bool of all elements, which are bools."""
    if self.dtype is not torch.bool:
        raise NotImplementedError("a tensor of other than bools, which the operator refuses")
    return fresh((), self)


@rule("all", "any", "all.dim", "any.dim", "all.dims", "any.dims")
def all_(self: TensorMeta, dim: Dims = None, keepdim: bool = False) -> TensorMeta:
    """bool, except that bytes stay bytes."""
    return reduced(self, dim, keepdim, torch.uint8 if self.dtype is torch.uint8 else torch.bool)


@rule("count_nonzero", "count_nonzero.dim_IntList")
def count_nonzero(self: TensorMeta, dim: Dims = None) -> TensorMeta:
    """How many elements are not zero."""
    return reduced(self, dim, False, torch.int64)


@rule("var.correction", "std.correction")
def var(self: TensorMeta, dim: Dims = None, *, correction: Any = None, keepdim: bool = False) -> TensorMeta:
    """Complex numbers have a real variance."""
    return reduced(self, dim, keepdim, real_dtype(self.dtype))


@rule("var_mean.correction", "std_mean.correction")
def var_mean(
    self: TensorMeta, dim: Dims = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[TensorMeta, TensorMeta]:
    """Variance and mean."""
    return reduced(self, dim, keepdim, real_dtype(self.dtype)), reduced(self, dim, keepdim)


@rule("logsumexp")
def logsumexp(self: TensorMeta, dim: Dims, keepdim: bool = False) -> TensorMeta:
    """Floating, whatever the input."""
    return reduced(self, dim, keepdim, float_dtype(self.dtype))


@rule("linalg_vector_norm")
def vector_norm(
    self: TensorMeta, ord: Any = 2, dim: Dims = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> TensorMeta:
    """A real norm over dimensions."""
    return reduced(self, dim, keepdim, real_dtype(dtype or self.dtype))


@rule("norm.ScalarOpt_dim", "norm.Scalar", "norm.ScalarOpt_dim_dtype", "norm.ScalarOpt_dtype")
def norm(
    self: TensorMeta, p: Any = 2, dim: Dims = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> TensorMeta:
    """A real norm over dimensions."""
    return reduced(self, dim, keepdim, real_dtype(dtype or self.dtype))


@rule("dist")
def dist(self: TensorMeta, other: TensorMeta, p: Any = 2) -> TensorMeta:
    """The norm of a difference."""
    return fresh((), self, real_dtype(result_dtype([self, other])))


@rule("trace")
def trace(self: TensorMeta) -> TensorMeta:
    """The sum of a diagonal."""
    return fresh((), self, _sum_dtype(self, None))


@rule("cumsum", "cumprod")
def cumsum(self: TensorMeta, dim: int, *, dtype: torch.dtype | None = None) -> TensorMeta:
    """A scan: integers and bools accumulate as int64."""
    wrap_dim(dim, len(self.size))
    return fresh(self.size, self, _sum_dtype(self, dtype))


@rule("logcumsumexp")
def logcumsumexp(self: TensorMeta, dim: int) -> TensorMeta:
    """A scan."""
    return fresh(self.size, self)


@rule("cummax", "cummin")
def cummax(self: TensorMeta, dim: int) -> tuple[TensorMeta, TensorMeta]:
    """A scan and where each value was."""
    return fresh(self.size, self), fresh(self.size, self, torch.int64)


@rule("_softmax", "_log_softmax")
def softmax(self: TensorMeta, dim: int, half_to_float: bool) -> TensorMeta:
    """Row-major, whatever the input's strides."""
    wrap_dim(dim, len(self.size))
    return fresh(self.size, self, torch.float32 if half_to_float else None)


@rule("_safe_softmax")
def safe_softmax(self: TensorMeta, dim: int, dtype: torch.dtype | None = None) -> TensorMeta:
    """A softmax whose fully masked rows are zero."""
    return fresh(self.size, self, dtype)


@rule("_softmax_backward_data", "_log_softmax_backward_data")
def softmax_backward(grad_output: TensorMeta, output: TensorMeta, dim: int, input_dtype: torch.dtype) -> TensorMeta:
    """The gradient in the input's dtype."""
    return fresh(grad_output.size, grad_output, input_dtype)


@rule("_masked_softmax")
def masked_softmax(
    self: TensorMeta, mask: TensorMeta, dim: int | None = None, mask_type: int | None = None
) -> TensorMeta:
    """A softmax over what the mask leaves."""
    return fresh(self.size, self)


@rule("topk")
def topk(
    self: TensorMeta, k: Size, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[TensorMeta, TensorMeta]:
    """The k largest of a dimension, and where they were."""
    dim = wrap_dim(dim, len(self.size))
    size = list(self.size)
    if size:
        for within in (k >= 0, k <= size[dim]):
            demand(within, lambda: RuntimeError("selected index k out of range"))
        size[dim] = k
    values = fresh(size, self)
    return values, values._replace(dtype=torch.int64)


@rule("sort")
def sort(self: TensorMeta, dim: int = -1, descending: bool = False) -> tuple[TensorMeta, TensorMeta]:
    """Sorted values and where they were, in the input's format."""
    wrap_dim(dim, len(self.size))
    stride = preserved_strides(self)
    values = TensorMeta(self.size, stride, self.dtype, self.device)
    return values, values._replace(dtype=torch.int64)


@rule("sort.stable")
def sort_stable(
    self: TensorMeta, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> tuple[TensorMeta, TensorMeta]:
    """Sorted values and where they were, in the input's format."""
    return sort(self, dim, descending)


@rule("argsort.stable")
def argsort(self: TensorMeta, *, stable: bool, dim: int = -1, descending: bool = False) -> TensorMeta:
    """Where sorted values were."""
    return sort(self, dim, descending)[1]


@rule("searchsorted.Tensor")
def searchsorted(sorted_sequence: TensorMeta, self: TensorMeta, *, out_int32: bool = False, **_: Any) -> TensorMeta:
    """Where each value would go."""
    return fresh(self.size, sorted_sequence, torch.int32 if out_int32 else torch.int64)


@rule("searchsorted.Scalar")
def searchsorted_scalar(sorted_sequence: TensorMeta, self: Operand, *, out_int32: bool = False, **_: Any) -> TensorMeta:
    """Where a value would go."""
    return fresh((), sorted_sequence, torch.int32 if out_int32 else torch.int64)


@rule("bucketize.Tensor")
def bucketize(self: TensorMeta, boundaries: TensorMeta, *, out_int32: bool = False, right: bool = False) -> TensorMeta:
    """The bucket of each value."""
    return fresh(self.size, self, torch.int32 if out_int32 else torch.int64)


@rule("histc")
def histc(self: TensorMeta, bins: int = 100, min: Any = 0, max: Any = 0) -> TensorMeta:
    """Counts of equal-width bins."""
    return TensorMeta((bins,), contiguous_strides((bins,)), self.dtype, self.device)


@rule("histogram.bin_ct")
def histogram(self: TensorMeta, bins: int = 100, **_: Any) -> tuple[TensorMeta, TensorMeta]:
    """Counts, or their density, of equal-width bins, and where these end."""
    return fresh((bins,), self), fresh((bins + 1,), self)


@rule("histogram.bins_tensor")
def histogram_of_bins(self: TensorMeta, bins: TensorMeta, **_: Any) -> tuple[TensorMeta, TensorMeta]:
    """Counts, or their density, of bins by where they end."""
    return fresh((bins.size[0] - 1,), self), fresh(bins.size, self)


@rule("value_selecting_reduction_backward")
def value_selecting_backward(
    grad: TensorMeta, dim: int, indices: TensorMeta, sizes: Sequence[Size], keepdim: bool
) -> TensorMeta:
    """Zeros with the gradient where the values came from."""
    return fresh(tuple(sizes), grad)
