"""Activation functions and their backward formulas, elementwise."""

from __future__ import annotations

import math
from typing import Any

from inductor.ir.scalar import Scalar, prim, where
from inductor.lowerings.registry import pointwise

_SQRT_HALF = math.sqrt(0.5)
_TANH_SCALE = math.sqrt(2 / math.pi)


@pointwise("relu")
def relu(self: Scalar) -> Scalar:
    return prim.maximum(self, 0)


@pointwise("relu6")
def relu6(self: Scalar) -> Scalar:
    return prim.minimum(prim.maximum(self, 0), 6)


@pointwise("hardtanh")
def hardtanh(self: Scalar, *, min_val: Any = -1, max_val: Any = 1) -> Scalar:
    return prim.minimum(prim.maximum(self, min_val), max_val)


@pointwise("leaky_relu")
def leaky_relu(self: Scalar, *, negative_slope: float = 0.01) -> Scalar:
    return where(prim.gt(self, 0), self, self * negative_slope)


@pointwise("_prelu_kernel")
def prelu_kernel(self: Scalar, weight: Scalar) -> Scalar:
    return where(prim.gt(self, 0), self, self * weight)


@pointwise("elu")
def elu(self: Scalar, *, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Scalar:
    negative = prim.expm1(self * input_scale) * (alpha * scale)
    return where(prim.gt(self, 0), self * scale, negative)


@pointwise("celu")
def celu(self: Scalar, *, alpha: float = 1.0) -> Scalar:
    return where(prim.gt(self, 0), self, prim.expm1(self / alpha) * alpha)


@pointwise("silu")
def silu(self: Scalar) -> Scalar:
    return self * prim.sigmoid(self)


@pointwise("mish")
def mish(self: Scalar) -> Scalar:
    return self * prim.tanh(_softplus(self, 1.0, 20.0))


@pointwise("gelu")
def gelu(self: Scalar, *, approximate: str = "none") -> Scalar:
    if approximate == "none":
        return self * 0.5 * (prim.erf(self * _SQRT_HALF) + 1.0)
    inner = (self + self * self * self * 0.044715) * _TANH_SCALE
    return self * 0.5 * (prim.tanh(inner) + 1.0)


def _softplus(x: Scalar, beta: float, threshold: float) -> Scalar:
    scaled = x if beta == 1 else x * beta
    smooth = prim.log1p(prim.exp(scaled))
    return where(prim.gt(scaled, threshold), x, smooth if beta == 1 else smooth / beta)


@pointwise("softplus")
def softplus(self: Scalar, *, beta: float = 1, threshold: float = 20) -> Scalar:
    return _softplus(self, beta, threshold)


@pointwise("hardsigmoid")
def hardsigmoid(self: Scalar) -> Scalar:
    return prim.minimum(prim.maximum(self + 3.0, 0), 6) / 6.0


@pointwise("hardswish")
def hardswish(self: Scalar) -> Scalar:
    return self * prim.minimum(prim.maximum(self + 3.0, 0), 6) / 6.0


@pointwise("threshold")
def threshold(self: Scalar, *, threshold: Any, value: Any) -> Scalar:
    # Not `self > threshold`: NaN passes.
    return where(prim.le(self, threshold), value, self)


@pointwise("hardshrink")
def hardshrink(self: Scalar, lambd: Scalar) -> Scalar:
    inside = prim.bitwise_and(prim.ge(self, -lambd), prim.le(self, lambd))
    return where(inside, 0, self)


@pointwise("softshrink")
def softshrink(self: Scalar, *, lambd: float = 0.5) -> Scalar:
    shrunk = where(prim.lt(self, -lambd), self + lambd, self * 0.0)
    return where(prim.gt(self, lambd), self - lambd, shrunk)


@pointwise("logit")
def logit(self: Scalar, *, eps: float | None = None) -> Scalar:
    if eps is not None:
        self = prim.minimum(prim.maximum(self, eps), 1.0 - eps)
    return prim.log(self / (1.0 - self))


# Backward


@pointwise("threshold_backward")
def threshold_backward(grad_output: Scalar, self: Scalar, *, threshold: Any) -> Scalar:
    return where(prim.le(self, threshold), 0, grad_output)


@pointwise("sigmoid_backward")
def sigmoid_backward(grad_output: Scalar, output: Scalar) -> Scalar:
    return grad_output * (1.0 - output) * output


@pointwise("tanh_backward")
def tanh_backward(grad_output: Scalar, output: Scalar) -> Scalar:
    return grad_output * (1.0 - output * output)


@pointwise("silu_backward")
def silu_backward(grad_output: Scalar, self: Scalar) -> Scalar:
    gate = prim.sigmoid(self)
    return grad_output * gate * (self * (1.0 - gate) + 1.0)


@pointwise("gelu_backward")
def gelu_backward(grad_output: Scalar, self: Scalar, *, approximate: str = "none") -> Scalar:
    if approximate == "none":
        below = (prim.erf(self * _SQRT_HALF) + 1.0) * 0.5
        density = prim.exp(self * self * -0.5) * (1 / math.sqrt(2 * math.pi))
        return grad_output * (below + self * density)
    square = self * self
    tanh = prim.tanh((self + square * self * 0.044715) * _TANH_SCALE)
    slope = (square * (3 * 0.044715) + 1.0) * _TANH_SCALE
    left = (tanh + 1.0) * 0.5
    return grad_output * (left + self * 0.5 * (1.0 - tanh * tanh) * slope)


@pointwise("leaky_relu_backward")
def leaky_relu_backward(grad_output: Scalar, self: Scalar, *, negative_slope: float) -> Scalar:
    return where(prim.gt(self, 0), grad_output, grad_output * negative_slope)


@pointwise("elu_backward")
def elu_backward(
    grad_output: Scalar,
    self_or_result: Scalar,
    *,
    alpha: float,
    scale: float,
    input_scale: float,
    is_result: bool,
) -> Scalar:
    slope = alpha * scale * input_scale
    if is_result:
        negative = grad_output * input_scale * (self_or_result + alpha * scale)
    else:
        negative = grad_output * slope * prim.exp(self_or_result * input_scale)
    return where(prim.le(self_or_result, 0), negative, grad_output * scale)


@pointwise("hardtanh_backward")
def hardtanh_backward(grad_output: Scalar, self: Scalar, *, min_val: Any, max_val: Any) -> Scalar:
    outside = prim.bitwise_or(prim.le(self, min_val), prim.ge(self, max_val))
    return where(outside, 0, grad_output)


@pointwise("hardsigmoid_backward")
def hardsigmoid_backward(grad_output: Scalar, self: Scalar) -> Scalar:
    inside = prim.bitwise_and(prim.gt(self, -3), prim.lt(self, 3))
    return where(inside, grad_output * (1 / 6), 0)


@pointwise("hardswish_backward")
def hardswish_backward(grad_output: Scalar, self: Scalar) -> Scalar:
    middle = grad_output * (self / 3.0 + 0.5)
    return where(prim.le(self, -3), 0, where(prim.lt(self, 3), middle, grad_output))


@pointwise("softplus_backward")
def softplus_backward(grad_output: Scalar, self: Scalar, *, beta: float, threshold: float) -> Scalar:
    z = prim.exp(self * beta)
    return where(prim.gt(self * beta, threshold), grad_output, grad_output * z / (z + 1.0))


@pointwise("softshrink_backward")
def softshrink_backward(grad_output: Scalar, self: Scalar, lambd: Scalar) -> Scalar:
    inside = prim.bitwise_and(prim.ge(self, -lambd), prim.le(self, lambd))
    return where(inside, 0, grad_output)


@pointwise("hardshrink_backward")
def hardshrink_backward(grad_out: Scalar, self: Scalar, lambd: Scalar) -> Scalar:
    return softshrink_backward(grad_out, self, lambd)


@pointwise("mish_backward")
def mish_backward(grad_output: Scalar, self: Scalar) -> Scalar:
    sigmoid = prim.sigmoid(self)
    tanh = prim.tanh(_softplus(self, 1.0, 20.0))
    return grad_output * (tanh + self * sigmoid * (1.0 - tanh * tanh))
