"""Convolutions and their gradients."""

from collections.abc import Sequence

import torch

from symshapes.rules.layout import (
    Size,
    Sizes,
    TensorMeta,
    fresh,
    strides_for,
    suggest_format,
)
from symshapes.rules.promotion import common_device
from symshapes.rules.registry import rule


def _each(values: Sequence[Size], count: int) -> Sequence[Size]:
    return list(values) * count if len(values) == 1 else values


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
        if room < 0:
            raise RuntimeError(
                f"Calculated padded input size per channel: ({length + 2 * padding[at]}). "
                f"Kernel size: ({reach}). Kernel size can't be greater than actual input size"
            )
        out.append(room // stride[at] + 1)
    return tuple(out)


def kernel_format(input: TensorMeta, weight: TensorMeta) -> torch.memory_format:
    """The memory format the convolution kernels work in: channels-last as soon as one operand is."""
    for meta in (input, weight):
        found = suggest_format(meta)
        if found is not torch.contiguous_format:
            return found
    return torch.contiguous_format


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
    """N-d convolution; an input without batch dimension gets one for the while."""
    common_device([input, weight])
    if input.dtype is not weight.dtype:
        raise RuntimeError(f"Input type ({input.dtype}) and weight type ({weight.dtype}) should be the same")
    batched = len(input.size) == len(weight.size)
    size = input.size if batched else (1, *input.size)
    out = output_size(size, weight.size, stride, padding, dilation, transposed, output_padding, groups)
    if not batched:
        return fresh(out[1:], input)
    return TensorMeta(out, strides_for(out, kernel_format(input, weight)), input.dtype, input.device)


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
    memory_format = kernel_format(input, weight)

    def shaped(like: TensorMeta) -> TensorMeta:
        return TensorMeta(like.size, strides_for(like.size, memory_format), like.dtype, like.device)

    bias_size = (grad_output.size[1],)
    return (
        shaped(input) if output_mask[0] else None,
        shaped(weight) if output_mask[1] else None,
        fresh(bias_size, grad_output) if output_mask[2] else None,
    )
