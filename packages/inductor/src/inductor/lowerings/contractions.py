"""Products of matrices: sums over an inner loop, where the device prints those by blocks; elsewhere ATen's kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from inductor.ir.builder import Builder
from inductor.ir.indexing import ZERO, is_empty, product
from inductor.ir.operations import Expr
from inductor.ir.scalar import Scalar, lift, reduce
from inductor.ir.tensor import TensorValue
from inductor.lowerings.registry import broadcast, lowering

FEW_ROWS = 24
SMALL = 1 << 16
"""Of few rows putting a matrix of more elements in order would take as long as multiplying by it."""


@lowering("mm", "bmm")
def _product(builder: Builder, self: TensorValue, mat2: TensorValue) -> Any:
    return contracted(builder, self, mat2, lambda total, _: total)


@lowering("addmm", "baddbmm")
def _product_and_sum(
    builder: Builder, self: TensorValue, mat1: TensorValue, mat2: TensorValue, *, beta: Any = 1, alpha: Any = 1
) -> Any:
    size = builder.sizes(builder.meta().size())
    if not _is_blocked(builder, mat1, mat2):
        return NotImplemented
    # What is scaled by zero is not read: it may be NaN.
    added = None if beta == 0 else broadcast(builder, self, size)
    if added is not None:
        builder.realize(added)

    def finish(total: Scalar, index: list[Expr]) -> Scalar:
        scaled = total if alpha == 1 else total * lift(alpha, total.dtype)
        if added is None:
            return scaled
        other = added.load(index)
        return scaled + (other if beta == 1 else other * lift(beta, total.dtype))

    return contracted(builder, mat1, mat2, finish)


@lowering("convolution")
def _convolution(
    builder: Builder,
    input: TensorValue,
    weight: TensorValue,
    bias: TensorValue | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: Any,
) -> Any:
    """Of images with channels last, one without neighbours: points by channels times channels by results."""
    wanted = {*weight.size[2:], *stride, groups} == {1} and not any(padding) and not transposed
    batch, _, *points = input.size
    if not wanted or not _gains(builder, weight, product((batch, *points)), input.size[1], weight.size[0]):
        return NotImplemented
    layout = builder.realize(input).layout()
    if layout is None or layout.stride[1] != 1:
        return NotImplemented
    weight = _strided(builder, weight)
    neighbour = [ZERO] * len(points)

    def body(outer: list[Expr], inner: list[Expr]) -> Scalar:
        at, result, *point = outer
        total = reduce("sum", input.load([at, *inner, *point]) * weight.load([result, *inner, *neighbour]))
        return total if bias is None else total + bias.load([result])

    return _summed(builder, input.size[1], body)


def contracted(
    builder: Builder, left: TensorValue, right: TensorValue, finish: Callable[[Scalar, list[Expr]], Scalar]
) -> Any:
    """`finish(sum over k of left[..., m, k] * right[..., k, n], [..., m, n])`, with the strides of the node's fake value;
    NotImplemented where ATen's kernel is to do it."""
    if not _is_blocked(builder, left, right):
        return NotImplemented
    left, right = _strided(builder, left), _strided(builder, right)

    def body(outer: list[Expr], inner: list[Expr]) -> Scalar:
        *batch, row, column = outer
        factors = left.load([*batch, row, *inner]) * right.load([*batch, *inner, column])
        return finish(reduce("sum", factors), outer)

    return _summed(builder, left.size[-1], body)


def _summed(builder: Builder, depth: Expr, body: Callable[[list[Expr], list[Expr]], Scalar]) -> TensorValue:
    """The node's result, with the strides of its fake value: `body(index, [step])` sums over `depth` steps."""
    out = builder.meta()
    size, stride = builder.sizes(out.size()), builder.sizes(out.stride())
    buffer = builder.new_buffer(out.device, out.dtype, size, stride)
    builder.loop(
        lambda outer, inner: builder.store(buffer, outer, body(outer, inner)),
        writes=(buffer,),
        outer=size,
        inner=[depth],
        order=builder.order(stride),
    )
    return builder.in_memory(buffer)


def _is_blocked(builder: Builder, left: TensorValue, right: TensorValue) -> bool:
    """Whether it is a product of matrices, of more than a row or a column, that the device prints by blocks."""
    *_, rows, depth = left.size
    if is_empty(left.size) or is_empty(right.size):
        return False
    return _gains(builder, left, rows, depth, right.size[-1])


def _gains(builder: Builder, value: TensorValue, rows: Expr, depth: Expr, columns: Expr) -> bool:
    return (
        value.dtype in builder.traits(value.device).contractions
        and not any(size == 1 for size in (rows, columns, depth))
        and not is_empty((rows, columns, depth))
        and (builder.hint(rows) >= FEW_ROWS or builder.hint(depth) * builder.hint(columns) <= SMALL)
    )


def _strided(builder: Builder, value: TensorValue) -> TensorValue:
    """The value in memory, at places that are linear in its indices."""
    if builder.realize(value).layout() is None:
        return builder.realize(builder.copy(value))
    return value
