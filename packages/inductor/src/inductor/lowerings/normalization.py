"""Softmax and layer normalisation as one loop each: reductions and what follows them in the same body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductor.ir.builder import Builder
from inductor.ir.indexing import ZERO, contiguous_strides, is_empty, product
from inductor.ir.operations import Expr
from inductor.ir.scalar import Scalar, convert, lift, prim, reduce
from inductor.ir.tensor import TensorValue
from inductor.lowerings.reductions import moments, number
from inductor.lowerings.registry import lowering
from inductor.lowerings.views import wrap


def along(builder: Builder, values: Sequence[TensorValue], dim: int, formula: Callable[..., Scalar]) -> TensorValue:
    """A tensor like the node's fake value: `formula` of the values' elements, which may reduce along `dim`."""
    out = builder.meta()
    size = builder.sizes(out.size())
    rank = len(size)
    dim = wrap(dim, rank)
    stride = builder.sizes(out.stride())
    if not builder.is_dense(size, stride):
        stride = contiguous_strides(size)
    buffer = builder.new_buffer(out.device, out.dtype, size, stride)
    kept = [d for d in builder.order(stride) if d != dim]

    def body(outer: list[Expr], inner: list[Expr]) -> None:
        index: list[Expr] = [ZERO] * rank
        for d, position in zip(kept, outer, strict=True):
            index[d] = position
        if rank:
            index[dim] = inner[0]
        builder.store(buffer, index, formula(*(value.load(index) for value in values)))

    builder.loop(body, writes=(buffer,), outer=[size[d] for d in kept], inner=[size[dim]] if rank else [])
    return builder.in_memory(buffer)


def _applies(builder: Builder, *values: TensorValue) -> bool:
    return all(value.size and not is_empty(value.size) for value in values)


@lowering("_softmax")
def softmax(builder: Builder, self: TensorValue, dim: int, half_to_float: bool) -> Any:
    if not _applies(builder, self):
        return NotImplemented
    dtype = builder.meta().dtype

    def formula(element: Scalar) -> Scalar:
        value = convert(element, dtype)
        power = prim.exp(value - reduce("max", value))
        return power / reduce("sum", power)

    return along(builder, [self], dim, formula)


@lowering("_log_softmax")
def log_softmax(builder: Builder, self: TensorValue, dim: int, half_to_float: bool) -> Any:
    if not _applies(builder, self):
        return NotImplemented
    dtype = builder.meta().dtype

    def formula(element: Scalar) -> Scalar:
        value = convert(element, dtype)
        shifted = value - reduce("max", value)
        return shifted - prim.log(reduce("sum", prim.exp(shifted)))

    return along(builder, [self], dim, formula)


@lowering("_softmax_backward_data")
def softmax_backward(
    builder: Builder, grad_output: TensorValue, output: TensorValue, dim: int, input_dtype: torch.dtype
) -> Any:
    if not _applies(builder, grad_output, output):
        return NotImplemented

    def formula(grad: Scalar, result: Scalar) -> Scalar:
        weighted = grad * result
        return weighted - result * reduce("sum", weighted)

    return along(builder, [grad_output, output], dim, formula)


@lowering("_log_softmax_backward_data")
def log_softmax_backward(
    builder: Builder, grad_output: TensorValue, output: TensorValue, dim: int, input_dtype: torch.dtype
) -> Any:
    if not _applies(builder, grad_output, output):
        return NotImplemented

    def formula(grad: Scalar, result: Scalar) -> Scalar:
        return grad - prim.exp(result) * reduce("sum", grad)

    return along(builder, [grad_output, output], dim, formula)


@lowering("native_layer_norm")
def native_layer_norm(
    builder: Builder,
    input: TensorValue,
    normalized_shape: Sequence[Any],
    weight: TensorValue | None,
    bias: TensorValue | None,
    eps: float,
) -> Any:
    """One loop for the normalised tensor and the statistics the backward reads."""
    outs = builder.meta()
    if not _applies(builder, input) or any(out.dtype is torch.float64 for out in outs):
        return NotImplemented
    size, rank, kept = input.size, len(input.size), len(input.size) - len(normalized_shape)
    buffers = [
        builder.new_buffer(out.device, out.dtype, builder.sizes(out.size()), builder.sizes(out.stride()))
        for out in outs
    ]
    count = product(size[kept:])
    ones = (ZERO,) * (rank - kept)

    def body(outer: list[Expr], inner: list[Expr]) -> None:
        index = [*outer, *inner]
        element = convert(input.load(index), torch.float32)
        mean, squares = moments(element, count)
        scale = prim.rsqrt(squares / lift(number(count), torch.float32) + eps)
        result = (element - mean) * scale
        if weight is not None:
            result = result * convert(weight.load(inner), torch.float32)
        if bias is not None:
            result = result + convert(bias.load(inner), torch.float32)
        for buffer, place, value in zip(
            buffers, (index, [*outer, *ones], [*outer, *ones]), (result, mean, scale), strict=True
        ):
            builder.store(buffer, place, value)

    builder.loop(body, writes=buffers, outer=size[:kept], inner=size[kept:])
    return tuple(builder.in_memory(buffer) for buffer in buffers)
