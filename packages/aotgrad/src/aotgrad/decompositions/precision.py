"""The arithmetic precision of eager's kernels: half types compute in float32 and round once, at the end.

In: a decomposition written without regard to precision, or tensors. Out: the same in eager's precision.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from symshapes import HALF_DTYPES, opmath_dtype

aten = torch.ops.aten


def cast(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """`value` in `dtype`; itself if it is."""
    return value if value.dtype == dtype else aten._to_copy.default(value, dtype=dtype)


def widen(value: torch.Tensor) -> torch.Tensor:
    """`value` in the dtype that kernels compute in."""
    return cast(value, opmath_dtype(value.dtype))


def widen_optional(value: torch.Tensor | None) -> torch.Tensor | None:
    """`widen`, or None for None."""
    return None if value is None else widen(value)


def in_opmath(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a decomposition get its half-precision tensors as float32, and its results rounded back.

    The results' dtype is the first tensor argument's.
    """

    @functools.wraps(function)
    def wide(*args: Any, **kwargs: Any) -> Any:
        dtype = next(value.dtype for value in args if isinstance(value, torch.Tensor))
        if dtype not in HALF_DTYPES:
            return function(*args, **kwargs)
        result = function(*[_wide(value) for value in args], **{name: _wide(value) for name, value in kwargs.items()})
        if isinstance(result, tuple):
            return tuple(cast(value, dtype) for value in result)
        return cast(result, dtype)

    return wide


def _wide(value: Any) -> Any:
    return widen(value) if isinstance(value, torch.Tensor) and value.dtype in HALF_DTYPES else value


def number(value: Any, dtype: torch.dtype) -> Any:
    """A Python number of the kind that `dtype` holds; symbolic ones as they are."""
    if type(value) not in (bool, int, float, complex):
        return value
    if dtype == torch.bool:
        return bool(value)
    if dtype.is_complex:
        return complex(value)
    if isinstance(value, complex):
        value = value.real  # there is no more to it, which its operator has checked
    if dtype.is_floating_point:
        return float(value)
    return int(value)
