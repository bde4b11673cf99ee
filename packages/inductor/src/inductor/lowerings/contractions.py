"""Products of matrices: sums over an inner loop, where the device prints those by blocks; elsewhere ATen's kernels."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch import fx

from inductor.contractions import contraction_of
from inductor.ir.builder import Builder
from inductor.ir.indexing import is_empty, product
from inductor.ir.operations import Expr
from inductor.ir.program import LoopOp
from inductor.ir.scalar import Scalar, index_value, lift, masked, prim, reduce
from inductor.ir.tensor import Cost, TensorValue
from inductor.lowerings.alignment import in_aligned_rows
from inductor.lowerings.fallback import fallback
from inductor.lowerings.registry import broadcast, by_library, lowering
from symshapes import FloorDiv, Mod, ambient

Element = Callable[[list[Expr], list[Expr]], Scalar]
"""From the index of an element and of the steps behind it to its value."""

FEW_ROWS = 24
SMALL = 1 << 16
"""Of few rows putting a matrix of more elements in order would take as long as multiplying by it."""
LEAST_SUMMED = 64
"""Steps of a product of one row: of fewer, neighbours in memory would not be read together."""
MOST_POINTS = 390_000
"""Results of a convolution by channels that each reads. Of more ATen's no longer loses by putting weights in order at each call; its
kernel is the faster one, with neighbours by some hundredths, without (strides) by more."""
FEW_CHANNELS = 16
"""With fewer channels the way to each tap's takes as long as what is done with them, and so few results fill half of a panel."""
MOST_TAPS = 81
"""Of a convolution that is printed by blocks: each of its points has the addresses of all taps in a table."""
MOST_SCATTERED = 1 << 18
"""Elements of a transposed convolution's weight. Results that lie in different parts of cells read it one tap of several at a time;
of more its lines do not stay in the second-level cache from one part to the next."""


@lowering("mm", "bmm", reads_memory=True)
def _product(builder: Builder, self: TensorValue, mat2: TensorValue) -> Any:
    made = contracted(builder, self, mat2, lambda total, _: total)
    return product_by_library(builder, self, mat2) if made is NotImplemented else made


@lowering("addmm", "baddbmm", reads_memory=True)
def _product_and_sum(
    builder: Builder, self: TensorValue, mat1: TensorValue, mat2: TensorValue, *, beta: Any = 1, alpha: Any = 1
) -> Any:
    size = builder.sizes(builder.meta().size())
    # What is scaled by zero is not read: it may be NaN. ATen's kernels look whether it is zero at each call.
    known = all(isinstance(scale, int | float) for scale in (alpha, beta)) and alpha != 0
    if not known or not _is_own(builder, mat1, mat2):
        return sum_by_library(builder, self, mat1, mat2, beta=beta, alpha=alpha)
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


@by_library("mm", "bmm")
def product_by_library(builder: Builder, self: TensorValue, mat2: TensorValue) -> Any:
    """The library's product."""
    return in_aligned_rows(builder, (self, mat2))


@by_library("addmm", "baddbmm")
def sum_by_library(
    builder: Builder, self: TensorValue, mat1: TensorValue, mat2: TensorValue, *, beta: Any = 1, alpha: Any = 1
) -> Any:
    """The library's sum with a product."""
    return in_aligned_rows(builder, (self, mat1, mat2), {"beta": beta, "alpha": alpha})


@lowering("convolution", reads_memory=True)
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
    """Of images with channels last: the sum over channels and taps of what lies there, nothing outside of the image, times weights."""
    if bias is not None and builder.traits(input.device).adds_bias_apart:
        rest = (stride, padding, dilation, transposed, output_padding, groups)
        return _biased(builder, (input, weight, None, *rest), bias)
    if weight.dtype not in builder.traits(weight.device).convolutions:
        return NotImplemented
    if transposed:
        return _transposed(builder, input, weight, bias, stride, padding, dilation, groups)
    plain = {*weight.size[2:], *stride} == {1} and not any(padding)
    if groups != 1 or not (plain or _is_known(builder, weight, input)):
        return NotImplemented
    batch, channels, *image = input.size
    _, results, *points = builder.sizes(builder.meta().size())
    taps = weight.size[2:]
    rows, depth = product((batch, *points)), product((channels, *taps))
    if not gains(builder, weight, rows, depth, results) or not (plain or rows * channels <= MOST_POINTS):
        return NotImplemented
    if not _has_channels_last(builder, input):
        return NotImplemented
    weight = strided(builder, weight)
    steps, pads, apart = (_each(value, len(taps)) for value in (stride, padding, dilation))

    def body(outer: list[Expr], inner: list[Expr]) -> Scalar:
        at, result, *point = outer
        channel, *tap = inner
        places = [p * s + t * d - pad for p, s, t, d, pad in zip(point, steps, tap, apart, pads, strict=True)]
        tests: list[Scalar] = []
        for dim, (place, size) in enumerate(zip(places, image, strict=True)):
            if pads[dim] > 0:
                tests.append(prim.ge(index_value(place), 0))
            if not plain and (points[dim] - 1) * steps[dim] + (taps[dim] - 1) * apart[dim] - pads[dim] >= size:
                tests.append(prim.lt(index_value(place), int(size)))

        value = _inside(tests, lambda: input.load([at, channel, *places]))
        total = reduce("sum", value * weight.load([result, channel, *tap]))
        return total if bias is None else total + bias.load([result])

    made = _summed(builder, [channels, *taps], body)
    return made if plain else _if_printed(builder, made)


@by_library("convolution")
def convolution_by_library(
    builder: Builder, input: TensorValue, weight: TensorValue, bias: TensorValue | None, *rest: Any
) -> Any:
    """The library's convolution."""
    if bias is None or not builder.traits(input.device).adds_bias_apart:
        return NotImplemented
    return _biased(builder, (input, weight, None, *rest), bias)


def _biased(builder: Builder, args: tuple[Any, ...], bias: TensorValue) -> TensorValue:
    """The library's convolution without its bias, and the sum with it."""
    assert builder.node is not None
    made = fallback(builder, builder.node.target, args, {})
    summed = builder.pointwise(
        made.device,
        made.dtype,
        made.size,
        lambda index: made.load(index) + bias.load([index[1]]),
        made.cost + bias.cost + Cost(1),
    )
    summed.source.stride = builder.sizes(builder.meta().stride())
    return summed


def _if_printed(builder: Builder, made: TensorValue) -> Any:
    """What the last loop makes, if it is one that is printed by blocks. It is not with weights that are the same for all results;
    nor where the pass that knows what masked loads are is disabled."""
    loop = builder.program.operations[-1]
    if isinstance(loop, LoopOp) and contraction_of(loop.body) is None:
        builder.program.operations.pop()
        del builder.program.buffers[loop.writes[0]]
        return NotImplemented
    return made


def _transposed(
    builder: Builder,
    input: TensorValue,
    weight: TensorValue,
    bias: TensorValue | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
) -> Any:
    """A transposed convolution of images with channels last. Points of the result lie in cells, `stride` of them between two points
    of the image; those at one part of their cells meet every `stride`th tap of the weight, as points of a convolution do all."""
    if groups != 1 or not _is_known(builder, weight, input):
        return NotImplemented
    taps = [int(size) for size in weight.size[2:]]
    steps, pads, apart = (_each(value, len(taps)) for value in (stride, padding, dilation))
    batch, channels, *image = input.size
    _, results, *points = builder.sizes(builder.meta().size())
    if any(n % s or t % s or (s > 1 and d > 1) for n, t, s, d in zip(points, taps, steps, apart, strict=True)):
        return NotImplemented
    cells = [n / s for n, s in zip(points, steps, strict=True)]
    met = [sympy.Integer(t // s) for t, s in zip(taps, steps, strict=True)]
    rows, depth = product((batch, *points)), product((channels, *met))
    if (
        not gains(builder, weight, rows, depth, results)
        or (depth != channels and product((batch, channels, *cells)) > MOST_POINTS)
        or product(weight.size) > MOST_SCATTERED
    ):
        return NotImplemented
    if not _has_channels_last(builder, input):
        return NotImplemented
    weight = strided(builder, weight)

    def body(outer: list[Expr], inner: list[Expr]) -> Scalar:
        (at, *place, result), (channel, *tap) = outer, inner
        places, reached, tests = [], [], list[Scalar]()
        for dim, (cell, part, step) in enumerate(zip(place[::2], place[1::2], steps, strict=True)):
            whole, rest = divmod(pads[dim], step)
            first = cell + whole
            if rest:
                first, part = first + FloorDiv(part + rest, sympy.Integer(step)), Mod(part + rest, sympy.Integer(step))
            reach = (met[dim] - 1) * apart[dim]
            places.append(first - tap[dim] * apart[dim])
            reached.append(part + tap[dim] * step)
            if reach > whole:
                tests.append(prim.ge(index_value(places[dim]), 0))
            if points[dim] + pads[dim] > image[dim] * step:
                tests.append(prim.lt(index_value(places[dim]), int(image[dim])))

        value = _inside(tests, lambda: input.load([at, channel, *places]))
        total = reduce("sum", value * weight.load([channel, result, *reached]))
        return total if bias is None else total + bias.load([result])

    out = builder.meta()
    buffer = builder.new_buffer(out.device, out.dtype, builder.sizes(out.size()), builder.sizes(out.stride()))

    def store(outer: list[Expr], inner: list[Expr]) -> None:
        at, *place, result = outer
        to = [cell * step + part for cell, part, step in zip(place[::2], place[1::2], steps, strict=True)]
        builder.store(buffer, [at, result, *to], body(outer, inner))

    parts = [size for cell, step in zip(cells, steps, strict=True) for size in (cell, sympy.Integer(step))]
    builder.loop(store, writes=(buffer,), outer=[batch, *parts, results], inner=[channels, *met])
    return _if_printed(builder, builder.in_memory(buffer))


def _inside(tests: Sequence[Scalar], element: Callable[[], Scalar]) -> Scalar:
    """The element where all tests hold, and zero elsewhere."""
    return masked(functools.reduce(operator.and_, tests), element, 0) if tests else element()


def _has_channels_last(builder: Builder, image: TensorValue) -> bool:
    """Whether the channels of an image lie side by side in memory, where it is put."""
    layout = builder.realize(image).layout()
    return layout is not None and layout.stride[1] == 1


def _each(value: Any, dims: int) -> list[int]:
    """A number for each dimension, of which one alone is for all."""
    return [int(v) for v in value] if len(value) == dims else [int(value[0])] * dims


def _is_known(builder: Builder, weight: TensorValue, input: TensorValue) -> bool:
    """Whether a convolution with neighbours is one that can be printed by blocks: sizes and strides are known, and the channels
    of the image and of the result, not few of them, lie side by side."""
    layout = builder.realize(weight).layout()
    numbers = (*input.size, *weight.size, *(() if layout is None else layout.stride))
    return (
        all(number.is_Integer for number in numbers)
        and bool(product(weight.size[2:]) <= MOST_TAPS)
        and int(input.size[1]) >= FEW_CHANNELS
        and int(builder.meta().size(1)) > FEW_CHANNELS
        and bool(builder.meta().stride(1) == 1)
    )


def contracted(
    builder: Builder, left: TensorValue, right: TensorValue, finish: Callable[[Scalar, list[Expr]], Scalar]
) -> Any:
    """`finish(sum over k of left[..., m, k] * right[..., k, n], [..., m, n])`, with the strides of the node's fake value;
    NotImplemented where ATen's kernel is to do it."""
    if not _is_own(builder, left, right):
        return NotImplemented
    short = left.dtype is torch.float32 and builder.traits(left.device).multiplies_by_library and _multiplies_short()
    left, right = (factor if is_narrow(builder, factor) else strided(builder, factor) for factor in (left, right))

    def body(outer: list[Expr], inner: list[Expr]) -> Scalar:
        *batch, row, column = outer
        factors = left.load([*batch, row, *inner]), right.load([*batch, *inner, column])
        if short:
            factors = prim.tf32(factors[0]), prim.tf32(factors[1])
        return finish(reduce("sum", factors[0] * factors[1]), outer)

    return _summed(builder, [left.size[-1]], body)


def _summed(builder: Builder, depth: Sequence[Expr], body: Element) -> TensorValue:
    """The node's result, with the strides of its fake value: `body(index, steps)` sums over `depth` steps."""
    out = builder.meta()
    return filled(builder, out.device, out.dtype, builder.sizes(out.size()), builder.sizes(out.stride()), depth, body)


def filled(
    builder: Builder,
    device: torch.device,
    dtype: torch.dtype,
    size: tuple[Expr, ...],
    stride: tuple[Expr, ...] | None,
    depth: Sequence[Expr],
    body: Element,
) -> TensorValue:
    """A new buffer, row-major without strides, each of its elements `body(index, steps)` over `depth` steps."""
    buffer = builder.new_buffer(device, dtype, size, stride)
    builder.loop(
        lambda outer, inner: builder.store(buffer, outer, body(outer, inner)),
        writes=(buffer,),
        outer=size,
        inner=depth,
        order=builder.order(buffer.stride),
    )
    return builder.in_memory(buffer)


def _is_own(builder: Builder, left: TensorValue, right: TensorValue) -> bool:
    """Whether the product becomes a loop."""
    return _is_blocked(builder, left, right) or _is_summed(builder, left, right)


def _is_summed(builder: Builder, left: TensorValue, right: TensorValue) -> bool:
    """Whether it is a product of one row or one column with a matrix, whose rows lie in memory as they are summed."""
    *_, rows, depth = left.size
    columns = right.size[-1]
    matrix = left if columns == 1 else right
    if (rows != 1 and columns != 1) or left.dtype not in builder.traits(left.device).summed_rows:
        return False
    if is_empty(left.size) or is_empty(right.size) or builder.hint(depth) < LEAST_SUMMED:
        return False
    dim, place = (-1, -2) if matrix is left else (-2, -1)
    if is_narrow(builder, matrix):
        assert builder.node is not None
        factor = builder.node.args[place]
        # A conversion lies in memory as what it converts.
        return isinstance(factor, fx.Node) and bool(factor.meta["val"].stride(dim) == 1)
    layout = builder.realize(matrix).layout()
    return layout is not None and layout.stride[dim] == 1


def _is_blocked(builder: Builder, left: TensorValue, right: TensorValue) -> bool:
    """Whether it is a product of matrices, of more than a row or a column, that the device prints by blocks."""
    *_, rows, depth = left.size
    if is_empty(left.size) or is_empty(right.size):
        return False
    known = all(size.is_Integer for size in (*left.size, *right.size))
    if builder.traits(left.device).multiplies_by_library and not known:
        return False
    return gains(builder, left, rows, depth, right.size[-1])


def gains(builder: Builder, value: TensorValue, rows: Expr, depth: Expr, columns: Expr) -> bool:
    """Whether the device prints a product of these sizes, of values like this one, by blocks that are worth it."""
    traits = builder.traits(value.device)
    return (
        value.dtype in traits.contractions
        and not any(size == 1 for size in (rows, columns, depth))
        and not is_empty((rows, columns, depth))
        and (
            traits.multiplies_by_library
            or builder.hint(rows) >= FEW_ROWS
            or builder.hint(depth) * builder.hint(columns) <= SMALL
        )
    )


def _multiplies_short() -> bool:
    """Whether the program lets the library read but the leading bits of float32 (`torch.set_float32_matmul_precision`)."""
    chosen = dict(ambient().kernel_choice)
    own = chosen["float32 cublas"]
    return bool((chosen["float32"] if own == "none" else own) == "tf32")


def is_narrow(builder: Builder, value: TensorValue) -> bool:
    """Whether the value is nothing but a conversion of what is narrower in memory, and products on its device read that."""
    source = value.source
    if source.buffer is not None or not builder.traits(value.device).converts_factors:
        return False
    if len(source.origins) != 1 or source.cost.operations or len(source.cost.reads) != 1:
        return False
    return converts_narrow(source.origins[0])


def converts_narrow(node: fx.Node) -> bool:
    """Whether a call is a conversion from a narrower dtype."""
    if node.target is not torch.ops.aten._to_copy.default:
        return False
    (given,) = node.all_input_nodes
    dtype: torch.dtype = given.meta["val"].dtype
    return dtype is not torch.bool and dtype.itemsize < node.meta["val"].dtype.itemsize


def strided(builder: Builder, value: TensorValue) -> TensorValue:
    """The value in memory, at places that are linear in its indices."""
    if builder.realize(value).layout() is None:
        return builder.realize(builder.copy(value))
    return value
