"""Batch, layer, group and RMS norms, and their gradients."""

from collections.abc import Sequence
from typing import Any

import torch

from symshapes.facts import opmath_dtype
from symshapes.rules.copies import like
from symshapes.rules.layout import (
    Size,
    TensorMeta,
    contiguous_strides,
    fresh,
    is_channels_last,
    strides_for,
    suggest_format,
)
from symshapes.rules.registry import rule

Maybe = TensorMeta | None


def _vector(length: Size, like: TensorMeta, dtype: torch.dtype) -> TensorMeta:
    return TensorMeta((length,), (1,), dtype, like.device)


def _formatted(meta: TensorMeta) -> TensorMeta:
    return TensorMeta(meta.size, strides_for(meta.size, suggest_format(meta)), meta.dtype, meta.device)


def _statistics_dtype(input: TensorMeta, weight: Maybe) -> torch.dtype:
    if input.device.type == "cpu":
        # CPU kernels keep statistics in the parameters' dtype.
        return weight.dtype if weight is not None else input.dtype
    return opmath_dtype(input.dtype)


def _batch_norm(input: TensorMeta, weight: Maybe, training: bool) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
    # In evaluation CPU kernels leave the statistics empty, CUDA's leave them unwritten.
    length = input.size[1] if training or input.device.type == "cuda" else 0
    saved = _vector(length, input, _statistics_dtype(input, weight))
    # Evaluation on CUDA is an elementwise loop, which keeps any dense format.
    out = like(input) if input.device.type == "cuda" and not training else _formatted(input)
    return out, saved, saved


@rule("native_batch_norm", "_native_batch_norm_legit")
def native_batch_norm(
    input: TensorMeta, weight: Maybe, bias: Maybe, mean: Maybe, var: Maybe, training: bool, *_: float
) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
    """The result, and mean and inverse deviation of the batch (empty in evaluation)."""
    return _batch_norm(input, weight, training)


@rule("_native_batch_norm_legit.no_stats")
def native_batch_norm_no_stats(
    input: TensorMeta, weight: Maybe, bias: Maybe, training: bool, momentum: float, eps: float
) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
    """Batch norm without running statistics."""
    return _batch_norm(input, weight, training)


@rule("_native_batch_norm_legit_no_training")
def native_batch_norm_no_training(
    input: TensorMeta,
    weight: Maybe,
    bias: Maybe,
    running_mean: TensorMeta,
    running_var: TensorMeta,
    momentum: float,
    eps: float,
) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
    """Batch norm by running statistics alone."""
    return _batch_norm(input, weight, False)


@rule("cudnn_batch_norm")
def cudnn_batch_norm(
    input: TensorMeta,
    weight: TensorMeta,
    bias: Maybe,
    running_mean: Maybe,
    running_var: Maybe,
    training: bool,
    exponential_average_factor: float,
    epsilon: float,
) -> tuple[TensorMeta, TensorMeta, TensorMeta, TensorMeta]:
    """cuDNN's: also a reserve of bytes, whose size only the library knows (taken as empty)."""
    saved = _vector(input.size[1] if training else 0, input, weight.dtype)
    return _formatted(input), saved, saved, _vector(0, input, torch.uint8)


@rule("cudnn_batch_norm_backward")
def cudnn_batch_norm_backward(
    input: TensorMeta, grad_output: TensorMeta, weight: TensorMeta, *_: object
) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
    """Gradients of input, weight and bias."""
    return _formatted(input), like(weight), like(weight)


@rule("_batch_norm_with_update")
def batch_norm_with_update(input: TensorMeta, weight: Maybe, *_: Any) -> tuple[TensorMeta, ...]:
    """Training batch norm that updates the running statistics; the fourth result is cuDNN's reserve."""
    return (*_batch_norm(input, weight, True), _vector(0, input, torch.uint8))


@rule("_batch_norm_with_update_functional")
def batch_norm_with_update_functional(
    input: TensorMeta, weight: Maybe, bias: Maybe, running_mean: TensorMeta, running_var: TensorMeta, *_: float
) -> tuple[TensorMeta, ...]:
    """`_batch_norm_with_update` that gives the new running statistics, too."""
    return (*batch_norm_with_update(input, weight), like(running_mean), like(running_var))


@rule("_batch_norm_no_update")
def batch_norm_no_update(input: TensorMeta, weight: Maybe, *_: Any) -> tuple[TensorMeta, ...]:
    """Evaluation batch norm."""
    return (*_batch_norm(input, weight, False), _vector(0, input, torch.uint8))


@rule("native_batch_norm_backward")
def native_batch_norm_backward(
    grad_out: TensorMeta,
    input: TensorMeta,
    weight: Maybe,
    running_mean: Maybe,
    running_var: Maybe,
    save_mean: Maybe,
    save_invstd: Maybe,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[Maybe, Maybe, Maybe]:
    """Gradients of input, weight and bias, None where not asked for."""
    dtype = weight.dtype if weight is not None else input.dtype
    vector = _vector(input.size[1], input, dtype)
    grad_input, unasked = _formatted(input), None
    if input.device.type == "cuda":
        if not train:
            grad_input = fresh(input.size, input)
        elif is_channels_last(input.size, input.stride) and is_channels_last(grad_out.size, grad_out.stride):
            # The channels-last kernel gives an empty tensor for what was not asked for.
            unasked = _vector(0, input, opmath_dtype(input.dtype))
    return (
        grad_input if output_mask[0] else None,
        vector if output_mask[1] else unasked,
        vector if output_mask[2] else unasked,
    )


@rule("batch_norm_backward")
def batch_norm_backward(
    grad_out: TensorMeta,
    input: TensorMeta,
    weight: TensorMeta,
    running_mean: Maybe,
    running_var: Maybe,
    save_mean: Maybe,
    save_var: Maybe,
    update: bool,
    eps: float,
    output_mask: Sequence[bool],
    reserve: TensorMeta,
) -> tuple[Maybe, Maybe, Maybe]:
    """Gradients of input, weight and bias, None where not asked for."""
    return native_batch_norm_backward(
        grad_out, input, weight, running_mean, running_var, save_mean, save_var, update, eps, output_mask
    )


@rule("native_layer_norm")
def native_layer_norm(
    input: TensorMeta, normalized_shape: Sequence[Size], weight: Maybe, bias: Maybe, eps: float
) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
    """The result, and mean and inverse deviation of each row."""
    inner = len(normalized_shape)
    if list(input.size[len(input.size) - inner :]) != list(normalized_shape):
        raise RuntimeError(
            f"Given normalized_shape={list(normalized_shape)}, expected input with shape [*, "
            f"{', '.join(map(str, normalized_shape))}], but got input of size{list(input.size)}"
        )
    rows = (*input.size[: len(input.size) - inner], *[1] * inner)
    rows_meta = TensorMeta(rows, contiguous_strides(rows), _statistics_dtype(input, weight), input.device)
    return fresh(input.size, input), rows_meta, rows_meta


@rule("native_layer_norm_backward")
def native_layer_norm_backward(
    grad_out: TensorMeta,
    input: TensorMeta,
    normalized_shape: Sequence[Size],
    mean: TensorMeta,
    rstd: TensorMeta,
    weight: Maybe,
    bias: Maybe,
    output_mask: Sequence[bool],
) -> tuple[Maybe, Maybe, Maybe]:
    """Gradients of input, weight and bias, None where not asked for."""
    return (
        fresh(input.size, input) if output_mask[0] else None,
        fresh(weight.size, weight) if output_mask[1] and weight is not None else None,
        fresh(bias.size, bias) if output_mask[2] and bias is not None else None,
    )


@rule("native_group_norm")
def native_group_norm(
    input: TensorMeta, weight: Maybe, bias: Maybe, N: Size, C: Size, HxW: Size, group: Size, eps: float
) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
    """The result, and mean and inverse deviation of each group."""
    size = (N, group)
    dtype = _statistics_dtype(input, weight) if input.device.type == "cpu" else input.dtype
    rows = TensorMeta(size, contiguous_strides(size), dtype, input.device)
    return _formatted(input) if input.device.type == "cpu" else fresh(input.size, input), rows, rows


@rule("native_group_norm_backward")
def native_group_norm_backward(
    grad_out: TensorMeta,
    input: TensorMeta,
    mean: TensorMeta,
    rstd: TensorMeta,
    weight: Maybe,
    N: Size,
    C: Size,
    HxW: Size,
    group: Size,
    output_mask: Sequence[bool],
) -> tuple[Maybe, Maybe, Maybe]:
    """Gradients of input, weight and bias, None where not asked for."""
    vector = _vector(C, input, weight.dtype if weight is not None else input.dtype)
    return (
        _formatted(input) if output_mask[0] else None,
        vector if output_mask[1] else None,
        vector if output_mask[2] else None,
    )


@rule("_fused_rms_norm")
def fused_rms_norm(
    input: TensorMeta, normalized_shape: Sequence[Size], weight: Maybe, eps: float | None
) -> tuple[TensorMeta, TensorMeta]:
    """The result and the inverse root mean square of each row."""
    inner = len(normalized_shape)
    rows = (*input.size[: len(input.size) - inner], *[1] * inner)
    return fresh(input.size, input), TensorMeta(rows, contiguous_strides(rows), opmath_dtype(input.dtype), input.device)


@rule("_fused_rms_norm_backward")
def fused_rms_norm_backward(
    grad_out: TensorMeta,
    input: TensorMeta,
    normalized_shape: Sequence[Size],
    rstd: TensorMeta,
    weight: Maybe,
    output_mask: Sequence[bool],
) -> tuple[Maybe, Maybe]:
    """Gradients of input and weight, None where not asked for."""
    return (
        fresh(input.size, input) if output_mask[0] else None,
        fresh(weight.size, weight) if output_mask[1] and weight is not None else None,
    )
