"""Windows of images as columns (`unfold` of torch.nn.functional), and columns added up to an image (`fold`)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import sympy
import torch

from inductor.ir.builder import Builder
from inductor.ir.indexing import Index, is_empty, same, within
from inductor.ir.operations import Expr
from inductor.ir.scalar import Scalar, index_value, lift, masked, prim, rounded
from inductor.ir.tensor import Cost, TensorValue
from inductor.lowerings.indexing import like_node
from inductor.lowerings.registry import lowering, realize_if_costly
from inductor.lowerings.views import reshaped
from inductor.ops import ops
from symshapes import FloorDiv, Mod

LARGEST_SUM = 64
"""Beyond so many columns that may hold an element of the image the code would be long."""


def _inside(at: Expr, size: Expr) -> list[Scalar]:
    """What has to hold for `at` to be a place in a dimension; nothing where that is certain."""
    if within(at, size, ops.ranges):
        return []
    value = index_value(at)
    return [prim.ge(value, 0), prim.lt(value, int(size) if size.is_Integer else index_value(size))]


def _all(conditions: Sequence[Scalar]) -> Scalar | None:
    return reduce(lambda a, b: a & b, conditions) if conditions else None


def _windows(length: Expr, kernel: int, dilation: int, padding: int, stride: int) -> Expr:
    """How many windows are along a dimension of an image."""
    return FloorDiv(length + 2 * padding - dilation * (kernel - 1) - 1, sympy.Integer(stride)) + 1


def _static(*options: Sequence[Any]) -> bool:
    return all(isinstance(value, int) for option in options for value in option)


@lowering("im2col")
def im2col(builder: Builder, self: TensorValue, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """Each window of an image as a column."""
    options = (kernel_size, dilation, padding, stride)
    out = builder.sizes(builder.meta().size())
    if (
        not _static(*options)
        or not (self.dtype.is_floating_point or self.dtype is torch.bool)
        or is_empty(self.size)
        or is_empty(out)
    ):
        return NotImplemented
    realize_if_costly(builder, self)
    *lead, channels, height, width = self.size
    along = list(zip((height, width), *options, strict=True))
    size = (*lead, channels, *map(sympy.Integer, kernel_size), *(_windows(*one) for one in along))

    def compute(index: Index) -> Scalar:
        *before, above, beside, row, column = index
        place = list(before)
        conditions = []
        for tap, window, (length, _, dilated, padded, step) in zip((above, beside), (row, column), along, strict=True):
            at = window * step + tap * dilated - padded
            place.append(at)
            conditions += _inside(at, length)
        inside = _all(conditions)
        return self.load(place) if inside is None else masked(inside, lambda: self.load(place), 0)

    cost = Cost(4) + self.cost
    return reshaped(builder, builder.pointwise(self.device, self.dtype, size, compute, cost), out)


@lowering("col2im")
def col2im(
    builder: Builder,
    self: TensorValue,
    output_size: Any,
    kernel_size: Any,
    dilation: Any,
    padding: Any,
    stride: Any,
) -> Any:
    """For each element of the image the sum of those of the columns that stand for it."""
    options = (kernel_size, dilation, padding, stride)
    if not _static(*options) or not self.dtype.is_floating_point or is_empty(self.size):
        return NotImplemented
    *lead, channels, height, width = builder.sizes(builder.meta().size())
    along = list(zip((height, width), *options, strict=True))
    if math.prod(_most_readers(*one) for one in zip(kernel_size, dilation, stride, strict=True)) > LARGEST_SUM:
        return NotImplemented
    counts = [_windows(*one) for one in along]
    if not same(self.size[-2], channels * math.prod(kernel_size)) or not same(self.size[-1], counts[0] * counts[1]):
        return NotImplemented  # eager's kernel refuses others
    realize_if_costly(builder, self)
    by_dtype = builder.traits(self.device).casts_operands
    taps = reshaped(builder, self, (*lead, channels, *map(sympy.Integer, kernel_size), *counts))

    def compute(index: Index) -> Scalar:
        *before, row, column = index
        total = lift(0.0, self.dtype)
        places = (
            list(_readers(at, *one[1:], count)) for at, one, count in zip((row, column), along, counts, strict=True)
        )
        for (above, down, exists), (beside, right, also) in itertools.product(*places):
            place = [*before, above, beside, down, right]
            inside = _all(exists + also)
            value = taps.load(place) if inside is None else masked(inside, lambda place=place: taps.load(place), 0)  # type: ignore[misc]
            total = total + value
            if by_dtype:
                total = rounded(total, self.dtype)
        return total

    return like_node(builder, compute, self, operations=6)


def _most_readers(kernel: int, dilation: int, stride: int) -> int:
    return -(-kernel // stride) if dilation == 1 else kernel


def _readers(
    at: Expr, kernel: int, dilation: int, padding: int, stride: int, count: Expr
) -> Iterator[tuple[Expr, Expr, list[Scalar]]]:
    """Along one dimension the taps, in ascending order, and windows that read place `at`, and what holds where they exist."""
    padded = at + padding
    if dilation == 1:
        for back in range(_most_readers(kernel, dilation, stride)):
            window = FloorDiv(padded, sympy.Integer(stride)) - back
            tap = Mod(padded, sympy.Integer(stride)) + back * stride
            exists = _inside(window, count)
            if (back + 1) * stride > kernel:
                exists.append(prim.lt(index_value(tap), kernel))
            yield tap, window, exists
        return
    for number in range(kernel):
        from_first = padded - number * dilation
        window = FloorDiv(from_first, sympy.Integer(stride))
        exists = _inside(window, count)
        if stride > 1:
            exists.append(prim.eq(index_value(Mod(from_first, sympy.Integer(stride))), 0))
        yield sympy.Integer(number), window, exists
