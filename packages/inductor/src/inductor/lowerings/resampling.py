"""Images at another resolution: each element a weighted sum of a few of the image's, along one dimension after another."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import sympy
import torch

from inductor.ir.builder import Builder
from inductor.ir.indexing import Index, is_empty, same
from inductor.ir.operations import Expr
from inductor.ir.scalar import Scalar, convert, index_value, indirect, lift, prim, where
from inductor.ir.tensor import TensorValue
from inductor.lowerings.indexing import like_node
from inductor.lowerings.registry import lowering, realize_if_costly
from inductor.lowerings.windows import channels_last
from symshapes import dataclass

Tap = tuple[Expr, Scalar | None]
"""A place along a dimension, and its weight; None: 1."""

SMALL = 128
VECTOR_OF_CHANNELS = 3
"""Planes of lengths of so many together, and results with more than so many channels as neighbours in memory, eager has another
kernel for, with positions of its own."""
EXACT = 1 << 20
"""Up to this float32 has the numbers between the elements of an image that is doubled."""
CUBIC = -0.75
"""The slope that eager's cubic has at the next element but one."""


@dataclass(frozen=True)
class Axis:
    """One dimension: from `size` elements to `result`; `scale` is the factor given, if one was."""

    size: Expr
    result: Expr
    scale: float | None
    aligned: bool
    """Whether the first and last elements lie on each other; else the outer edges of the elements do."""
    dtype: torch.dtype
    """What positions and weights are computed in."""
    unasked: tuple[int, ...] = ()
    """How many times as long the result is where eager does not ask for a factor that was given."""
    if_true: Callable[[], Scalar] | None = None
    """Whether that is so at all; None: it is."""

    def step(self) -> Scalar:
        """How far apart the result's elements are, in the image's."""
        if self.scale is not None and self.scale > 0 and not self.aligned:
            return self._given(self.scale)
        less = 1 if self.aligned else 0
        source, result = self.size - less, self.result - less
        if result == 0:
            return lift(0.0, self.dtype)
        if source.is_Integer and result.is_Integer:
            return lift(int(source) / int(result), self.dtype)
        if less:
            result = sympy.Max(result, 1)  # a single element is the first one
        return lift(source, self.dtype) / lift(result, self.dtype)

    def _given(self, scale: float) -> Scalar:
        """The step by a factor that was given, unless the lengths are such that eager does not ask for it."""
        step = lift(1.0 / scale, self.dtype)
        for times in self.unasked:
            length = times * self.size
            if (length.is_Integer and self.result.is_Integer and length != self.result) or scale == times:
                continue
            unasked = prim.eq(index_value(length), index_value(self.result))
            if self.if_true is not None:
                unasked = unasked & self.if_true()
            step = where(unasked, 1.0 / times, step)
        return step

    @property
    def whole(self) -> torch.dtype:
        """The integers that positions are: 32 bits where the lengths are known to fit."""
        fit = all(length.is_Integer and length < 2**30 for length in (self.size, self.result))
        return torch.int32 if fit else torch.int64

    def middle(self, at: Expr) -> Scalar:
        """Where the middle of the result's element lies, counted from the middle of the image's first."""
        place = convert(index_value(at, self.whole), self.dtype)
        return self.step() * place if self.aligned else self.step() * (place + 0.5) - 0.5

    @property
    def _doublings(self) -> int | None:
        """How often the image was doubled: all that is computed of places is exact then, and by integers, of which a compiler can tell
        that neighbours have elements in common; none lies behind the last element. None if the result is something else."""
        if self.aligned or not (self.size.is_Integer and self.result.is_Integer) or self.result >= EXACT:
            return None
        times, rest = divmod(int(self.result), int(self.size))
        doubled = rest == 0 and times.bit_count() == 1 and self.scale in (None, times)
        return times.bit_length() - 1 if doubled else None

    def _doubled(self, at: Expr, doublings: int, first: int | None = None) -> tuple[Scalar, Scalar]:
        """Of an image that was doubled so often: the element before the middle of the result's element, or 0 (`first`) if none is, and how
        far that lies beyond it."""
        parts = 2 << doublings  # an element's, at whose borders, or middles, middles lie
        middle = 2 * index_value(at, self.whole) + (1 - (1 << doublings))
        if first is not None:
            middle = prim.maximum(middle, first)
        below = prim.rshift(middle, doublings + 1)
        return below, convert(prim.bitwise_and(middle, parts - 1), self.dtype) * (1 / parts)

    def bound(self, position: Scalar) -> Scalar:
        """A position, or the last one if it lies behind that."""
        last = self.size - 1
        return prim.minimum(position, int(last) if last.is_Integer else index_value(last, position.dtype))

    def place(self, position: Scalar) -> Expr:
        """An index of the image, for a position that is one."""
        return indirect(convert(position, torch.int64), self.size, "certain")

    def nearest(self, at: Expr, *, exact: bool) -> Expr:
        """The element that the result's element lies in; its start does unless `exact`, then its middle."""
        if self._doublings is not None:
            return self.place(prim.rshift(index_value(at, self.whole), self._doublings))
        place = convert(index_value(at, self.whole), torch.float32)
        step = replace(self, dtype=torch.float32).step()
        return self.place(self.bound(convert((place + 0.5) * step if exact else place * step, self.whole)))

    def _passes_the_end(self) -> bool:
        """Whether a middle may lie beyond the last element's by more than rounding; with a factor that was given, which the
        lengths need not follow, that is not known."""
        if self.scale is None or self.aligned:
            return False
        if not (self.size.is_Integer and self.result.is_Integer) or self.scale <= 0:
            return True
        return (int(self.result) - 0.5) / self.scale - 0.5 > int(self.size) - 0.25

    def beyond(self, middle: Scalar, below: Scalar) -> Scalar:
        """How far a middle lies from the element before it, at most 1."""
        distance = middle - convert(below, self.dtype)
        return prim.minimum(prim.maximum(distance, 0), 1) if self._passes_the_end() else distance

    def linear(self, at: Expr) -> Sequence[Tap]:
        """The elements before and behind a place, by their nearness."""
        if self._doublings is not None:
            below, beyond = self._doubled(at, self._doublings, 0)
        else:
            middle = self.middle(at)
            if not self.aligned:
                middle = prim.maximum(middle, 0)
            below = self.bound(convert(middle, self.whole))
            beyond = self.beyond(middle, below)
        return [(self.place(below), 1 - beyond), (self.place(self.bound(below + self._behind(below))), beyond)]

    def _behind(self, below: Scalar) -> Scalar | int:
        """How far apart the two elements are: where nothing changes eager takes one element twice, so that the next one may be
        infinite."""
        if same(self.size, self.result):
            return 0
        if self.size.is_Integer and self.result.is_Integer:
            return 1
        return convert(prim.ne(index_value(self.size), index_value(self.result)), below.dtype)

    def cubic(self, at: Expr) -> Sequence[Tap]:
        """Two elements on each side, by the cubic that passes through the inner two."""
        if self._doublings is not None:
            below, beyond = self._doubled(at, self._doublings)
        else:
            middle = self.middle(at)
            below = self.bound(convert(prim.floor(middle), self.whole))
            beyond = self.beyond(middle, below)
        before = 1 - beyond
        weights = [_outer(beyond + 1), _inner(beyond), _inner(before), _outer(before + 1)]
        places = [self.bound(prim.maximum(below + shift, 0)) for shift in range(-1, 3)]
        return [(self.place(position), weight) for position, weight in zip(places, weights, strict=True)]


def _inner(x: Scalar) -> Scalar:
    """The cubic's weight at a distance of at most 1."""
    return ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1


def _outer(x: Scalar) -> Scalar:
    """The cubic's weight at a distance between 1 and 2."""
    return ((CUBIC * x - 5 * CUBIC) * x + 8 * CUBIC) * x - 4 * CUBIC


def _axes(
    builder: Builder,
    self: TensorValue,
    rank: int,
    aligned: bool,
    scales: Sequence[Any],
    unasked: tuple[int, ...],
    if_true: Callable[[], Scalar] | None = None,
) -> dict[int, Axis] | None:
    """The dimensions that are resampled; None where loops do not."""
    result = builder.sizes(builder.meta().size())
    if not self.dtype.is_floating_point or is_empty(self.size) or is_empty(result):
        return None
    if any(not isinstance(scale, int | float | None) for scale in scales):
        return None
    dtype = torch.float64 if self.dtype is torch.float64 else torch.float32
    given = [*scales, *[None] * rank]
    return {
        dim: Axis(self.size[dim], result[dim], given[dim + rank], aligned, dtype, unasked, if_true)
        for dim in range(-rank, 0)
    }


# Nearest


def _nearest(builder: Builder, rank: int, self: TensorValue, scales: Sequence[Any], exact: bool) -> Any:
    size = builder.sizes(builder.meta().size())
    beside = channels_last(builder, rank)

    def other_kernel() -> Scalar:
        many = prim.gt(index_value(size[1]), VECTOR_OF_CHANNELS)
        if rank > 2:
            return many
        small = prim.le(index_value(size[-1] + size[-2]), SMALL)
        return small | many if beside else small

    unasked = () if exact or not (beside or rank == 2) else (1, 2)
    axes = _axes(builder, self, rank, False, scales, unasked, other_kernel)
    if axes is None:
        return NotImplemented
    realize_if_costly(builder, self)

    def compute(index: Index) -> Scalar:
        place = [axis.nearest(index[dim], exact=exact) for dim, axis in axes.items()]
        return self.load([*index[:-rank], *place])

    return like_node(builder, compute, self)


@lowering("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def upsample_nearest(builder: Builder, self: TensorValue, output_size: Sequence[Any], *scales: Any) -> Any:
    """The element that the start of each new one lies in."""
    return _nearest(builder, len(output_size), self, scales, exact=False)


@lowering("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d")
def upsample_nearest_exact(builder: Builder, self: TensorValue, output_size: Sequence[Any], *scales: Any) -> Any:
    """The element that the middle of each new one lies in."""
    return _nearest(builder, len(output_size), self, scales, exact=True)


# Weighted sums


@lowering("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def upsample_linear(
    builder: Builder, self: TensorValue, output_size: Sequence[Any], align_corners: bool, *scales: Any
) -> Any:
    """Along each dimension a mean of two elements, by their nearness."""
    return _weighted(builder, len(output_size), self, Axis.linear, 2, align_corners, scales)


@lowering("upsample_bicubic2d")
def upsample_bicubic(
    builder: Builder, self: TensorValue, output_size: Sequence[Any], align_corners: bool, *scales: Any
) -> Any:
    """Along each dimension a cubic through four elements."""
    return _weighted(builder, len(output_size), self, Axis.cubic, 4, align_corners, scales)


Taps = Callable[[Axis, Expr], Sequence[Tap]]


def _weighted(
    builder: Builder, rank: int, self: TensorValue, taps: Taps, count: int, aligned: bool, scales: Sequence[Any]
) -> Any:
    axes = _axes(builder, self, rank, aligned, scales, () if count == 4 else (1,))
    if axes is None:
        return NotImplemented
    realize_if_costly(builder, self)
    *first, last = _plan(builder, self, axes, count)
    value = self
    for dims in first:
        value = _kept(builder, value, {dim: axes[dim] for dim in dims}, taps)
    final = {dim: axes[dim] for dim in last}
    dtype = next(iter(axes.values())).dtype
    operations = 2 * count ** len(final) + 8 * len(final)
    return like_node(builder, lambda index: _sum(value, index, final, taps, dtype), value, operations=operations)


def _kept(builder: Builder, value: TensorValue, axes: dict[int, Axis], taps: Taps) -> TensorValue:
    """The value resampled along some dimensions, in memory, as precise as it is computed."""
    size = list(value.size)
    for dim, axis in axes.items():
        size[dim] = axis.result
    dtype = next(iter(axes.values())).dtype
    made = builder.pointwise(value.device, dtype, tuple(size), lambda index: _sum(value, index, axes, taps, dtype))
    stride = builder.sizes(builder.meta().stride())
    made.source.stride = builder.without_holes(tuple(size), stride)
    return builder.realize(made)


def _sum(value: TensorValue, index: Index, axes: dict[int, Axis], taps: Taps, dtype: torch.dtype) -> Scalar:
    """Along a row last: what an element makes of the rows beside each other its neighbours need, too."""
    dims = [*reversed(axes)]
    along = [taps(axes[dim], index[dim]) for dim in dims]

    def total(place: list[Expr], dims: Sequence[int], rest: Sequence[Sequence[Tap]]) -> Scalar:
        if not rest:
            return convert(value.load(place), dtype)
        result: Scalar | None = None
        for at, weight in rest[0]:
            place[dims[0]] = at
            part = total(list(place), dims[1:], rest[1:])
            if weight is not None:
                part = part * weight
            result = part if result is None else result + part
        assert result is not None
        return result

    return total(list(index), dims, along)


def _plan(builder: Builder, self: TensorValue, axes: dict[int, Axis], count: int) -> Sequence[tuple[int, ...]]:
    """Which dimensions are resampled in which pass: a pass of its own writes and reads all elements once more, but the fewer taps
    are taken together, the less is read; and where positions in a row are computed, lanes read one by one."""
    rows = builder.size(builder.meta().stride(-1)) == 1
    traits = builder.traits(self.device)
    dims = list(axes)
    best: tuple[float, Sequence[tuple[int, ...]]] | None = None
    for passes in range(len(dims)):
        for alone in itertools.permutations(dims, passes):
            plan = [*((dim,) for dim in alone), tuple(dim for dim in dims if dim not in alone)]
            sizes = {dim: builder.hint(axis.size) for dim, axis in axes.items()}
            cost = 0.0
            for together in plan:
                for dim in together:
                    sizes[dim] = builder.hint(axes[dim].result)
                each = traits.read_at_a_place if rows and -1 in together else 1.0
                cost += math.prod(sizes.values()) * (count ** len(together) * each + traits.kept)
            if best is None or cost < best[0]:
                best = cost, plan
    assert best is not None
    return best[1]
