"""Pooling over small windows, forward and backward, unrolled inside a pointwise body; larger windows stay with ATen. Nearest upsampling."""

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


class Covering:
    """The windows that read an element of the input: at most a few of the result's elements, unless windows are dilated."""

    def __init__(
        self, result_size: Sequence[Expr], kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int]
    ) -> None:
        self.size = result_size[-2:]
        self.kernel, self.stride, self.padding = kernel, stride, padding

    @property
    def count(self) -> int:
        """How many windows at most read one element."""
        return math.prod(-(-k // s) for k, s in zip(self.kernel, self.stride, strict=True))

    def places(self, index: Index) -> Iterator[tuple[Expr, Expr, Scalar]]:
        """Row and column in the result, and whether there is such a window that reads the element."""
        rows, columns = (list(self._along(dim, index[dim - 2])) for dim in range(2))
        for (row, above), (column, beside) in itertools.product(rows, columns):
            yield row, column, above & beside

    def _along(self, dim: int, at: Expr) -> Iterator[tuple[Expr, Scalar]]:
        kernel, step = self.kernel[dim], self.stride[dim]
        padded = at + self.padding[dim]
        size = self.size[dim]
        end: Any = int(size) if size.is_Integer else index_value(size)
        for back in range(-(-kernel // step)):
            window = FloorDiv(padded, sympy.Integer(step)) - back
            place = index_value(window)
            exists = prim.lt(place, end)
            if back:
                exists = exists & prim.ge(place, 0)
            if (back + 1) * step > kernel:  # the window may end before the element
                exists = exists & prim.lt(index_value(padded - window * step), kernel)
            yield window, exists


@lowering("avg_pool2d_backward")
def avg_pool2d_backward(
    builder: Builder,
    grad: TensorValue,
    self: TensorValue,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Any:
    """Each element's share of the means that it went into."""
    kernel = _pair(kernel_size)
    pads = _pair(padding)
    covering = Covering(grad.size, kernel, _pair(stride, kernel), pads)
    # As for the means: windows cut at the edge divide by what is left of them.
    by_count = any(pads) and not count_include_pad and divisor_override is None
    if covering.count > LARGEST_WINDOW or ceil_mode or by_count or is_empty(grad.size) or is_empty(self.size):
        return NotImplemented
    if covering.count > 1 and covering.stride[1] > 1 and not _channels_last(builder):
        return NotImplemented  # vectors of neighbours ask for every so many of a row: ATen's loop over the windows is faster
    realize_if_costly(builder, grad)

    def compute(index: Index) -> Scalar:
        total: Scalar | None = None
        for row, column, exists in covering.places(index):
            place = [*index[:-2], row, column]
            value = masked(exists, lambda place=place: grad.load(place), 0)  # type: ignore[misc]
            total = value if total is None else total + value
        assert total is not None
        return total / float(divisor_override or math.prod(kernel))

    return like_node(builder, compute, grad, operations=6 * covering.count)


@lowering("max_pool2d_with_indices_backward")
def max_pool2d_with_indices_backward(
    builder: Builder,
    grad: TensorValue,
    self: TensorValue,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: TensorValue,
) -> Any:
    """The gradient of the window whose maximum the element is, where windows do not overlap."""
    kernel = _pair(kernel_size)
    covering = Covering(grad.size, kernel, _pair(stride, kernel), _pair(padding))
    if covering.count > 1 or _pair(dilation, (1, 1)) != (1, 1) or not _channels_last(builder) or is_empty(grad.size):
        return (
            NotImplemented  # ATen's loop over the windows writes each gradient once, to where it belongs: it is faster
        )
    realize_if_costly(builder, grad)
    realize_if_costly(builder, indices)

    def compute(index: Index) -> Scalar:
        here = index_value(index[-2] * self.size[-1] + index[-1])
        ((row, column, exists),) = covering.places(index)
        place = [*index[:-2], row, column]
        chosen = prim.eq(masked(exists, lambda: indices.load(place), -1), here)
        return where(chosen, masked(exists, lambda: grad.load(place), 0), 0.0)

    return like_node(builder, compute, grad, indices, operations=8)


def _channels_last(builder: Builder) -> bool:
    """Whether neighbours in the memory of the node's value are channels."""
    out = builder.meta()
    return out.dim() > 3 and builder.size(out.stride(-3)) == 1 and builder.size(out.size(-3)) != 1


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
