"""Pooling over small windows, unrolled inside a pointwise body; larger windows stay with ATen. Nearest upsampling."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import sympy
import torch

from inductor.ir.builder import Builder
from inductor.ir.indexing import Index, is_empty
from inductor.ir.operations import Expr
from inductor.ir.scalar import Scalar, index_value, lift, masked, prim, where
from inductor.ir.tensor import Cost, TensorValue
from inductor.lowerings.indexing import like_node
from inductor.lowerings.registry import lowering, realize_if_costly
from symshapes import FloorDiv

LARGEST_WINDOW = 9


def _pair(value: Any, default: Sequence[int] = (0, 0)) -> tuple[int, int]:
    values = [value] if isinstance(value, int) else list(value)
    if not values:
        values = list(default)
    return (values[0], values[0]) if len(values) == 1 else (values[0], values[1])


class Window:
    """The places a pooling window reads, for an output element at `index`."""

    def __init__(
        self,
        self_size: Sequence[Expr],
        kernel: tuple[int, int],
        stride: tuple[int, int],
        padding: tuple[int, int],
        dilation: tuple[int, int],
        ceil_mode: bool,
    ) -> None:
        self.size = self_size[-2:]
        self.kernel, self.stride, self.padding, self.dilation = kernel, stride, padding, dilation
        self.checked = ceil_mode or any(padding)
        """Whether places may be outside the input."""

    def places(self, index: Index) -> Iterator[tuple[Expr, Expr, Scalar | None]]:
        """Row, column, and whether they are inside the input (None: always)."""
        for kh, kw in itertools.product(range(self.kernel[0]), range(self.kernel[1])):
            row = index[-2] * self.stride[0] - self.padding[0] + kh * self.dilation[0]
            column = index[-1] * self.stride[1] - self.padding[1] + kw * self.dilation[1]
            inside: Scalar | None = None
            if self.checked:
                for at, size in ((row, self.size[0]), (column, self.size[1])):
                    value = index_value(at)
                    end: Any = int(size) if size.is_Integer else index_value(size)
                    test = prim.ge(value, 0) & prim.lt(value, end)
                    inside = test if inside is None else inside & test
            yield row, column, inside


def _fits(self: TensorValue, kernel: tuple[int, int]) -> bool:
    return math.prod(kernel) <= LARGEST_WINDOW and not is_empty(self.size)


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
    kernel = _pair(kernel_size)
    if not _fits(self, kernel) or not self.dtype.is_floating_point:
        return NotImplemented
    window = Window(self.size, kernel, _pair(stride, kernel), _pair(padding), _pair(dilation), ceil_mode)
    realize_if_costly(builder, self)
    values, positions = builder.meta()

    def walk(index: Index) -> tuple[Scalar, Scalar]:
        best: Scalar | None = None
        best_at: Scalar | None = None
        found: Scalar | None = None
        for row, column, inside in window.places(index):
            place = [*index[:-2], row, column]

            def element(place: Index = place) -> Scalar:
                return self.load(place)

            value = element() if inside is None else masked(inside, element, -math.inf)
            at = index_value(row * self.size[-1] + column)
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
    """The mean of each window."""
    kernel = _pair(kernel_size)
    pads = _pair(padding)
    # Windows cut at the edge divide by what is left of them: only the plain cases are unrolled.
    if not _fits(self, kernel) or ceil_mode or not self.dtype.is_floating_point:
        return NotImplemented
    window = Window(self.size, kernel, _pair(stride, kernel), pads, (1, 1), ceil_mode)
    realize_if_costly(builder, self)
    by_count = any(pads) and not count_include_pad and divisor_override is None

    def compute(index: Index) -> Scalar:
        total: Scalar | None = None
        count: Scalar | None = None
        for row, column, inside in window.places(index):
            place = [*index[:-2], row, column]

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


@lowering("upsample_nearest2d", "upsample_nearest2d.vec")
def upsample_nearest2d(builder: Builder, self: TensorValue, output_size: Any, *scales: Any) -> Any:
    """Whole factors only: others follow the rounding of eager's float arithmetic."""
    out = builder.sizes(builder.meta().size())
    factors = []
    for to, source in zip(out[-2:], self.size[-2:], strict=True):
        if not (to.is_Integer and source.is_Integer and source > 0 and to % source == 0):
            return NotImplemented
        factors.append(to // source)
    flat = [s for given in scales if given is not None for s in (given if isinstance(given, tuple | list) else [given])]
    if flat and [float(s) for s in flat] != [float(f) for f in factors]:
        return NotImplemented
    realize_if_costly(builder, self)

    def compute(index: Index) -> Scalar:
        place = [FloorDiv(i, sympy.Integer(f)) for i, f in zip(index[-2:], factors, strict=True)]
        return self.load([*index[:-2], *place])

    return like_node(builder, compute, self)
