"""NumPy's ufuncs: for each what computes it over tensors of the dtypes that NumPy's own loop takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .dtypes import fitted, kind_of, loop_of, told_alike

Tensor = torch.Tensor


def _is_whole(a: Tensor) -> bool:
    return not (a.dtype.is_floating_point or a.dtype.is_complex)


def _unless_whole(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Of integers, which are round already, themselves."""
    return lambda a: a.clone() if _is_whole(a) else function(a)


def _quotient(a: Tensor, b: Tensor) -> Tensor:
    """Rounded down; of integers 0 where the divisor is."""
    if not _is_whole(a):
        return torch.div(a, b, rounding_mode="floor")
    if a.dtype in (torch.bool, torch.uint8):
        found = torch.div(a, torch.where(b == 0, 1, b), rounding_mode="floor")
    else:  # the least number by -1 is beyond what a processor divides
        found = torch.div(a, torch.where((b == 0) | (b == -1), 1, b), rounding_mode="floor")
        found = torch.where(b == -1, -a, found)
    return torch.where(b == 0, 0, found).to(a.dtype)


def _rest(a: Tensor, b: Tensor) -> Tensor:
    if not _is_whole(a):
        found = torch.remainder(a, b)
        return torch.where(found == 0, torch.copysign(torch.zeros_like(found), b), found)
    one = b == 0 if a.dtype is torch.uint8 else (b == 0) | (b == -1)
    return torch.where(one, 0, torch.remainder(a, torch.where(one, 1, b))).to(a.dtype)


def _rest_to_zero(a: Tensor, b: Tensor) -> Tensor:
    if not _is_whole(a):
        return torch.fmod(a, b)
    one = b == 0 if a.dtype is torch.uint8 else (b == 0) | (b == -1)
    return torch.where(one, 0, torch.fmod(a, torch.where(one, 1, b))).to(a.dtype)


def _power(a: Tensor, b: Tensor) -> Tensor:
    if _is_whole(a) and b.dtype is not torch.uint8:
        raise NotImplementedError("integers to powers that may be negative, which raise an error")
    return torch.pow(a, b)


def _absolute(a: Tensor) -> Tensor:
    return a.clone() if a.dtype in (torch.bool, torch.uint8) else torch.abs(a)


def _sign(a: Tensor) -> Tensor:
    return torch.where(torch.isnan(a), a, torch.sign(a)) if a.dtype.is_floating_point else torch.sgn(a)


def _reciprocal(a: Tensor) -> Tensor:
    if _is_whole(a):
        raise NotImplementedError("the reciprocal of integers")
    return torch.reciprocal(a)


def _ordered(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Complex numbers have an order in NumPy alone."""

    def compare(a: Tensor, b: Tensor) -> Tensor:
        if a.dtype.is_complex:
            raise NotImplementedError("the order of complex numbers")
        return function(a, b)

    return compare


def _shift(function: Callable[[Tensor, Tensor], Tensor], *, arithmetic: bool) -> Callable[[Tensor, Tensor], Tensor]:
    """By as many bits as there are, or more, nothing is left but the sign."""

    def shift(a: Tensor, b: Tensor) -> Tensor:
        bits = a.dtype.itemsize * 8
        beyond = (b < 0) | (b >= bits)
        rest = torch.where(a < 0, -1, 0) if arithmetic else torch.zeros_like(a)
        return torch.where(beyond, rest.to(a.dtype), function(a, torch.where(beyond, 0, b)))

    return shift


def _not_less(a: Tensor, b: Tensor) -> Tensor:
    return a | b if a.dtype is torch.bool else torch.maximum(a, b)


def _not_more(a: Tensor, b: Tensor) -> Tensor:
    return a & b if a.dtype is torch.bool else torch.minimum(a, b)


def _by_parts(function: Callable[..., Tensor], *operands: Tensor) -> Tensor:
    """Of complex numbers each part for itself, as torch's kernels, which multiply by 1 or have none, do not."""
    if not operands[0].dtype.is_complex:
        return function(*operands)
    return torch.complex(function(*(a.real for a in operands)), function(*(a.imag for a in operands)))


def _matmul(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype is torch.bool:
        raise NotImplementedError("products of matrices of truths")
    return torch.matmul(a, b)


#: Of operands of one loop; what NumPy's loop gives is of the dtype that it names, whatever these give.
UFUNCS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a | b if a.dtype is torch.bool else _by_parts(torch.add, a, b),
    "subtract": lambda a, b: _by_parts(torch.sub, a, b),
    "multiply": lambda a, b: a & b if a.dtype is torch.bool else torch.mul(a, b),
    "divide": torch.div,
    "floor_divide": _quotient,
    "remainder": _rest,
    "fmod": _rest_to_zero,
    "divmod": lambda a, b: (_quotient(a, b), _rest(a, b)),
    "power": _power,
    "float_power": torch.pow,
    "negative": torch.neg,
    "positive": torch.clone,
    "absolute": _absolute,
    "fabs": torch.abs,
    "sign": _sign,
    "square": lambda a: a * a,
    "sqrt": torch.sqrt,
    "reciprocal": _reciprocal,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "arcsin": torch.asin,
    "arccos": torch.acos,
    "arctan": torch.atan,
    "arctan2": torch.atan2,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "tanh": torch.tanh,
    "arcsinh": torch.asinh,
    "arccosh": torch.acosh,
    "arctanh": torch.atanh,
    "hypot": torch.hypot,
    "degrees": torch.rad2deg,
    "rad2deg": torch.rad2deg,
    "radians": torch.deg2rad,
    "deg2rad": torch.deg2rad,
    "floor": _unless_whole(torch.floor),
    "ceil": _unless_whole(torch.ceil),
    "trunc": _unless_whole(torch.trunc),
    "rint": lambda a: _by_parts(torch.round, a),
    "maximum": _ordered(_not_less),
    "minimum": _ordered(_not_more),
    "fmax": _ordered(lambda a, b: _not_less(a, b) if _is_whole(a) else torch.fmax(a, b)),
    "fmin": _ordered(lambda a, b: _not_more(a, b) if _is_whole(a) else torch.fmin(a, b)),
    "equal": torch.eq,
    "not_equal": torch.ne,
    "less": _ordered(torch.lt),
    "less_equal": _ordered(torch.le),
    "greater": _ordered(torch.gt),
    "greater_equal": _ordered(torch.ge),
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
    "logical_not": torch.logical_not,
    "bitwise_and": torch.bitwise_and,
    "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor,
    "invert": torch.bitwise_not,
    "left_shift": _shift(torch.bitwise_left_shift, arithmetic=False),
    "right_shift": _shift(torch.bitwise_right_shift, arithmetic=True),
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "isfinite": torch.isfinite,
    "signbit": torch.signbit,
    "copysign": torch.copysign,
    "nextafter": torch.nextafter,
    "heaviside": lambda a, b: torch.where(torch.isnan(a), a, torch.heaviside(a, b)),
    "conjugate": lambda a: torch.conj_physical(a) if a.dtype.is_complex else a.clone(),
    "matmul": _matmul,
}

#: Those that torch has exact results of in half precision, where NumPy, too, computes in single precision and rounds.
_AS_THEY_ARE = frozenset({"nextafter"})
#: To a number of Python's, which the kernel is written with. NumPy raises for integers to powers below 0.
_POWERS = frozenset({"power", "float_power"})


def apply(name: str, *operands: Any, dtype: torch.dtype | None = None) -> Any:
    """What NumPy's ufunc of this name gives of operands: tensors, and numbers of Python's.

    Raises ``NotImplementedError`` where it would not be that, and what NumPy raises of such operands.
    """
    ufunc = getattr(np, name)
    told_alike(operands)
    loop = loop_of(ufunc, operands, dtype)
    taken = [fitted(*each) for each in zip(operands, loop, strict=False)]
    if torch.float16 in loop[: ufunc.nin] and name not in _AS_THEY_ARE:
        taken = [each.float() if each.dtype is torch.float16 else each for each in taken]
    exponent = operands[-1]
    if name == "power" and kind_of(operands[0]) in (bool, np.dtype(bool)):
        raise NotImplementedError("powers of truths")
    if name in _POWERS and isinstance(exponent, (int, float)) and (exponent >= 0 or not _is_whole(taken[0])):
        found = torch.pow(taken[0], exponent)  # a square is a product then
    else:
        found = UFUNCS[name](*taken)
    if isinstance(found, tuple):
        return tuple(each.to(to) for each, to in zip(found, loop[ufunc.nin :], strict=True))
    return found.to(loop[-1])
