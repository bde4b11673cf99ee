"""Type promotion and common device of an op's operands, as torch's elementwise ops do them.

An operand is None; a number, also a symbolic one or an expression of sizes; or whatever describes a tensor: it has `dtype`,
`size` (a sequence, empty of a 0-d tensor) and, where the device is asked for, `device`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sympy
import torch

from symshapes.expr.floats import is_int
from symshapes.facts import errors

Operand = Any

NUMBER_DTYPES: dict[type, torch.dtype] = {
    bool: torch.bool,
    int: torch.int64,
    float: torch.float64,
    complex: torch.complex128,
}
"""The dtypes that torch takes Python's classes of numbers for where one is given as a dtype; a number holds as many bits."""

_REAL = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}
_COMPLEX = {real: complex_ for complex_, real in _REAL.items()} | {torch.bfloat16: torch.complex64}


_LARGEST = torch.iinfo(torch.int64).max

HALF_DTYPES = frozenset({torch.float16, torch.bfloat16})
"""The dtypes that kernels load, widen to float32, compute in, and round once at the end."""


def opmath_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype that eager's kernels on `dtype` compute in."""
    if dtype in HALF_DTYPES:
        return torch.float32
    return torch.complex64 if dtype is torch.complex32 else dtype


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the parts of a complex dtype; any other dtype is itself."""
    return _REAL.get(dtype, dtype)


def complex_dtype(dtype: torch.dtype) -> torch.dtype:
    """The complex dtype whose parts have this dtype; a complex dtype is itself."""
    return dtype if dtype.is_complex else _COMPLEX[dtype]


def number_dtype(value: Any, default: torch.dtype | None = None) -> torch.dtype:
    """The dtype a number has as an operand where `default` is the default dtype; None: the one of this moment."""
    if isinstance(value, sympy.Basic):
        if not isinstance(value, sympy.Expr):
            return torch.bool  # a condition on sizes
        kind: type = int if is_int(value) else float
    else:
        kind = type(value)
    if issubclass(kind, (bool, torch.SymBool)):
        return torch.bool
    if issubclass(kind, (int, torch.SymInt)):
        return torch.int64
    if default is None:
        default = torch.get_default_dtype()
    return complex_dtype(default) if issubclass(kind, complex) else default


def _join(first: torch.dtype | None, second: torch.dtype | None) -> torch.dtype | None:
    if first is None or second is None or first is second:
        return first if second is None else second
    return torch.promote_types(first, second)


def holds_all_of(dtype: torch.dtype, numbers: torch.dtype) -> bool:
    """Whether the two promote to `dtype`: one of floating point then has all numbers of the other."""
    return torch.promote_types(dtype, numbers) is dtype


def _override(higher: torch.dtype | None, lower: torch.dtype | None) -> torch.dtype | None:
    """Join operands of two ranks: the lower one counts only if its category (bool, int, float, complex) is higher."""
    if higher is None or lower is None:
        return lower if higher is None else higher
    if higher.is_complex:
        return higher
    if higher.is_floating_point:
        return complex_dtype(higher) if lower.is_complex else higher
    if lower.is_complex:
        return lower  # also where the two have no dtype in common
    if higher is torch.bool or lower.is_floating_point:
        return torch.promote_types(higher, lower)
    return higher


def result_dtype(operands: Iterable[Operand], default: torch.dtype | None = None) -> torch.dtype:
    """`torch.result_type` over any number of operands: tensors rank over 0-d tensors, and those over numbers.

    `default`: see `number_dtype`.
    """
    ranked: list[torch.dtype | None] = [None, None, None]
    for operand in operands:
        if operand is None:
            continue
        dtype = getattr(operand, "dtype", None)
        rank = 2 if dtype is None else 0 if operand.size else 1
        if dtype is None:
            # What no int64 holds is a tensor of uint64, which promotes with little, or refuses to.
            large = type(operand) is int and operand > _LARGEST
            dtype = torch.uint64 if large else number_dtype(operand, default)
        ranked[rank] = _join(ranked[rank], dtype)
    found = _override(ranked[0], _override(ranked[1], ranked[2]))
    if found is None:
        return torch.get_default_dtype() if default is None else default
    return found


def float_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of a function like `sin`: integers and bools become the default dtype."""
    return dtype if dtype.is_floating_point or dtype.is_complex else torch.get_default_dtype()


def common_device(operands: Iterable[Operand]) -> torch.device:
    """The device an op on these operands runs on. 0-d CPU tensors join any device.

    Raises RuntimeError as eager does for operands on two devices.
    """
    scalar: torch.device | None = None
    device: torch.device | None = None
    for operand in operands:
        its_own: torch.device | None = getattr(operand, "device", None)
        if its_own is None:
            continue
        if not operand.size and its_own.type == "cpu":
            scalar = its_own
        elif device is None:
            device = its_own
        elif device != its_own:
            raise errors.on_two_devices(device, its_own)
    return device or scalar or torch.device("cpu")
