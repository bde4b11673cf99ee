"""What operators demand of the numbers they are given: those that convert one to the dtype they compute in check that it holds it.

Without that, compiled code would keep as many bits of a number as there are. Others make a 0-d tensor of the number, which wraps around and
demands nothing. In: an operator's arguments. Out: nothing, a guard on a symbolic number, or the error.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from symshapes.facts import Operand, errors, number_dtype, real_dtype, result_dtype
from symshapes.rules import layout
from symshapes.rules.layout import TensorMeta
from symshapes.rules.registry import demand

_UNCHECKED = (TensorMeta, bool, torch.SymBool, type(None))


def require_held(number: Any, dtype: torch.dtype, kinds: Any = int) -> None:
    """Raise what the checked conversion of a number to a dtype raises. What is no number is none of its concerns.

    To a dtype of floats only numbers of some `kinds` are. Of floats capture asks the program's calls: what an operator is made of may
    compute with one in a wider dtype than the operator does.
    """
    if isinstance(number, _UNCHECKED) or dtype is torch.bool:  # any number is a bool
        return
    if isinstance(number, complex):
        if not dtype.is_complex and number.imag != 0:
            raise errors.does_not_hold(dtype)
        if dtype.is_complex:
            require_held(number.imag, real_dtype(dtype))
        number = number.real
    dtype = real_dtype(dtype)
    floating = isinstance(number, float | torch.SymFloat)
    if dtype.is_floating_point:
        if isinstance(number, kinds) and torch.finfo(dtype).max < abs(number) < math.inf:
            raise errors.does_not_hold(dtype)
        return
    limits = torch.iinfo(dtype)
    # An integer is taken as unsigned where its absolute value is in range, too.
    least = -limits.max if limits.min == 0 and not floating else limits.min
    if isinstance(number, float | int):
        if not least <= number <= limits.max:  # nor is NaN
            raise errors.does_not_hold(dtype)
    elif floating or limits.bits < 64:
        layout.demand((number >= least) & (number <= limits.max), lambda: errors.does_not_hold(dtype))


@demand("full")
def _full(size: Any, fill_value: Any, *, dtype: torch.dtype | None = None, **_: Any) -> None:
    require_held(fill_value, dtype or number_dtype(fill_value))


@demand("scalar_tensor")
def _scalar_tensor(s: Any, *, dtype: torch.dtype | None = None, **_: Any) -> None:
    require_held(s, dtype or torch.get_default_dtype())


@demand("full_like", "fill.Scalar")
def _full_like(self: TensorMeta, value: Any = None, *, fill_value: Any = None, **options: Any) -> None:
    require_held(fill_value if value is None else value, options.get("dtype") or self.dtype)


@demand("fill.Tensor")
def _fill(self: TensorMeta, value: TensorMeta) -> None:
    if value.size:
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {len(value.size)} dimensions."
        )


@demand("new_full")
def _new_full(self: TensorMeta, size: Any, fill_value: Any, **options: Any) -> None:
    _full_like(self, fill_value, **options)


@demand("fill_diagonal_")
def _fill_diagonal(self: TensorMeta, fill_value: Any, wrap: bool = False) -> None:
    require_held(fill_value, self.dtype)


@demand("masked_fill.Scalar")
def _masked_fill(self: TensorMeta, mask: TensorMeta, value: Any) -> None:
    require_held(value, self.dtype)


@demand("index_fill.int_Scalar")
def _index_fill(self: TensorMeta, dim: int, index: TensorMeta, value: Any) -> None:
    require_held(value, self.dtype)


@demand("constant_pad_nd")
def _constant_pad_nd(self: TensorMeta, pad: Any, value: Any = 0) -> None:
    require_held(value, self.dtype, float)  # whatever the program gave


@demand("threshold")
def _threshold(self: TensorMeta, threshold: Any, value: Any) -> None:
    require_held(threshold, self.dtype)
    require_held(value, self.dtype)


@demand("where.ScalarSelf", "where.ScalarOther")
def _where(condition: TensorMeta, self: Operand, other: Operand) -> None:
    require_condition(condition)
    _all_held([self, other], [self, other])


@demand("where.self", "where.Scalar")
def require_condition(condition: TensorMeta, self: Operand = None, other: Operand = None) -> None:
    """A condition of bools, or of bytes, which were that once."""
    if condition.dtype not in (torch.bool, torch.uint8):
        raise errors.no_condition(condition.dtype)


@demand(*(f"{name}.Scalar" for name in ("eq", "ne", "lt", "le", "gt", "ge")))
def _compared(self: TensorMeta, other: Operand) -> None:
    result_dtype([self, other])  # which refuses what has no dtype in common, though the result has none of it


@demand("clamp_min", "clamp_max")
def _clamp_one(self: TensorMeta, bound: Any = None, *, min: Any = None, max: Any = None) -> None:
    for number in (bound, min, max):
        if isinstance(number, complex):
            raise NotImplementedError("clamp is not supported for complex types")
    _clamp(self, bound, min if max is None else max)


@demand("clamp")
def _clamp(self: TensorMeta, min: Any = None, max: Any = None) -> None:
    require_bound(self, min, max)
    _all_held([min, max], [self] if self.dtype.is_floating_point else [self, min, max])


@demand("clamp.Tensor")
def require_bound(self: TensorMeta, min: Any = None, max: Any = None) -> None:
    """Something to clamp by."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")


@demand("pow.Tensor_Scalar")
def _pow(self: TensorMeta, exponent: Any) -> None:
    _all_held([exponent], [self, exponent])


@demand("addcmul", "addcdiv")
def _addcmul(self: TensorMeta, tensor1: TensorMeta, tensor2: TensorMeta, value: Any = 1) -> None:
    _all_held([value], [self, tensor1, tensor2])


def _all_held(numbers: list[Any], operands: list[Operand]) -> None:
    if all(isinstance(number, _UNCHECKED) for number in numbers):
        return
    dtype = result_dtype([operand for operand in operands if operand is not None])
    for number in numbers:
        require_held(number, dtype)


@demand("add.Tensor", "add.Scalar")
def require_alpha(self: Operand, other: Operand, alpha: Any = 1, *, taken: int = 1) -> None:
    """An ``alpha`` of no higher kind than the operands, which their dtype holds when `taken` as often: a subtraction adds the negative."""
    if type(alpha) is int and alpha == 1:  # nearly all
        return
    dtype = result_dtype([self, other])
    if isinstance(alpha, bool | torch.SymBool) and dtype is not torch.bool:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, float | torch.SymFloat) and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if isinstance(alpha, complex) and not dtype.is_complex:
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    require_held(alpha * taken if type(alpha) is not bool else alpha, dtype)
