"""Pointwise ops that are a few simpler ones."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from aotgrad.decompositions.layout import contiguous, laid_out_like
from aotgrad.decompositions.precision import cast, in_opmath, number, widen
from aotgrad.decompositions.registry import decomposition
from symshapes import opmath_dtype

aten = torch.ops.aten


def _one_dtype(*tensors: Tensor) -> bool:
    return len({t.dtype for t in tensors}) == 1


@decomposition(aten.addcmul.default)
def addcmul(x: Tensor, first: Tensor, second: Tensor, *, value: Any = 1) -> Tensor:
    """x + value first second."""
    if not _one_dtype(x, first, second):
        return NotImplemented
    if not (x.is_floating_point() or x.is_complex()):
        value = number(value, x.dtype)  # as the kernel has it, which computes in integers
    product = widen(first) * widen(second)
    return cast(widen(x) + (product if _is_one(value) else value * product), x.dtype)


@decomposition(aten.addcdiv.default)
def addcdiv(x: Tensor, first: Tensor, second: Tensor, *, value: Any = 1) -> Tensor:
    """x + value first / second."""
    if not _one_dtype(x, first, second) or not x.is_floating_point():
        return NotImplemented
    above = widen(first)
    return cast(widen(x) + (above if _is_one(value) else value * above) / widen(second), x.dtype)


def _is_one(value: Any) -> bool:
    return type(value) in (int, float) and value == 1


@decomposition(aten.lerp.Scalar)
@in_opmath
def lerp_scalar(start: Tensor, end: Tensor, weight: Any) -> Tensor:
    """start + weight (end - start). Not for complex numbers."""
    if start.is_complex() or isinstance(weight, complex):
        return NotImplemented
    # The nearer end is the base, so that weights 0 and 1 give the ends exactly.
    if abs(weight) < 0.5:
        return start + weight * (end - start)
    return end - (end - start) * (1 - weight)


@decomposition(aten.lerp.Tensor)
@in_opmath
def lerp_tensor(start: Tensor, end: Tensor, weight: Tensor) -> Tensor:
    """start + weight (end - start), with a weight for each element. Not for complex numbers."""
    if start.is_complex():
        return NotImplemented
    near = start + weight * (end - start)
    return aten.where.self(aten.abs.default(weight) < 0.5, near, end - (end - start) * (1 - weight))


@decomposition(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(x: Tensor, other: Any, alpha: Any = 1) -> Tensor:
    """other - alpha x."""
    if isinstance(other, Tensor):
        return aten.sub.Tensor(other, x, alpha=alpha)
    if not _is_one(alpha) or x.is_complex() or isinstance(other, complex) or x.dtype == torch.bool:
        return NotImplemented
    if isinstance(other, float | torch.SymFloat) and not x.dtype.is_floating_point:
        # An integer's negative may be beyond its dtype.
        return aten.add.Tensor(aten.mul.Tensor(x, -1.0), other)
    return aten.add.Tensor(aten.neg.default(x), other)


@decomposition(aten.clamp.Tensor)
def clamp_tensor(x: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    """`clamp` to bounds that are tensors."""
    if min is not None:
        x = aten.maximum.default(x, min)
    return x if max is None else aten.minimum.default(x, max)


@decomposition(aten.clamp_min.Tensor)
def clamp_min_tensor(x: Tensor, min: Tensor) -> Tensor:
    """`clamp` from below by a tensor."""
    return aten.maximum.default(x, min)


@decomposition(aten.clamp_max.Tensor)
def clamp_max_tensor(x: Tensor, max: Tensor) -> Tensor:
    """`clamp` from above by a tensor."""
    return aten.minimum.default(x, max)


@decomposition(aten.frac.default)
def frac(x: Tensor) -> Tensor:
    """x without its integer part; it has the sign of x."""
    return x - aten.trunc.default(x)


@decomposition(aten.sinc.default)
def sinc(x: Tensor) -> Tensor:
    """sin(πx) / (πx), 1 at 0."""
    if not x.is_floating_point():
        return NotImplemented
    wide = widen(x)
    angle = wide * math.pi
    return cast(aten.where.ScalarSelf(wide == 0, 1.0, aten.sin.default(angle) / angle), x.dtype)


@decomposition(aten.deg2rad.default)
def deg2rad(x: Tensor) -> Tensor:
    """Degrees as radians."""
    return NotImplemented if not x.is_floating_point() else x * (math.pi / 180)


@decomposition(aten.rad2deg.default)
def rad2deg(x: Tensor) -> Tensor:
    """Radians as degrees."""
    return NotImplemented if not x.is_floating_point() else x * (180 / math.pi)


@decomposition(aten.masked_fill.Scalar)
def masked_fill(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`value` where the mask is true, else x: eager fills a contiguous copy of the broadcast x."""
    if isinstance(value, complex) and not x.is_complex():
        return NotImplemented
    return _filled(x, mask, value)


@decomposition(aten.masked_fill.Tensor)
def masked_fill_tensor(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    """`masked_fill` by a tensor of no dimensions."""
    if value.dim() > 0:
        return NotImplemented
    if value.dtype != x.dtype:
        value = aten._to_copy.default(value, dtype=x.dtype)
    if value.device != x.device:
        value = aten._to_copy.default(value, device=x.device)
    return contiguous(aten.where.self(mask, value, x))


def _filled(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    fill = aten.full.default([], number(value, x.dtype), dtype=x.dtype, device=x.device)
    return contiguous(aten.where.self(mask, fill, x))


@decomposition(aten.nan_to_num.default)
def nan_to_num(x: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """x with other numbers for NaN and the infinities: by default 0 and the largest and smallest of the dtype."""
    if not x.is_floating_point():
        return NotImplemented
    limits = torch.finfo(x.dtype)
    largest = limits.max if posinf is None else posinf
    smallest = limits.min if neginf is None else neginf
    out = aten.where.ScalarSelf(aten.isnan.default(x), 0.0 if nan is None else nan, x)
    out = aten.where.ScalarSelf(out == math.inf, largest, out)
    return aten.where.ScalarSelf(out == -math.inf, smallest, out)


@decomposition(aten.xlogy.Tensor)
def xlogy(x: Tensor, other: Tensor) -> Tensor:
    """x log(other): 0 where x is 0, unless other is NaN."""
    if not (x.is_floating_point() and x.dtype == other.dtype):
        return NotImplemented
    wide, other_wide = widen(x), widen(other)
    return cast(_product(wide, aten.log.default(other_wide), other_wide), x.dtype)


@decomposition(aten.logaddexp.default)
def logaddexp(x: Tensor, other: Tensor) -> Tensor:
    """log(eˣ + eʸ) as the larger plus log(1 + exp(-|x - y|))."""
    if not (x.is_floating_point() and x.dtype == other.dtype):
        return NotImplemented
    wide, other_wide = widen(x), widen(other)
    largest = aten.maximum.default(wide, other_wide)
    rest = aten.log1p.default(aten.exp.default(-aten.abs.default(wide - other_wide)))
    infinite = (wide == other_wide) & (aten.abs.default(wide) == math.inf)
    return cast(laid_out_like(aten.where.self(infinite, wide, largest + rest), largest), x.dtype)


@decomposition(aten.native_dropout.default)
def native_dropout(x: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """x / (1 - p) where a random number keeps it, else 0; and the mask. Numbers are drawn as eager's kernel on the CPU does."""
    if x.device.type != "cpu" or not x.is_floating_point():
        # Another device's kernel draws a stream of its own, which no other op repeats.
        return NotImplemented
    if not (train is None or train) or x.numel() == 0:
        return aten.clone.default(x), aten.full.default(x.shape, True, dtype=torch.bool, device=x.device)
    if p == 1:
        return aten.full_like.default(x, 0), aten.full_like.default(x, False, dtype=torch.bool)
    drawn = aten.bernoulli.p(aten.empty_like.default(x, dtype=torch.bool), 1 - p)
    return x * drawn * (1.0 / (1.0 - p)), drawn


@decomposition(aten.native_dropout_backward.default)
def native_dropout_backward(grad: Tensor, mask: Tensor, scale: float) -> Tensor:
    """The gradient where the mask kept it, scaled."""
    if not grad.is_floating_point():
        return grad * mask * scale  # of floats, by the scale
    return cast(widen(grad) * (cast(mask, opmath_dtype(grad.dtype)) * scale), grad.dtype)


@decomposition(aten.floor_divide.default)
def floor_divide(x: Tensor, other: Tensor) -> Tensor:
    """The quotient rounded down."""
    return aten.div.Tensor_mode(x, other, rounding_mode="floor")


@decomposition(aten.logaddexp2.default)
def logaddexp2(x: Tensor, other: Tensor) -> Tensor:
    """log₂(2ˣ + 2ʸ) as the larger plus log₂(1 + 2^-|x - y|)."""
    if not _one_dtype(x, other) or not x.is_floating_point():
        return NotImplemented
    wide, other_wide = widen(x), widen(other)
    high = aten.maximum.default(wide, other_wide)
    gap = aten.log1p.default(aten.exp2.default(-aten.abs.default(wide - other_wide))) * (1 / math.log(2))
    same = aten.bitwise_and.Tensor(aten.isinf.default(wide), wide == other_wide)  # whose difference is NaN
    return cast(laid_out_like(aten.where.self(same, wide, high + gap), high), x.dtype)


@decomposition(aten.angle.default)
def angle(x: Tensor) -> Tensor:
    """Of real numbers: 0, π of negative ones; NaN of NaN."""
    if not x.is_floating_point():
        return NotImplemented
    half_turn = aten.where.ScalarOther(
        aten.lt.Scalar(x, 0), aten.full.default([], math.pi, dtype=x.dtype, device=x.device), 0.0
    )
    return aten.where.self(aten.isnan.default(x), x, half_turn)


@decomposition(aten.round.decimals)
@in_opmath
def round_decimals(x: Tensor, *, decimals: int) -> Tensor:
    """The nearest multiple of a power of ten, with ties to even ones."""
    if not x.is_floating_point():
        return NotImplemented
    if decimals == 0:
        return aten.round.default(x)
    scale = float(10 ** abs(decimals))
    if decimals > 0:
        return aten.round.default(x * scale) / scale
    return aten.round.default(x / scale) * scale


@decomposition(aten.special_xlog1py.default)
def xlog1py(x: Tensor, other: Tensor) -> Tensor:
    """x log(1 + other): 0 where x is 0, unless other is NaN."""
    if not (x.is_floating_point() and x.dtype == other.dtype):
        return NotImplemented
    wide, other_wide = widen(x), widen(other)
    return cast(_product(wide, aten.log1p.default(other_wide), other_wide), x.dtype)


def _product(x: Tensor, function: Tensor, of: Tensor) -> Tensor:
    """x times a function of a number, 0 where x is 0, unless that number is NaN; in the strides of the product."""
    product = x * function
    zero = aten.bitwise_and.Tensor(x == 0, aten.logical_not.default(aten.isnan.default(of)))
    return laid_out_like(aten.where.ScalarSelf(zero, 0.0, product), product)


@decomposition(aten.special_entr.default)
def entr(x: Tensor) -> Tensor:
    """-x log(x); 0 at 0 and minus infinity below."""
    if not x.is_floating_point():
        return NotImplemented
    wide = widen(x)
    inside = aten.where.ScalarSelf(wide == 0, 0.0, -wide * aten.log.default(wide))
    return cast(aten.where.ScalarSelf(wide < 0, -math.inf, inside), x.dtype)


@decomposition(aten.ldexp.Tensor)
def ldexp(x: Tensor, other: Tensor) -> Tensor:
    """x times two to the power of `other`. Where that is a whole number and x a float of at most 32 bits, the power alone may be too
    large, or too small, for the dtype of x: not so in 64."""
    if x.is_complex() or other.is_complex():
        return NotImplemented
    if not x.is_floating_point() or other.is_floating_point():
        return x * aten.pow.Scalar(2.0, other)
    if x.dtype is torch.float64 or other.dtype is torch.bool:
        return NotImplemented
    # The kernel reads the exponent as 32 bits; beyond 500 every result is 0 or infinite.
    exponent = aten.clamp.default(cast(other, torch.int32), -500, 500)
    return cast(cast(x, torch.float64) * aten.pow.Scalar(2.0, cast(exponent, torch.float64)), x.dtype)
