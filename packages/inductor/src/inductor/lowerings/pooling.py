"""Pooling over small windows, forward and backward, unrolled inside a pointwise body; larger windows stay with ATen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from inductor.ir.builder import Builder
from inductor.ir.indexing import Index, contiguous_strides, is_empty, linear_index
from inductor.ir.scalar import Scalar, index_value, lift, masked, prim, where
from inductor.ir.tensor import Cost, TensorValue
from inductor.lowerings.indexing import like_node
from inductor.lowerings.registry import lowering, realize_if_costly
from inductor.lowerings.windows import Covering, Window, channels_last, each
from symshapes import HALF_DTYPES

LARGEST_WINDOW = 9
LARGEST_VOLUME = 27
"""The same of a volume, whose kernels in ATen take one element at a time."""


def _fits(self: TensorValue, kernel: Sequence[int]) -> bool:
    largest = LARGEST_WINDOW if len(kernel) == 2 else LARGEST_VOLUME
    return math.prod(kernel) <= largest and not is_empty(self.size) and self.dtype.is_floating_point


def _max_pool(
    builder: Builder,
    rank: int,
    self: TensorValue,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> Any:
    kernel = each(kernel_size, rank)
    if not _fits(self, kernel):
        return NotImplemented
    options = (each(stride, rank, kernel), each(padding, rank), each(dilation, rank))
    window = Window(self.size, kernel, *options, ceil_mode)
    realize_if_costly(builder, self)
    values, positions = builder.meta()
    steps = contiguous_strides(self.size[-rank:])

    def walk(index: Index) -> tuple[Scalar, Scalar]:
        best: Scalar | None = None
        best_at: Scalar | None = None
        found: Scalar | None = None
        for place, inside in window.places(index):

            def element(place: Index = place) -> Scalar:
                return self.load(place)

            value = element() if inside is None else masked(inside, element, -math.inf)
            at = index_value(linear_index(place[-rank:], steps))
            if best is None or best_at is None:
                best, best_at, found = value, at, inside
                continue
            # As eager: the first place inside, then larger ones; NaN replaces anything.
            better = prim.gt(value, best) | prim.isnan(value)
            if inside is not None and found is not None:
                better = inside & (better | prim.logical_not(found))
                found = found | inside
            # Outside there is -inf: the larger value needs no test.
            best, best_at = prim.maximum(value, best), where(better, at, best_at)
        assert best is not None and best_at is not None
        return best, best_at

    cost = Cost(4 * math.prod(kernel)) + self.cost

    def result(which: int, fake: torch.Tensor) -> TensorValue:
        size = builder.sizes(fake.size())
        return builder.pointwise(self.device, fake.dtype, size, lambda index: walk(index)[which], cost)

    return result(0, values), result(1, positions)


@lowering("max_pool2d_with_indices")
def max_pool2d_with_indices(
    builder: Builder,
    self: TensorValue,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """The maximum of each window, and its place within the plane."""
    return _max_pool(builder, 2, self, kernel_size, stride, padding, dilation, ceil_mode)


@lowering("max_pool3d_with_indices")
def max_pool3d_with_indices(
    builder: Builder,
    self: TensorValue,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """The maximum of each window, and its place within the volume."""
    return _max_pool(builder, 3, self, kernel_size, stride, padding, dilation, ceil_mode)


def _avg_pool(
    builder: Builder,
    rank: int,
    self: TensorValue,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Any:
    kernel = each(kernel_size, rank)
    pads = each(padding, rank)
    # Windows cut at the edge divide by what is left of them: only the plain cases are unrolled.
    if not _fits(self, kernel) or ceil_mode:
        return NotImplemented
    if rank == 3 and self.dtype in HALF_DTYPES:
        return NotImplemented  # some devices' kernels refuse them
    window = Window(self.size, kernel, each(stride, rank, kernel), pads, (1,) * rank, ceil_mode)
    realize_if_costly(builder, self)
    by_count = any(pads) and not count_include_pad and divisor_override is None

    def compute(index: Index) -> Scalar:
        total: Scalar | None = None
        count: Scalar | None = None
        for place, inside in window.places(index):

            def element(place: Index = place) -> Scalar:
                return self.load(place)

            value = element() if inside is None else masked(inside, element, 0)
            total = value if total is None else total + value
            if by_count and inside is not None:
                one = where(inside, lift(1.0, value.dtype), 0.0)
                count = one if count is None else count + one
        assert total is not None
        if count is not None:
            return total / count
        return total / float(divisor_override or math.prod(kernel))

    return like_node(builder, compute, self, operations=4 * math.prod(kernel))


@lowering("avg_pool2d")
def avg_pool2d(
    builder: Builder,
    self: TensorValue,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of a plane."""
    return _avg_pool(builder, 2, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@lowering("avg_pool3d")
def avg_pool3d(
    builder: Builder,
    self: TensorValue,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of a volume."""
    return _avg_pool(builder, 3, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _avg_pool_backward(
    builder: Builder,
    rank: int,
    grad: TensorValue,
    self: TensorValue,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Any:
    kernel = each(kernel_size, rank)
    pads = each(padding, rank)
    covering = Covering(grad.size, kernel, each(stride, rank, kernel), pads)
    # As for the means: windows cut at the edge divide by what is left of them.
    by_count = any(pads) and not count_include_pad and divisor_override is None
    if covering.count > LARGEST_WINDOW or ceil_mode or by_count or is_empty(grad.size) or is_empty(self.size):
        return NotImplemented
    if covering.count > 1 and covering.stride[-1] > 1 and not channels_last(builder, rank):
        return NotImplemented  # vectors of neighbours ask for every so many of a row: ATen's loop over the windows is faster
    realize_if_costly(builder, grad)

    def compute(index: Index) -> Scalar:
        total: Scalar | None = None
        for place, exists in covering.places(index):
            value = masked(exists, lambda place=place: grad.load(place), 0)  # type: ignore[misc]
            total = value if total is None else total + value
        assert total is not None
        return total / float(divisor_override or math.prod(kernel))

    return like_node(builder, compute, grad, operations=6 * covering.count)


@lowering("avg_pool2d_backward")
def avg_pool2d_backward(builder: Builder, grad: TensorValue, self: TensorValue, *options: Any) -> Any:
    """Each element's share of the means of a plane that it went into."""
    return _avg_pool_backward(builder, 2, grad, self, *options)


@lowering("avg_pool3d_backward")
def avg_pool3d_backward(builder: Builder, grad: TensorValue, self: TensorValue, *options: Any) -> Any:
    """Each element's share of the means of a volume that it went into."""
    return _avg_pool_backward(builder, 3, grad, self, *options)


def _max_pool_backward(
    builder: Builder,
    rank: int,
    grad: TensorValue,
    self: TensorValue,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: TensorValue,
) -> Any:
    kernel = each(kernel_size, rank)
    covering = Covering(grad.size, kernel, each(stride, rank, kernel), each(padding, rank))
    if (
        covering.count > 1
        or set(each(dilation, rank)) != {1}
        or not channels_last(builder, rank)
        or is_empty(grad.size)
    ):
        return (
            NotImplemented  # ATen's loop over the windows writes each gradient once, to where it belongs: it is faster
        )
    realize_if_costly(builder, grad)
    realize_if_costly(builder, indices)
    steps = contiguous_strides(self.size[-rank:])

    def compute(index: Index) -> Scalar:
        here = index_value(linear_index(index[-rank:], steps))
        ((place, exists),) = covering.places(index)
        chosen = prim.eq(masked(exists, lambda: indices.load(place), -1), here)
        return where(chosen, masked(exists, lambda: grad.load(place), 0), 0.0)

    return like_node(builder, compute, grad, indices, operations=8)


@lowering("max_pool2d_with_indices_backward")
def max_pool2d_with_indices_backward(builder: Builder, grad: TensorValue, self: TensorValue, *options: Any) -> Any:
    """The gradient of the window whose maximum the element is, where windows of a plane do not overlap."""
    return _max_pool_backward(builder, 2, grad, self, *options)


@lowering("max_pool3d_with_indices_backward")
def max_pool3d_with_indices_backward(builder: Builder, grad: TensorValue, self: TensorValue, *options: Any) -> Any:
    """The gradient of the window whose maximum the element is, where windows of a volume do not overlap."""
    return _max_pool_backward(builder, 3, grad, self, *options)
