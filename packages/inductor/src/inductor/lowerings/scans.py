"""Running results along a dimension: cumsum and its like, realized at once, and in three steps where few rows are long.

Flows in: the calls' arguments. Flows out: loops with `ops.scan`, on devices whose backends print it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import sympy
import torch

from inductor.ir.builder import Builder
from inductor.ir.indexing import contiguous_strides, is_empty
from inductor.ir.operations import Expr
from inductor.ir.program import Buffer
from inductor.ir.scalar import (
    Scalar,
    convert,
    index_value,
    masked,
    prim,
    reduce,
    rounded,
    scan,
    settled,
    where,
)
from inductor.ir.tensor import TensorValue
from inductor.ir.views import Reindex
from inductor.lowerings.registry import lowering
from inductor.lowerings.views import wrap
from symshapes import HALF_DTYPES

aten = torch.ops.aten
Element = Callable[[Sequence[Expr]], Scalar]
"""What is at an index of all dimensions."""

COLUMNS = 32
"""Rows whose elements lie side by side in memory are walked together, so many of them by one processor."""
COLUMNS_ENOUGH = 512
"""With so many processors' columns none is cut: their blocks are short along the dimension."""
LONG_COLUMN = 1 << 10
COLUMN_PART = 64
LARGEST_INT32 = 2**31 - 1


class Kind(NamedTuple):
    """How results of a kind are put together of parts."""

    combine: Callable[[Scalar, Scalar], Scalar]
    total: Callable[[Scalar], Scalar]
    """Of all that the inner loops walk over."""


def _log_add_exp(a: Scalar, b: Scalar) -> Scalar:
    high, low = prim.maximum(a, b), prim.minimum(a, b)
    # Two equal infinities have no difference.
    return where(prim.eq(high, low), high + math.log(2), high + prim.log1p(prim.exp(low - high)))


def _log_sum_exp(value: Scalar) -> Scalar:
    high = reduce("max", value)
    safe = where(prim.isinf(high), 0.0, high)
    return prim.log(reduce("sum", prim.exp(value - safe))) + safe


KINDS: dict[str, Kind] = {
    "sum": Kind(lambda a, b: a + b, lambda x: reduce("sum", x)),
    "prod": Kind(lambda a, b: a * b, lambda x: reduce("prod", x)),
    "max": Kind(prim.maximum, lambda x: reduce("max", x)),
    "min": Kind(prim.minimum, lambda x: reduce("min", x)),
    "logaddexp": Kind(_log_add_exp, _log_sum_exp),
}
"""By the name in `primitives.SCANS`."""


class Walk(NamedTuple):
    """Along which dimension of a tensor a scan goes, and how: `backward` from its end."""

    kind: str
    size: tuple[Expr, ...]
    dim: int
    backward: bool = False


@lowering("cumsum", "cumprod")
def running_sums(builder: Builder, self: TensorValue, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    """Sums and products so far, of halves in float32, each rounded once."""
    out = builder.meta().dtype
    if not _serves(builder, self) or out is torch.bool:
        return NotImplemented
    assert builder.node is not None
    dim = wrap(dim, len(self.size))
    turned = _is_turned(builder, dim, len(self.size))
    walk = Walk("prod" if "cumprod" in str(builder.node.target) else "sum", self.size, dim, turned)

    def element(index: Sequence[Expr]) -> Scalar:
        value = convert(self.load(_turn(walk, index) if turned else index), out)
        return rounded(value, out) if out in HALF_DTYPES and out is not self.dtype else value

    result = builder.in_memory(_running(builder, walk, self, out, _stride(builder, 0, self), element))
    return result.view(Reindex(self.size, lambda index: _turn(walk, index))) if turned else result


@lowering("logcumsumexp")
def running_log_sums(builder: Builder, self: TensorValue, dim: int) -> Any:
    """The log of the sum of the exponentials so far."""
    if not _serves(builder, self) or not self.dtype.is_floating_point:
        return NotImplemented
    dim = wrap(dim, len(self.size))
    turned = _is_turned(builder, dim, len(self.size))
    walk = Walk("logaddexp", self.size, dim, turned)

    def element(index: Sequence[Expr]) -> Scalar:
        return self.load(_turn(walk, index) if turned else index)

    result = builder.in_memory(_running(builder, walk, self, self.dtype, _stride(builder, 0, self), element))
    return result.view(Reindex(self.size, lambda index: _turn(walk, index))) if turned else result


@lowering("cummax", "cummin")
def running_extremes(builder: Builder, self: TensorValue, dim: int) -> Any:
    """The largest or smallest so far, NaN once there was one, and the last place that had it: the largest place so far of an
    element that is no less than all before it."""
    if not _serves(builder, self):
        return NotImplemented
    assert builder.node is not None
    dim = wrap(dim, len(self.size))
    walk = Walk("max" if "cummax" in str(builder.node.target) else "min", self.size, dim)
    length = self.size[dim] if self.size else sympy.Integer(1)
    narrow = length.is_Integer and length <= LARGEST_INT32

    def element(index: Sequence[Expr]) -> Scalar:
        return settled(self.load(index))

    buffer = _running(builder, walk, self, self.dtype, _stride(builder, 0, self), element)
    values = builder.in_memory(buffer)

    def place(index: Sequence[Expr]) -> Scalar:
        value = _wide(element(index))
        sets = prim.eq(value, _wide(values.load(index)))
        if value.dtype.is_floating_point:
            sets = sets | prim.isnan(value)
        along = index[dim] if index else sympy.Integer(0)
        return where(sets, index_value(along, torch.int32 if narrow else torch.int64), 0)

    places = _running(builder, walk._replace(kind="max"), self, torch.int64, _stride(builder, 1, self), place)
    return values, builder.in_memory(places)


def _serves(builder: Builder, self: TensorValue) -> bool:
    return builder.traits(self.device).scans and not is_empty(self.size)


def _wide(value: Scalar) -> Scalar:
    """In a dtype that backends scan: integers of 32 bits give the same remainders as narrower ones."""
    return value if value.dtype.itemsize >= torch.int32.itemsize else convert(value, torch.int32)


def _stride(builder: Builder, at: int, self: TensorValue) -> tuple[Expr, ...]:
    """Eager's strides of a result, where they leave no holes."""
    out = builder.meta()
    stride = builder.sizes((out[at] if isinstance(out, tuple | list) else out).stride())
    return stride if builder.is_dense(self.size, stride) else contiguous_strides(self.size)


def _is_turned(builder: Builder, dim: int, rank: int) -> bool:
    """Whether all that reads the result reads it backwards along the dimension, as gradients do: then the scan goes backward over
    memory, and nothing is turned around."""
    assert builder.node is not None
    return bool(builder.node.users) and all(
        user.target is aten.flip.default and [wrap(d, rank) for d in user.args[1]] == [dim]  # type: ignore[union-attr, arg-type]
        for user in builder.node.users
    )


def _turn(walk: Walk, index: Sequence[Expr]) -> list[Expr]:
    if not index:
        return []
    return [walk.size[d] - 1 - i if d == walk.dim else i for d, i in enumerate(index)]


def _running(
    builder: Builder,
    walk: Walk,
    self: TensorValue,
    dtype: torch.dtype,
    stride: tuple[Expr, ...],
    element: Element,
) -> Buffer:
    """A buffer of a scan's results; `self` is what `element` reads of."""
    buffer = builder.new_buffer(self.device, dtype, walk.size, stride)
    parts = _parts(builder, walk, stride, self.device)
    if parts is not None:
        _realize_if_long(builder, self)
        _in_parts(builder, walk, buffer, element, *parts)
        return buffer

    def body(outer: list[Expr], inner: list[Expr]) -> None:
        index = _index(walk, outer, inner)
        value = scan(walk.kind, _wide(element(index)), walk.backward)
        builder.store(buffer, index, convert(value, dtype))

    kept = _kept(walk)
    builder.loop(
        body,
        writes=[buffer],
        outer=[walk.size[d] for d in kept],
        inner=[walk.size[walk.dim]] if walk.size else [],
        order=builder.order([stride[d] for d in kept]),
        keep_inner_order=True,
    )
    return buffer


def _kept(walk: Walk) -> list[int]:
    return [d for d in range(len(walk.size)) if d != walk.dim]


def _index(walk: Walk, outer: Sequence[Expr], along: Sequence[Expr]) -> list[Expr]:
    return [*outer[: walk.dim], *along, *outer[walk.dim :]]


def _realize_if_long(builder: Builder, value: TensorValue) -> None:
    """Put in memory what is dearer to compute twice."""
    cost = value.cost
    if value.source.buffer is None and (cost.checks or cost.operations > 24 or len(cost.reads) > 2):
        builder.realize(value)


def _parts(builder: Builder, walk: Walk, stride: tuple[Expr, ...], device: torch.device) -> tuple[int, int] | None:
    """How many parts to cut each column into, and how long they are; None if they stay whole: if they are many or short, or are
    rows, which backends share out as they are."""
    if builder.traits(device).shares_rows or not walk.size or not all(size.is_Integer for size in walk.size):
        return None
    length, points = int(walk.size[walk.dim]), int(sympy.prod(walk.size))
    beside = any(walk.size[d] != 1 and builder.hint(stride[d]) < builder.hint(stride[walk.dim]) for d in _kept(walk))
    enough = -(-points // length // COLUMNS) >= COLUMNS_ENOUGH
    if not beside or enough or length < LONG_COLUMN:
        return None
    part = next(part for part in range(COLUMN_PART, 0, -1) if length % part == 0)
    return (length // part, part) if 2 * part > COLUMN_PART else None


def _in_parts(
    builder: Builder,
    walk: Walk,
    buffer: Buffer,
    element: Element,
    count: int,
    length: int,
) -> None:
    """Three steps: of each part the total, of these the running results, and within each part what goes on from that."""
    combine, total = KINDS[walk.kind]
    kept = _kept(walk)
    many, long, step = sympy.Integer(count), sympy.Integer(length), -1 if walk.backward else 1
    outer_size = [*(walk.size[d] for d in kept), many]
    strides = [*(buffer.stride[d] for d in kept), buffer.stride[walk.dim] * length]
    order = builder.order(strides)
    turned = {d for d in range(len(order)) if strides[d] != 1}
    partial_size = tuple(outer_size)
    partial_stride: list[Expr] = [sympy.Integer(1)] * len(order)
    for at, stride in zip(order, contiguous_strides([outer_size[at] for at in order]), strict=True):
        partial_stride[at] = stride
    dtype = buffer.dtype if buffer.dtype.itemsize >= torch.int32.itemsize else _partial_dtype(buffer.dtype)
    totals = builder.new_buffer(buffer.device, dtype, partial_size, tuple(partial_stride))
    so_far = builder.new_buffer(buffer.device, dtype, partial_size, tuple(partial_stride))

    def whole(outer: Sequence[Expr], inner: Expr) -> list[Expr]:
        return _index(walk, outer[:-1], [outer[-1] * length + inner])

    def first(outer: list[Expr], inner: list[Expr]) -> None:
        # From the end: what was read last is what the third step reads first, and may still be in a cache.
        outer = [outer_size[d] - 1 - at if d in turned else at for d, at in enumerate(outer)]
        value = total(_wide(element(whole(outer, inner[0]))))
        builder.store(totals, outer, convert(value, dtype))

    def second(outer: list[Expr], inner: list[Expr]) -> None:
        value = builder.in_memory(totals).load([*outer, *inner])
        builder.store(so_far, [*outer, *inner], scan(walk.kind, value, walk.backward))

    def third(outer: list[Expr], inner: list[Expr]) -> None:
        index, part = whole(outer, inner[0]), outer[-1]
        value = scan(walk.kind, _wide(element(index)), walk.backward)
        begins = prim.eq(index_value(part), count - 1 if walk.backward else 0)
        goes_on = prim.logical_not(begins)
        before = masked(goes_on, lambda: builder.in_memory(so_far).load([*outer[:-1], part - step]), 0)
        value = where(goes_on, combine(convert(before, value.dtype), value), value)
        builder.store(buffer, index, convert(value, buffer.dtype))

    builder.loop(first, writes=[totals], outer=outer_size, inner=[long], order=order)
    builder.loop(
        second,
        writes=[so_far],
        outer=outer_size[:-1],
        inner=[many],
        order=builder.order(strides[:-1]),
        keep_inner_order=True,
    )
    builder.loop(third, writes=[buffer], outer=outer_size, inner=[long], order=order, keep_inner_order=True)


def _partial_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype.is_floating_point else torch.int32
