"""Convolutions and their gradients."""

import functools
from collections.abc import Sequence

import torch

from symshapes import _torch
from symshapes.facts import common_device
from symshapes.rules.layout import (
    Size,
    Sizes,
    TensorMeta,
    contiguous_strides,
    demand,
    fresh,
    is_contiguous,
    strides_for,
    suggest_format,
    sure,
)
from symshapes.rules.registry import rule


def _each(values: Sequence[Size], count: int) -> Sequence[Size]:
    return list(values) * count if len(values) == 1 else values


def _too_short(length: Size, reach: Size) -> RuntimeError:
    return RuntimeError(
        f"Calculated padded input size per channel: ({length}). "
        f"Kernel size: ({reach}). Kernel size can't be greater than actual input size"
    )


def output_size(
    size: Sizes,
    weight: Sizes,
    stride: Sequence[Size],
    padding: Sequence[Size],
    dilation: Sequence[Size],
    transposed: bool,
    output_padding: Sequence[Size],
    groups: Size,
) -> Sizes:
    """(N, C, spatial...) and (O, C / groups, kernel...) to (N, O, spatial...). Raises RuntimeError as eager does."""
    spatial = len(size) - 2
    channels = weight[1] * groups if transposed else weight[0]
    expected = weight[0] if transposed else weight[1] * groups
    if size[1] != expected:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight)}, expected input{list(size)} to have {expected} "
            f"channels, but got {size[1]} channels instead"
        )
    if not transposed and sure(expected == 0):
        channels = 0  # nothing comes of nothing, whatever the weight says
    stride, padding, dilation = _each(stride, spatial), _each(padding, spatial), _each(dilation, spatial)
    output_padding = _each(output_padding, spatial)
    out: list[Size] = [size[0], channels]
    for at in range(spatial):
        reach = dilation[at] * (weight[2 + at] - 1) + 1
        length = size[2 + at]
        if transposed:
            out.append((length - 1) * stride[at] - 2 * padding[at] + reach + output_padding[at])
            continue
        room = length + 2 * padding[at] - reach
        demand(room >= 0, functools.partial(_too_short, length + 2 * padding[at], reach))
        out.append(room // stride[at] + 1)
    return tuple(out)


def kernel_format(input: TensorMeta, weight: TensorMeta) -> torch.memory_format:
    """The memory format the convolution kernels work in: channels-last as soon as one operand is."""
    for meta in (input, weight):
        found = suggest_format(meta)
        if found is not torch.contiguous_format:
            return found
    return torch.contiguous_format


def _as_2d(meta: TensorMeta) -> TensorMeta:
    """A 1-d convolution's operand as a 2-d one's of height 1, which is how the kernels run it."""
    (batch, channels, length), (outer, middle, inner) = meta.size, meta.stride
    return meta._replace(size=(batch, channels, 1, length), stride=(outer, middle, length * inner, inner))


def kernel_strides(size: Sequence[Size], input: TensorMeta, weight: TensorMeta, options: tuple[object, ...]) -> Sizes:
    """Strides of a result of this size that a convolution of `input` and `weight` makes."""
    if len(size) == 3:
        # Eager makes the input contiguous first.
        dense = input if is_contiguous(input.size, input.stride) else fresh(input.size, input)
        flat = _as_2d(dense), _as_2d(weight)
        wide = strides_for((size[0], size[1], 1, size[2]), kernel_format(*flat))
        return (wide[0], wide[1], wide[3])
    memory_format = kernel_format(input, weight)
    if (
        memory_format is torch.channels_last_3d
        and input.device.type == "cpu"
        and _torch.is_slow_conv3d(input, weight, options)
    ):
        return contiguous_strides(size)
    return strides_for(size, memory_format)


@rule("convolution", "convolution_overrideable", "_convolution")
def convolution(
    input: TensorMeta,
    weight: TensorMeta,
    bias: TensorMeta | None,
    stride: Sequence[Size],
    padding: Sequence[Size],
    dilation: Sequence[Size],
    transposed: bool,
    output_padding: Sequence[Size],
    groups: Size,
    *_: bool,
) -> TensorMeta:
    """N-d convolution; an input without a batch dimension is given one of size 1 meanwhile."""
    common_device([input, weight])
    if input.dtype is not weight.dtype:
        raise RuntimeError(f"Input type ({input.dtype}) and weight type ({weight.dtype}) should be the same")
    batched = len(input.size) == len(weight.size)
    size = input.size if batched else (1, *input.size)
    out = output_size(size, weight.size, stride, padding, dilation, transposed, output_padding, groups)
    options = (stride, padding, dilation, transposed, output_padding, groups)
    if not batched:
        return fresh(out[1:], input)
    if sure(size[0] == 0) or sure(size[1] == 0):
        return fresh(out, input)
    return TensorMeta(out, kernel_strides(out, input, weight, options), input.dtype, input.device)


@rule("convolution_backward")
def convolution_backward(
    grad_output: TensorMeta,
    input: TensorMeta,
    weight: TensorMeta,
    bias_sizes: Sequence[Size] | None,
    stride: Sequence[Size],
    padding: Sequence[Size],
    dilation: Sequence[Size],
    transposed: bool,
    output_padding: Sequence[Size],
    groups: Size,
    output_mask: Sequence[bool],
) -> tuple[TensorMeta | None, TensorMeta | None, TensorMeta | None]:
    """Gradients of input, weight and bias, None where not asked for."""
    options = (stride, padding, dilation, transposed, output_padding, groups)

    def shaped(like: TensorMeta) -> TensorMeta:
        return fresh(like.size, like, stride=kernel_strides(like.size, input, weight, options))

    bias_size = (grad_output.size[1],)
    return (
        shaped(input) if output_mask[0] else None,
        shaped(weight) if output_mask[1] else None,
        fresh(bias_size, grad_output) if output_mask[2] else None,
    )
