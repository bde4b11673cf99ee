"""Layer, group, RMS and batch normalization, and their backward formulas.

Statistics are computed in float32 of half-precision inputs and kept in the dtype that eager's kernel keeps them in.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from aotgrad.decompositions.layout import contiguous, has_no_elements, laid_out_like, suggested_format
from aotgrad.decompositions.precision import cast, widen, widen_optional
from aotgrad.decompositions.registry import Maybe, decomposition
from symshapes import opmath_dtype

aten = torch.ops.aten


def moments(x: Tensor, dims: list[int]) -> tuple[Tensor, Tensor]:
    """Mean and biased variance over `dims`, which stay with length 1."""
    mean = aten.mean.dim(x, dims, True)
    centred = x - mean
    return aten.mean.dim(centred * centred, dims, True), mean


def _statistics_dtype(x: Tensor, *parameters: Maybe) -> torch.dtype:
    """The CPU kernels keep statistics in the parameters' dtype, the GPU kernels in the accumulation dtype."""
    if x.device.type != "cpu":
        return opmath_dtype(x.dtype)
    return next((p.dtype for p in parameters if p is not None), x.dtype)


@decomposition(aten.native_layer_norm.default)
def native_layer_norm(
    x: Tensor, normalized_shape: Any, weight: Maybe, bias: Maybe, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / √(variance + eps) over the last dimensions, scaled and moved; the mean and inverse deviation."""
    dims = list(range(x.dim() - len(normalized_shape), x.dim()))
    kept = _statistics_dtype(x, weight, bias)
    if has_no_elements(x):
        return NotImplemented
    wide = contiguous(widen(x))
    variance, mean = moments(wide, dims)
    rstd = aten.rsqrt.default(variance + eps)
    out = (wide - mean) * rstd
    if weight is not None:
        out = out * widen(weight)
    if bias is not None:
        out = out + widen(bias)
    return cast(out, x.dtype), cast(mean, kept), cast(rstd, kept)


@decomposition(aten.native_layer_norm_backward.default)
def native_layer_norm_backward(
    grad: Tensor,
    x: Tensor,
    normalized_shape: Any,
    mean: Tensor,
    rstd: Tensor,
    weight: Maybe,
    bias: Maybe,
    output_mask: list[bool],
) -> tuple[Maybe, Maybe, Maybe]:
    """Gradients of x, weight and bias, as far as `output_mask` asks for them."""
    if has_no_elements(x):
        return NotImplemented
    lead = x.dim() - len(normalized_shape)
    dims = list(range(lead, x.dim()))
    outer = list(range(lead))
    grad_wide, wide = contiguous(widen(grad)), contiguous(widen(x))
    rstd = widen(rstd)
    normal = (wide - widen(mean)) * rstd
    grad_x = grad_weight = grad_bias = None
    if output_mask[0]:
        scaled = grad_wide if weight is None else grad_wide * widen(weight)
        first = aten.mean.dim(scaled, dims, True)
        second = aten.mean.dim(scaled * normal, dims, True)
        grad_x = cast((scaled - first - normal * second) * rstd, x.dtype)
    if output_mask[1] and weight is not None:
        grad_weight = cast(_sum(grad_wide * normal, outer), weight.dtype)
    if output_mask[2] and bias is not None:
        grad_bias = cast(_sum(grad_wide, outer), bias.dtype)
    return grad_x, grad_weight, grad_bias


def _sum(x: Tensor, dims: list[int]) -> Tensor:
    return aten.sum.dim_IntList(x, dims, False) if dims else x


@decomposition(aten.native_group_norm.default)
def native_group_norm(
    x: Tensor, weight: Maybe, bias: Maybe, N: Any, C: Any, HxW: Any, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The normalized (N, C, ...) tensor, its means and inverse deviations by sample and group of channels."""
    if has_no_elements(x):
        return NotImplemented
    kept = _statistics_dtype(x, weight, bias)
    wide = widen(x)
    grouped = aten.view.default(contiguous(wide), [N, group, C // group, HxW])
    variance, mean = moments(grouped, [2, 3])
    rstd = aten.rsqrt.default(variance + eps)
    out = (grouped - mean) * rstd
    if weight is not None:
        out = out * aten.view.default(widen(weight), [1, group, C // group, 1])
    if bias is not None:
        out = out + aten.view.default(widen(bias), [1, group, C // group, 1])
    result = cast(aten.view.default(out, x.shape), x.dtype)
    if x.device.type == "cpu":
        result = laid_out_like(result, _as_suggested(x))
    flat = [N, group]
    return result, cast(aten.view.default(mean, flat), kept), cast(aten.view.default(rstd, flat), kept)


def _as_suggested(x: Tensor) -> Tensor:
    """A tensor like `x` in the memory format that kernels on `x` prefer."""
    return torch.empty(x.shape, dtype=x.dtype, device=x.device, memory_format=suggested_format(x))


@decomposition(aten.native_group_norm_backward.default)
def native_group_norm_backward(
    grad: Tensor,
    x: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Maybe,
    N: Any,
    C: Any,
    HxW: Any,
    group: int,
    output_mask: list[bool],
) -> tuple[Maybe, Maybe, Maybe]:
    """Gradients of x, weight and bias, as far as `output_mask` asks for them."""
    if has_no_elements(x):
        return NotImplemented
    shape = [N, group, C // group, HxW]
    grad_wide = aten.view.default(contiguous(widen(grad)), shape)
    wide = aten.view.default(contiguous(widen(x)), shape)
    rstd = aten.view.default(widen(rstd), [N, group, 1, 1])
    normal = (wide - aten.view.default(widen(mean), [N, group, 1, 1])) * rstd
    grad_x = grad_weight = grad_bias = None
    if output_mask[0]:
        scaled = grad_wide
        if weight is not None:
            scaled = scaled * aten.view.default(widen(weight), [1, group, C // group, 1])
        first = aten.mean.dim(scaled, [2, 3], True)
        second = aten.mean.dim(scaled * normal, [2, 3], True)
        whole = aten.view.default((scaled - first - normal * second) * rstd, x.shape)
        grad_x = cast(whole, x.dtype)
        if x.device.type == "cpu":
            grad_x = laid_out_like(grad_x, _as_suggested(x))
    kept = x.dtype if weight is None else weight.dtype
    if output_mask[1]:
        total = aten.sum.dim_IntList(grad_wide * normal, [0, 3], False)
        grad_weight = cast(aten.view.default(total, [C]), kept)
    if output_mask[2]:
        grad_bias = cast(aten.view.default(aten.sum.dim_IntList(grad_wide, [0, 3], False), [C]), kept)
    return grad_x, grad_weight, grad_bias


def _by_channel(value: Tensor, dim: int) -> Tensor:
    """A vector over channels, to be broadcast against [N, C, ...]."""
    return aten.view.default(value, [1, value.shape[0]] + [1] * (dim - 2))


def _batch_norm(
    x: Tensor,
    weight: Maybe,
    bias: Maybe,
    running_mean: Maybe,
    running_var: Maybe,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The result, and the mean and inverse deviation that it was normalized with, as vectors in float32 or wider.

    Running statistics are updated in place.
    """
    wide = widen(x)
    if training or running_mean is None or running_var is None:
        dims = [0, *range(2, x.dim())]
        variance, mean = moments(wide, dims)
        flat_mean, flat_variance = (aten.view.default(value, [x.shape[1]]) for value in (mean, variance))
        invstd = aten.rsqrt.default(variance + eps)
        flat_invstd = aten.view.default(invstd, [x.shape[1]])
        count: Any = math.prod(x.shape[dim] for dim in dims)
        if running_mean is not None:
            update = momentum * flat_mean + (1 - momentum) * widen(running_mean)
            aten.copy_.default(running_mean, update)
        if running_var is not None:
            unbiased = flat_variance * (count / (count - 1)) if not _is_one(count) else flat_variance * math.nan
            update = momentum * unbiased + (1 - momentum) * widen(running_var)
            aten.copy_.default(running_var, update)
    else:
        flat_mean = widen(running_mean)
        flat_invstd = aten.rsqrt.default(widen(running_var) + eps)
        mean, invstd = _by_channel(flat_mean, x.dim()), _by_channel(flat_invstd, x.dim())
    out = (wide - mean) * invstd
    if weight is not None:
        out = out * _by_channel(widen(weight), x.dim())
    if bias is not None:
        out = out + _by_channel(widen(bias), x.dim())
    return laid_out_like(cast(out, x.dtype), _as_suggested(x)), flat_mean, flat_invstd


def _is_one(count: Any) -> bool:
    return type(count) is int and count == 1


def _nothing(x: Tensor, dtype: torch.dtype) -> Tensor:
    return aten.full.default([0], 0, dtype=dtype, device=x.device)


@decomposition(aten.native_batch_norm.default, aten._native_batch_norm_legit.default)
def native_batch_norm(
    x: Tensor,
    weight: Maybe,
    bias: Maybe,
    running_mean: Maybe,
    running_var: Maybe,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The normalized (N, C, ...) tensor, and the means and inverse deviations by channel; on the CPU nothing but in training."""
    if has_no_elements(x):
        return NotImplemented
    out, mean, invstd = _batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps)
    kept = _statistics_dtype(x, weight, bias, running_mean)
    if not training and x.device.type == "cpu":
        return out, _nothing(x, x.dtype), _nothing(x, x.dtype)
    return out, cast(mean, kept), cast(invstd, kept)


@decomposition(aten._native_batch_norm_legit.no_stats)
def native_batch_norm_without_statistics(
    x: Tensor, weight: Maybe, bias: Maybe, training: bool, momentum: float, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`native_batch_norm` of the batch's own statistics."""
    return native_batch_norm(x, weight, bias, None, None, training, momentum, eps)


# In the following `numbers` are the momentum and epsilon, which come last in each of these ops.


@decomposition(aten._native_batch_norm_legit_no_training.default)
def batch_norm_evaluated(x: Tensor, weight: Any, bias: Any, mean: Tensor, var: Tensor, *numbers: float) -> Any:
    """`native_batch_norm` by running statistics."""
    return native_batch_norm(x, weight, bias, mean, var, False, *numbers)


@decomposition(aten._batch_norm_with_update.default)
def batch_norm_updating(x: Tensor, weight: Any, bias: Any, mean: Tensor, var: Tensor, *numbers: float) -> Any:
    """`native_batch_norm` in training, and an empty reserve for the backward. On the CPU."""
    if has_no_elements(x) or x.device.type != "cpu":
        # What a GPU's kernel reserves for its backward depends on which kernel it is.
        return NotImplemented
    return *native_batch_norm(x, weight, bias, mean, var, True, *numbers), _nothing(x, torch.uint8)


@decomposition(aten._batch_norm_no_update.default)
def batch_norm_fixed(x: Tensor, weight: Any, bias: Any, mean: Tensor, var: Tensor, *numbers: float) -> Any:
    """`native_batch_norm` by running statistics, and an empty reserve. On the CPU."""
    if has_no_elements(x) or x.device.type != "cpu":
        return NotImplemented
    return *native_batch_norm(x, weight, bias, mean, var, False, *numbers), _nothing(x, torch.uint8)


@decomposition(aten.batch_norm_backward.default)
def batch_norm_backward(grad: Tensor, x: Tensor, *rest: Any) -> Any:
    """`native_batch_norm_backward` without the reserve. On the CPU."""
    *given, _reserve = rest
    return native_batch_norm_backward(grad, x, *given) if x.device.type == "cpu" else NotImplemented


@decomposition(aten.cudnn_batch_norm.default)
def cudnn_batch_norm(
    x: Tensor,
    weight: Tensor,
    bias: Maybe,
    running_mean: Maybe,
    running_var: Maybe,
    training: bool,
    exponential_average_factor: float,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`native_batch_norm` with cuDNN's results: statistics in the weight's dtype, an empty reserve."""
    out, mean, invstd = _batch_norm(
        x, weight, bias, running_mean, running_var, training, exponential_average_factor, epsilon
    )
    reserve = aten.full.default([0], 0, dtype=torch.uint8, device=x.device)
    if not training:
        return out, _nothing(x, weight.dtype), _nothing(x, weight.dtype), reserve
    return out, cast(mean, weight.dtype), cast(invstd, weight.dtype), reserve


@decomposition(aten.native_batch_norm_backward.default)
def native_batch_norm_backward(
    grad: Tensor,
    x: Tensor,
    weight: Maybe,
    running_mean: Maybe,
    running_var: Maybe,
    save_mean: Maybe,
    save_invstd: Maybe,
    train: bool,
    eps: float,
    output_mask: list[bool],
) -> tuple[Maybe, Maybe, Maybe]:
    """Gradients of x, weight and bias, as far as `output_mask` asks for them."""
    if has_no_elements(x):
        return NotImplemented
    dim = x.dim()
    dims = [0, *range(2, dim)]
    grad_wide, wide = widen(grad), widen(x)
    if train:
        assert save_mean is not None and save_invstd is not None
        mean, invstd = widen(save_mean), widen(save_invstd)
    else:
        assert running_mean is not None and running_var is not None
        mean, invstd = widen(running_mean), aten.rsqrt.default(widen(running_var) + eps)
    mean, invstd = _by_channel(mean, dim), _by_channel(invstd, dim)
    normal = (wide - mean) * invstd
    total = aten.sum.dim_IntList(grad_wide, dims, True)
    product = aten.sum.dim_IntList(grad_wide * normal, dims, True)
    grad_x = grad_weight = grad_bias = None
    if output_mask[0]:
        scale = invstd if weight is None else invstd * _by_channel(widen(weight), dim)
        if train:
            count: Any = math.prod(x.shape[d] for d in dims)
            whole = (grad_wide - total / count - normal * (product / count)) * scale
        else:
            whole = grad_wide * scale
        grad_x = laid_out_like(cast(whole, x.dtype), _as_suggested(x))
    kept = x.dtype if weight is None else weight.dtype
    if output_mask[1]:
        grad_weight = cast(aten.view.default(product, [x.shape[1]]), kept)
    if output_mask[2]:
        grad_bias = cast(aten.view.default(total, [x.shape[1]]), kept)
    return grad_x, grad_weight, grad_bias


@decomposition(aten.cudnn_batch_norm_backward.default)
def cudnn_batch_norm_backward(
    x: Tensor,
    grad: Tensor,
    weight: Tensor,
    running_mean: Maybe,
    running_var: Maybe,
    save_mean: Maybe,
    save_var: Maybe,
    epsilon: float,
    reserve: Tensor,
) -> Any:
    """`native_batch_norm_backward` for training, with cuDNN's order of arguments."""
    return native_batch_norm_backward(
        grad, x, weight, running_mean, running_var, save_mean, save_var, True, epsilon, [True, True, True]
    )


@decomposition(aten._fused_rms_norm.default)
def fused_rms_norm(x: Tensor, normalized_shape: Any, weight: Maybe, eps: float | None) -> tuple[Tensor, Tensor]:
    """x / √(mean of x² + eps) over the last dimensions, scaled; and the inverse root."""
    dims = list(range(x.dim() - len(normalized_shape), x.dim()))
    wide = contiguous(widen(x))
    if eps is None:
        eps = torch.finfo(opmath_dtype(x.dtype)).eps
    rstd = aten.rsqrt.default(aten.mean.dim(wide * wide, dims, True) + eps)
    out = wide * rstd
    if weight is not None:
        out = out * widen(weight)
    return cast(out, x.dtype), rstd


@decomposition(aten._fused_rms_norm_backward.default)
def fused_rms_norm_backward(
    grad: Tensor, x: Tensor, normalized_shape: Any, rstd: Tensor, weight: Maybe, output_mask: list[bool]
) -> tuple[Maybe, Maybe]:
    """Gradients of x and weight, as far as `output_mask` asks for them."""
    lead = x.dim() - len(normalized_shape)
    dims = list(range(lead, x.dim()))
    grad_wide, wide = contiguous(widen(grad)), contiguous(widen(x))
    normal = wide * rstd
    grad_x = grad_weight = None
    if output_mask[0]:
        weight_wide = widen_optional(weight)
        scaled = grad_wide if weight_wide is None else grad_wide * weight_wide
        grad_x = cast((scaled - normal * aten.mean.dim(scaled * normal, dims, True)) * rstd, x.dtype)
    if output_mask[1] and weight is not None:
        grad_weight = cast(_sum(grad_wide * normal, list(range(lead))), weight.dtype)
    return grad_x, grad_weight
