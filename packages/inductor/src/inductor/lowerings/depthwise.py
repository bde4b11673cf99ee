"""Convolutions of channels, each by itself: sums over windows, where the device prints those so that neighbours share what
they read; elsewhere ATen's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inductor.ir.builder import Builder
from inductor.ir.indexing import ONE, ZERO, is_empty, product
from inductor.ir.operations import Expr
from inductor.ir.scalar import Scalar, index_value, masked, prim, reduce
from inductor.ir.tensor import TensorValue

FARTHEST = 12
"""Places that a window may reach beyond its first: what is at the border is printed apart."""


def depthwise(
    builder: Builder,
    input: TensorValue,
    weight: TensorValue,
    bias: TensorValue | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Any:
    """Of images with channels last, as many groups as channels; NotImplemented where ATen's kernel is to do it."""
    out = builder.meta()
    size = builder.sizes(out.size())
    if not _gains(builder, input, weight, size, stride, padding, dilation):
        return NotImplemented
    layout = builder.realize(input).layout()
    if layout is None or layout.stride[1] != 1 or out.stride(1) != 1:
        return NotImplemented
    channels, _, *taps = weight.size
    weight = builder.realize(builder.copy(weight, (ONE, channels, taps[1] * channels, channels)))
    points = input.size[2:]

    def body(outer: list[Expr], inner: list[Expr]) -> Scalar:
        at, channel, *place = outer
        reads = [p * s + i * d - pad for p, s, i, d, pad in zip(place, stride, inner, dilation, padding, strict=True)]

        def term() -> Scalar:
            return input.load([at, channel, *reads]) * weight.load([channel, ZERO, *inner])

        inside: Scalar | None = None
        for dim in range(2):
            if padding[dim]:
                value = index_value(reads[dim])
                test = prim.ge(value, 0) & prim.lt(value, int(points[dim]))
                inside = test if inside is None else inside & test
        total = reduce("sum", term() if inside is None else masked(inside, term, 0.0))
        return total if bias is None else total + bias.load([channel])

    strides = builder.sizes(out.stride())
    buffer = builder.new_buffer(out.device, out.dtype, size, strides)
    builder.loop(
        lambda outer, inner: builder.store(buffer, outer, body(outer, inner)),
        writes=(buffer,),
        outer=size,
        inner=taps,
        order=builder.order(strides),
    )
    return builder.in_memory(buffer)


def _gains(
    builder: Builder,
    input: TensorValue,
    weight: TensorValue,
    size: Sequence[Expr],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> bool:
    if weight.dtype not in builder.traits(weight.device).depthwise or len(size) != 4 or is_empty(input.size):
        return False
    if not all(each.is_Integer for each in (*input.size, *weight.size)) or is_empty(size) or size[1] != input.size[1]:
        return False
    taps = [int(each) for each in weight.size[2:]]
    return (
        all(tap > step for tap, step in zip(taps, stride, strict=True))
        and all((tap - 1) * apart <= FARTHEST for tap, apart in zip(taps, dilation, strict=True))
        and all(pad <= (tap - 1) * apart for pad, tap, apart in zip(padding, taps, dilation, strict=True))
        and size[1] > 1
        and size[3] > 1
        and product(taps) > 1
    )
