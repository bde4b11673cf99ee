"""Activation functions and their backward formulas."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from aotgrad.decompositions.precision import in_opmath, number, widen
from aotgrad.decompositions.registry import decomposition

aten = torch.ops.aten

SQRT_HALF = math.sqrt(0.5)
TANH_SCALE = math.sqrt(2.0 / math.pi)
TANH_CUBIC = 0.044715


@decomposition(aten.gelu.default)
@in_opmath
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """x Φ(x), Φ the normal distribution; with "tanh" the approximation 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))."""
    if approximate == "tanh":
        inner = TANH_SCALE * (x + TANH_CUBIC * (x * x * x))
        return 0.5 * x * (1 + aten.tanh.default(inner))
    return x * 0.5 * (1 + aten.erf.default(x * SQRT_HALF))


@decomposition(aten.gelu_backward.default)
@in_opmath
def gelu_backward(grad: Tensor, x: Tensor, *, approximate: str = "none") -> Tensor:
    """The gradient of either form of `gelu`."""
    if approximate == "tanh":
        square = x * x
        tanh = aten.tanh.default(TANH_SCALE * (x + TANH_CUBIC * (square * x)))
        slope = 0.5 * x * (1 - tanh * tanh) * (TANH_SCALE * (1 + 3 * TANH_CUBIC * square))
        return grad * (0.5 * (1 + tanh) + slope)
    cdf = 0.5 * (1 + aten.erf.default(x * SQRT_HALF))
    pdf = aten.exp.default(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))
    return grad * (cdf + x * pdf)


@decomposition(aten.silu.default)
@in_opmath
def silu(x: Tensor) -> Tensor:
    """x sigmoid(x)."""
    return x / (1 + aten.exp.default(-x))


@decomposition(aten.silu_backward.default)
@in_opmath
def silu_backward(grad: Tensor, x: Tensor) -> Tensor:
    """The gradient of `silu`: grad sigmoid(x) (1 + x (1 - sigmoid(x)))."""
    gate = 1 / (1 + aten.exp.default(-x))
    return grad * gate * (1 + x * (1 - gate))


@decomposition(aten.mish.default)
@in_opmath
def mish(x: Tensor) -> Tensor:
    """x tanh(log(1 + eˣ))."""
    return x * aten.tanh.default(aten.log1p.default(aten.exp.default(x)))


@decomposition(aten.mish_backward.default)
@in_opmath
def mish_backward(grad: Tensor, x: Tensor) -> Tensor:
    """The gradient of `mish`."""
    gate = aten.sigmoid.default(x)
    tanh = aten.tanh.default(aten.log1p.default(aten.exp.default(x)))
    return grad * (tanh + x * gate * (1 - tanh * tanh))


@decomposition(aten.hardsigmoid.default)
@in_opmath
def hardsigmoid(x: Tensor) -> Tensor:
    """x + 3 clamped to [0, 6], over 6."""
    return aten.clamp.default(x + 3, 0, 6) / 6


@decomposition(aten.hardsigmoid_backward.default)
@in_opmath
def hardsigmoid_backward(grad: Tensor, x: Tensor) -> Tensor:
    """The gradient of `hardsigmoid`: a sixth within (-3, 3), elsewhere 0."""
    return aten.where.ScalarOther((x > -3) & (x < 3), grad * (1.0 / 6.0), 0.0)


@decomposition(aten.hardswish.default)
@in_opmath
def hardswish(x: Tensor) -> Tensor:
    """x times `hardsigmoid` of x."""
    return x * aten.clamp.default(x + 3, 0, 6) / 6


@decomposition(aten.hardswish_backward.default)
@in_opmath
def hardswish_backward(grad: Tensor, x: Tensor) -> Tensor:
    """The gradient of `hardswish`."""
    middle = aten.where.self(x < 3, grad * (x / 3 + 0.5), grad)
    return aten.where.ScalarSelf(x <= -3, 0.0, middle)


@decomposition(aten.hardtanh.default)
def hardtanh(x: Tensor, min_val: Any = -1, max_val: Any = 1) -> Tensor:
    """x clamped to [min_val, max_val]."""
    if not x.is_floating_point():
        return NotImplemented  # bounds that are floats leave integers what they are
    return aten.clamp.default(x, min_val, max_val)


@decomposition(aten.hardtanh_backward.default)
def hardtanh_backward(grad: Tensor, x: Tensor, min_val: Any, max_val: Any) -> Tensor:
    """The gradient of `hardtanh`: 0 at the limits and beyond."""
    return aten.where.ScalarSelf((x <= min_val) | (x >= max_val), 0.0, grad)


@decomposition(aten.leaky_relu.default)
@in_opmath
def leaky_relu(x: Tensor, negative_slope: Any = 0.01) -> Tensor:
    """x where it is positive, else x times the slope."""
    return aten.where.self(x > 0, x, x * negative_slope)


@decomposition(aten.leaky_relu_backward.default)
@in_opmath
def leaky_relu_backward(grad: Tensor, x: Tensor, negative_slope: Any, self_is_result: bool) -> Tensor:
    """The gradient of `leaky_relu`; a result has the sign of its input, so either may be given."""
    return aten.where.self(x > 0, grad, grad * negative_slope)


@decomposition(aten.elu.default)
@in_opmath
def elu(x: Tensor, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Tensor:
    """scale x where x > 0, else scale alpha (exp(input_scale x) - 1)."""
    return aten.where.self(x <= 0, aten.expm1.default(x * input_scale) * (alpha * scale), x * scale)


@decomposition(aten.elu_backward.default)
@in_opmath
def elu_backward(grad: Tensor, alpha: Any, scale: Any, input_scale: Any, is_result: bool, x: Tensor) -> Tensor:
    """The gradient of `elu`, from its input or (`is_result`) its result."""
    negative = alpha * scale
    if is_result:
        below = grad * input_scale * (x + negative)
    else:
        below = grad * (input_scale * negative) * aten.exp.default(x * input_scale)
    return aten.where.self(x <= 0, below, grad * scale)


@decomposition(aten.celu.default)
def celu(x: Tensor, alpha: Any = 1.0) -> Tensor:
    """`elu` with a slope that is smooth at 0."""
    return elu(x, alpha, 1.0, 1.0 / alpha)


@decomposition(aten.softplus.default)
@in_opmath
def softplus(x: Tensor, beta: Any = 1, threshold: Any = 20) -> Tensor:
    """log(1 + exp(beta x)) / beta, or x where beta x is above the threshold."""
    scaled = x * beta
    return aten.where.self(scaled > threshold, x, aten.log1p.default(aten.exp.default(scaled)) / beta)


@decomposition(aten.softplus_backward.default)
@in_opmath
def softplus_backward(grad: Tensor, x: Tensor, beta: Any, threshold: Any) -> Tensor:
    """The gradient of `softplus`."""
    scaled = x * beta
    power = aten.exp.default(scaled)
    return aten.where.self(scaled > threshold, grad, grad * power / (power + 1))


@decomposition(aten.threshold.default)
def threshold(x: Tensor, threshold: Any, value: Any) -> Tensor:
    """`value` where x is not above the threshold, else x."""
    # The kernel converts both numbers to the dtype of `x`.
    threshold, value = number(threshold, x.dtype), number(value, x.dtype)
    return aten.where.ScalarSelf(widen(x) <= threshold, value, x)


@decomposition(aten.threshold_backward.default)
def threshold_backward(grad: Tensor, x: Tensor, threshold: Any) -> Tensor:
    """The gradient of `threshold`, and of relu with threshold 0."""
    return aten.where.ScalarSelf(widen(x) <= threshold, 0, grad)


@decomposition(aten.sigmoid_backward.default)
@in_opmath
def sigmoid_backward(grad: Tensor, y: Tensor) -> Tensor:
    """The gradient of the sigmoid from its result y: grad (1 - y) y. Not for complex numbers."""
    if y.is_complex():
        return NotImplemented
    return grad * (1 - y) * y


@decomposition(aten.tanh_backward.default)
@in_opmath
def tanh_backward(grad: Tensor, y: Tensor) -> Tensor:
    """The gradient of tanh from its result y: grad (1 - y²). Not for complex numbers."""
    if y.is_complex():
        return NotImplemented
    return grad * (1 - y * y)


@decomposition(aten.log_sigmoid_forward.default)
@in_opmath
def log_sigmoid_forward(x: Tensor) -> tuple[Tensor, Tensor]:
    """log sigmoid(x) as min(x, 0) - log(1 + exp(-|x|)), and the power in it as a buffer for the backward."""
    power = aten.exp.default(-aten.abs.default(x))
    return aten.clamp.default(x, None, 0) - aten.log1p.default(power), power


@decomposition(aten.log_sigmoid_backward.default)
@in_opmath
def log_sigmoid_backward(grad: Tensor, x: Tensor, buffer: Tensor) -> Tensor:
    """The gradient of `log_sigmoid_forward`; the buffer is not read, which some devices leave empty."""
    power = aten.exp.default(-aten.abs.default(x))
    share = power / (1 + power)
    return grad * aten.where.self(x < 0, 1 - share, share)


@decomposition(aten.glu.default)
@in_opmath
def glu(x: Tensor, dim: int = -1) -> Tensor:
    """One half of a dimension times the sigmoid of the other."""
    half = x.shape[dim] // 2
    value, gate = _halves(x, dim, half)
    return value * aten.sigmoid.default(gate)


@decomposition(aten.glu_backward.default)
@in_opmath
def glu_backward(grad: Tensor, x: Tensor, dim: int) -> Tensor:
    """The gradient of `glu` for both halves, joined."""
    half = x.shape[dim] // 2
    value, gate = _halves(x, dim, half)
    share = aten.sigmoid.default(gate)
    first = grad * share
    return aten.cat.default([first, first * value * (1 - share)], dim)


def _halves(x: Tensor, dim: int, half: Any) -> tuple[Tensor, Tensor]:
    return aten.slice.Tensor(x, dim, 0, half), aten.slice.Tensor(x, dim, half, half + half)


@decomposition(aten.hardshrink.default)
def hardshrink(x: Tensor, lambd: Any = 0.5) -> Tensor:
    """0 within [-lambd, lambd], else x."""
    return aten.where.ScalarSelf((x >= -lambd) & (x <= lambd), 0, x)


@decomposition(aten.hardshrink_backward.default, aten.softshrink_backward.default)
def shrink_backward(grad: Tensor, x: Tensor, lambd: Any) -> Tensor:
    """The gradient of `hardshrink` and `softshrink`."""
    return aten.where.ScalarSelf((x >= -lambd) & (x <= lambd), 0, grad)


@decomposition(aten.softshrink.default)
@in_opmath
def softshrink(x: Tensor, lambd: Any = 0.5) -> Tensor:
    """x moved towards 0 by lambd, 0 within [-lambd, lambd]."""
    # Multiplying by zero keeps NaN. Of a bool, which may not be subtracted, the negative is a number.
    return aten.where.self(x > lambd, x + -lambd, aten.where.self(x < -lambd, x + lambd, x * 0))


@decomposition(aten._prelu_kernel.default)
@in_opmath
def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """x where it is positive, else x times the weight, which broadcasts."""
    return aten.where.self(x > 0, x, weight * x)


@decomposition(aten._prelu_kernel_backward.default)
@in_opmath
def prelu_backward(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of x and of the weight, this one before it is summed to the weight's size."""
    return aten.where.self(x > 0, grad, weight * grad), aten.where.ScalarSelf(x > 0, 0.0, x * grad)


@decomposition(aten.logit.default)
@in_opmath
def logit(x: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), x first clamped to [eps, 1 - eps] if eps is given."""
    if not x.is_floating_point():
        return NotImplemented
    if eps is not None:
        x = aten.clamp.default(x, eps, 1 - eps)
    return aten.log.default(x / (1 - x))


@decomposition(aten.logit_backward.default)
@in_opmath
def logit_backward(grad: Tensor, x: Tensor, eps: float | None = None) -> Tensor:
    """The gradient of `logit`: outside its domain 0 with eps, else NaN."""
    slope = grad / (x * (1 - x))
    if eps is not None:
        return aten.where.ScalarOther((x >= eps) & (x <= 1 - eps), slope, 0.0)
    return aten.where.ScalarOther((x >= 0) & (x <= 1), slope, math.nan)
