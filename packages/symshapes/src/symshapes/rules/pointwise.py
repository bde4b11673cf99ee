"""Elementwise ops: one generic rule (broadcast, promote, propagate strides) and tables of which ops it serves."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from symshapes.facts import (
    Operand,
    common_device,
    complex_dtype,
    float_dtype,
    real_dtype,
    result_dtype,
)
from symshapes.rules.layout import (
    Sizes,
    TensorMeta,
    broadcast,
    channels_last_strides,
    contiguous_strides,
    expand_strides,
    is_channels_last,
    is_contiguous,
    is_dense,
    permutation_by_stride,
    preserved_strides,
    same_shape,
    strides_in_order,
    wrap_dim,
)
from symshapes.rules.numbers import require_alpha
from symshapes.rules.registry import demand, rule


def iterator_strides(size: Sizes, tensors: Sequence[TensorMeta], scalars: bool = False) -> Sizes:
    """Strides of the new output of an elementwise loop over `tensors`, broadcast to `size`.

    `scalars` says that numbers take part too; like a 0-d tensor beside others they rule out the short cuts,
    which differ from the general way in dimensions of length 1.
    """
    if not size:
        return ()
    if not scalars and all(same_shape(meta.size, size) for meta in tensors):
        if all(is_contiguous(size, meta.stride) for meta in tensors):
            return contiguous_strides(size)
        if len(size) == 4 and all(is_channels_last(size, meta.stride) for meta in tensors):
            return channels_last_strides(size)
        first = tensors[0].stride
        if is_dense(size, first) and all(same_shape(meta.stride, first) for meta in tensors[1:]):
            return first
    if len(size) == 1:
        return (1,)
    return strides_in_order(size, permutation_by_stride(size, [expand_strides(m, size) for m in tensors]))


def elementwise(operands: Sequence[Operand], dtype: torch.dtype | None = None) -> TensorMeta:
    """The result of an elementwise op on these operands (numbers and None allowed); dtype None promotes."""
    tensors = [operand for operand in operands if isinstance(operand, TensorMeta)]
    if dtype is None:
        dtype = result_dtype(operands)
    if len(tensors) == 1:
        (only,) = tensors
        size, device = only.size, only.device
    else:
        size = broadcast(*[meta.size for meta in tensors])
        device = common_device(tensors)
    scalars = any(operand is not None and not isinstance(operand, TensorMeta) for operand in operands)
    return TensorMeta(size, iterator_strides(size, tensors, scalars), dtype, device)


def _promoted(operands: Sequence[Operand]) -> TensorMeta:
    return elementwise(operands)


def _floating(operands: Sequence[Operand]) -> TensorMeta:
    return elementwise(operands, float_dtype(result_dtype(operands)))


def _boolean(operands: Sequence[Operand]) -> TensorMeta:
    return elementwise(operands, torch.bool)


def _split(names: str) -> list[str]:
    return names.split()


# (how the dtype follows, how many leading arguments are operands, the ops)
_TABLE: list[tuple[Callable[[Sequence[Operand]], TensorMeta], int, list[str]]] = [
    (
        _floating,
        1,
        _split(
            "acos acosh asin asinh atan atanh cos cosh sin sinh tan tanh exp exp2 expm1 log log10 log1p log2 "
            "rsqrt sqrt sigmoid erf erfc erfinv reciprocal digamma lgamma i0 deg2rad rad2deg sinc logit "
            "special_entr special_ndtri special_log_ndtr special_erfcx special_i0e special_i1 special_i1e "
            "special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1 special_modified_bessel_i0 "
            "special_modified_bessel_i1 special_modified_bessel_k0 special_modified_bessel_k1 "
            "special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 special_spherical_bessel_j0 "
            "special_airy_ai"
        ),
    ),
    (
        _promoted,
        1,
        _split(
            "neg relu ceil floor round round.decimals trunc frac sign sgn positive bitwise_not conj_physical "
            "_conj_physical hardswish hardsigmoid silu mish gelu elu celu selu leaky_relu softplus softshrink hardshrink "
            "threshold hardtanh nan_to_num relu6 square"
        ),
    ),
    (_boolean, 1, _split("isnan isinf isfinite logical_not signbit isposinf isneginf")),
    (
        _promoted,
        2,
        _split(
            "add.Tensor add.Scalar sub.Tensor sub.Scalar rsub.Scalar mul.Tensor mul.Scalar maximum minimum "
            "fmax fmin remainder.Tensor remainder.Scalar remainder.Scalar_Tensor fmod.Tensor fmod.Scalar "
            "bitwise_and.Tensor bitwise_and.Scalar bitwise_and.Scalar_Tensor bitwise_or.Tensor bitwise_or.Scalar "
            "bitwise_or.Scalar_Tensor bitwise_xor.Tensor bitwise_xor.Scalar bitwise_xor.Scalar_Tensor "
            "bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar bitwise_left_shift.Scalar_Tensor "
            "bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar bitwise_right_shift.Scalar_Tensor "
            "__lshift__.Tensor __lshift__.Scalar __rshift__.Tensor __rshift__.Scalar "
            "__and__.Tensor __and__.Scalar __or__.Tensor __or__.Scalar __xor__.Tensor __xor__.Scalar "
            "floor_divide floor_divide.Scalar gcd lcm pow.Tensor_Tensor pow.Tensor_Scalar hypot nextafter "
            "logaddexp logaddexp2 heaviside"
        ),
    ),
    (
        _floating,
        2,
        _split(
            "div.Tensor div.Scalar atan2 copysign.Tensor copysign.Scalar xlogy.Tensor xlogy.Scalar_Other "
            "xlogy.Scalar_Self special_xlog1py special_xlog1py.other_scalar special_xlog1py.self_scalar "
            "special_zeta special_zeta.other_scalar special_zeta.self_scalar igamma igammac ldexp.Tensor"
        )
        + [
            f"special_{name}{scalar}"
            for name in _split(
                "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
                "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
                "shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l "
                "legendre_polynomial_p"
            )
            for scalar in ("", ".x_scalar", ".n_scalar")
        ],
    ),
    (
        _boolean,
        2,
        [f"{name}.{kind}" for name in _split("eq ne lt le gt ge") for kind in ("Tensor", "Scalar")]
        + _split("logical_and logical_or logical_xor"),
    ),
    (
        _promoted,
        2,
        _split(
            "sigmoid_backward tanh_backward gelu_backward silu_backward hardswish_backward "
            "hardsigmoid_backward hardtanh_backward softplus_backward softshrink_backward "
            "hardshrink_backward mish_backward logit_backward"
        ),
    ),
    (_promoted, 3, _split("addcmul addcdiv lerp.Tensor")),
]


def _register(answer: Callable[[Sequence[Operand]], TensorMeta], arity: int, names: list[str]) -> None:
    @rule(*names)
    def pointwise(*args: Any, **kwargs: Any) -> TensorMeta:
        # Arguments past the operands (alpha, negative_slope, approximate) do not shape the result.
        return answer(_operands(args[:arity]))


def _operands(values: Sequence[Any]) -> list[Operand]:
    """Numbers count only where a tensor or another operand stands: None does not."""
    return [value for value in values if value is not None]


for _answer, _arity, _names in _TABLE:
    _register(_answer, _arity, _names)


@rule("abs")
def abs_(self: TensorMeta) -> TensorMeta:
    """Real for complex numbers, whose result eager makes by empty_like and not by the loop."""
    if self.dtype.is_complex:
        return TensorMeta(self.size, preserved_strides(self), real_dtype(self.dtype), self.device)
    return elementwise([self])


@rule("angle")
def angle(self: TensorMeta) -> TensorMeta:
    """Real and floating; of complex numbers row-major."""
    if self.dtype.is_complex:
        return TensorMeta(self.size, contiguous_strides(self.size), real_dtype(self.dtype), self.device)
    return elementwise([self], float_dtype(self.dtype))


@rule("_prelu_kernel")
def prelu(self: TensorMeta, weight: TensorMeta) -> TensorMeta:
    """In the input's format."""
    return TensorMeta(self.size, preserved_strides(self), self.dtype, self.device)


@rule("_prelu_kernel_backward")
def prelu_backward(grad_output: TensorMeta, self: TensorMeta, weight: TensorMeta) -> tuple[TensorMeta, TensorMeta]:
    """Gradients of input and weight, both in the input's size and format."""
    size = broadcast(self.size, weight.size, grad_output.size)
    if same_shape(size, self.size):
        out = prelu(self, weight)
    else:
        out = elementwise([self, weight, grad_output])
    return out, out


@demand("sub.Tensor", "sub.Scalar", "rsub.Tensor", "rsub.Scalar")
def _sub(self: TensorMeta, other: Operand, alpha: Any = 1) -> None:
    truths = [
        operand.dtype is torch.bool if isinstance(operand, TensorMeta) else isinstance(operand, (bool, torch.SymBool))
        for operand in (self, other)
    ]
    if all(truths):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. "
            "Use the `^` or `logical_xor()` operator instead."
        )
    if any(truths):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. "
            "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
        )
    require_alpha(self, other, alpha, taken=-1)


@demand("relu")
def _relu(self: TensorMeta) -> None:
    if self.dtype is torch.bool:
        raise RuntimeError("Boolean inputs not supported for relu")


@demand("lerp.Scalar", "lerp.Tensor")
def _lerp(self: TensorMeta, end: TensorMeta, weight: Operand) -> None:
    for name, operand in (("end", end), ("weight", weight)):
        if isinstance(operand, TensorMeta) and operand.dtype is not self.dtype and (name == "end" or operand.size):
            raise RuntimeError(f"expected dtype {self.dtype} for `{name}` but got dtype {operand.dtype}")


@demand("heaviside")
def _heaviside(self: TensorMeta, values: TensorMeta) -> None:
    if self.dtype is not values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")


@rule("rsub.Tensor")
def rsub(self: TensorMeta, other: TensorMeta, *, alpha: Any = 1) -> TensorMeta:
    """Subtraction with its operands swapped, which shows in the result's strides."""
    return elementwise([other, self])


@rule("threshold_backward", "leaky_relu_backward")
def backward_input_first(grad_output: TensorMeta, self: TensorMeta, *_: Any) -> TensorMeta:
    """Backward ops whose loop has the input before the gradient, which shows in the result's strides."""
    return elementwise([self, grad_output])


@rule("elu_backward")
def elu_backward(
    grad: TensorMeta, alpha: Any, scale: Any, input_scale: Any, is_result: bool, self_or_result: TensorMeta
) -> TensorMeta:
    """Elementwise over the gradient and what was saved."""
    return elementwise([grad, self_or_result])


@rule("log_sigmoid_forward")
def log_sigmoid_forward(self: TensorMeta) -> tuple[TensorMeta, TensorMeta]:
    """The result and a buffer, which only CPU kernels fill."""
    if self.device.type == "cpu":
        out = TensorMeta(self.size, contiguous_strides(self.size), self.dtype, self.device)
        return out, out
    return elementwise([self]), TensorMeta((0,), (1,), self.dtype, self.device)


@rule("log_sigmoid_backward")
def log_sigmoid_backward(grad: TensorMeta, self: TensorMeta, buffer: TensorMeta) -> TensorMeta:
    """In the gradient's format."""
    return TensorMeta(grad.size, preserved_strides(grad), grad.dtype, grad.device)


@rule("div.Tensor_mode", "div.Scalar_mode")
def div_mode(self: TensorMeta, other: Operand, *, rounding_mode: str | None) -> TensorMeta:
    """True division unless a rounding mode keeps integers."""
    operands = [self, other]
    return _floating(operands) if rounding_mode is None else elementwise(operands)


@rule("pow.Scalar")
def pow_scalar(self: Operand, exponent: TensorMeta) -> TensorMeta:
    """Row-major, unlike the other powers."""
    dtype = result_dtype([self, exponent])
    return TensorMeta(exponent.size, contiguous_strides(exponent.size), dtype, exponent.device)


@rule("mvlgamma")
def mvlgamma(self: TensorMeta, p: int) -> TensorMeta:
    """Eager sums over a new last dimension, so the result is row-major."""
    dtype = float_dtype(self.dtype)
    return TensorMeta(self.size, contiguous_strides(self.size), dtype, self.device)


@rule("lerp.Scalar")
def lerp_scalar(self: TensorMeta, end: TensorMeta, weight: Operand) -> TensorMeta:
    """Elementwise over start and end; the weight is a parameter."""
    return elementwise([self, end])


@rule("where.self")
def where(condition: TensorMeta, self: TensorMeta, other: TensorMeta) -> TensorMeta:
    """Elementwise over three operands, of which the values promote."""
    return elementwise([condition, self, other], result_dtype([self, other]))


@rule("where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where_number(condition: TensorMeta, self: Operand, other: Operand) -> TensorMeta:
    """`where` with numbers: eager makes 0-d tensors of them."""
    return elementwise([condition, self, other], result_dtype([self, other]))


@rule("clamp", "clamp.Tensor")
def clamp(self: TensorMeta, min: Operand = None, max: Operand = None) -> TensorMeta:
    """Bounds promote with the input, but numbers no floats."""
    operands = [self, *(bound for bound in (min, max) if bound is not None)]
    tensors = [operand for operand in operands if isinstance(operand, TensorMeta)]
    dtype = result_dtype(tensors if self.dtype.is_floating_point else operands)
    return elementwise(tensors, dtype)


@rule("clamp_min", "clamp_min.Tensor", "clamp_max", "clamp_max.Tensor")
def clamp_one(self: TensorMeta, bound: Operand) -> TensorMeta:
    """`clamp` with one bound."""
    return clamp(self, bound)


@rule("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(self: TensorMeta, mask: TensorMeta, value: Operand) -> TensorMeta:
    """The input's dtype, row-major; sizes broadcast."""
    size = broadcast(self.size, mask.size)
    return TensorMeta(size, contiguous_strides(size), self.dtype, self.device)


@rule("glu")
def glu(self: TensorMeta, dim: int = -1) -> TensorMeta:
    """Halves `dim`; the two halves are the operands of an elementwise loop."""
    dim = wrap_dim(dim, len(self.size))
    if self.size[dim] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {self.size[dim]}")
    size = (*self.size[:dim], self.size[dim] // 2, *self.size[dim + 1 :])
    return elementwise([TensorMeta(size, self.stride, self.dtype, self.device)] * 2)


@rule("glu_backward")
def glu_backward(grad: TensorMeta, self: TensorMeta, dim: int) -> TensorMeta:
    """Like the input, row-major."""
    return TensorMeta(self.size, contiguous_strides(self.size), self.dtype, self.device)


@rule("complex")
def complex_(real: TensorMeta, imag: TensorMeta) -> TensorMeta:
    """Complex numbers out of their parts."""
    return elementwise([real, imag], complex_dtype(real.dtype))


@rule("polar")
def polar(abs: TensorMeta, angle: TensorMeta) -> TensorMeta:
    """Complex numbers out of absolute value and angle."""
    return complex_(abs, angle)


@rule("polygamma")
def polygamma(n: int, self: TensorMeta) -> TensorMeta:
    """A function of the second argument."""
    return _floating([self])
