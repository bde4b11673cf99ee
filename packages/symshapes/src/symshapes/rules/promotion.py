"""Type promotion and common device of an op's operands, as torch's elementwise ops do them."""

from collections.abc import Iterable
from typing import Any

import torch

from symshapes.rules.layout import TensorMeta

# A tensor's metadata, or a number: bool, int, float, complex or a symbolic one of these.
Operand = Any

_REAL = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}
_COMPLEX = {real: complex_ for complex_, real in _REAL.items()} | {torch.bfloat16: torch.complex64}


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the parts of a complex dtype; any other dtype is itself."""
    return _REAL.get(dtype, dtype)


def complex_dtype(dtype: torch.dtype) -> torch.dtype:
    """The complex dtype whose parts have this dtype; a complex dtype is itself."""
    return dtype if dtype.is_complex else _COMPLEX[dtype]


def number_dtype(value: Any) -> torch.dtype:
    """The dtype a Python or symbolic number has as an operand."""
    if isinstance(value, (bool, torch.SymBool)):
        return torch.bool
    if isinstance(value, (int, torch.SymInt)):
        return torch.int64
    if isinstance(value, (float, torch.SymFloat)):
        return torch.get_default_dtype()
    return complex_dtype(torch.get_default_dtype())


def _join(first: torch.dtype | None, second: torch.dtype | None) -> torch.dtype | None:
    if first is None or second is None or first is second:
        return first if second is None else second
    return torch.promote_types(first, second)


def _override(higher: torch.dtype | None, lower: torch.dtype | None) -> torch.dtype | None:
    """Join operands of two ranks: the lower one counts only if its category (bool, int, float, complex) is higher."""
    if higher is None or lower is None:
        return lower if higher is None else higher
    if higher.is_complex:
        return higher
    if higher.is_floating_point:
        return complex_dtype(higher) if lower.is_complex else higher
    if higher is torch.bool or lower.is_floating_point or lower.is_complex:
        return torch.promote_types(higher, lower)
    return higher


def result_dtype(operands: Iterable[Operand]) -> torch.dtype:
    """`torch.result_type` over any number of operands: tensors rank over 0-d tensors, and those over numbers."""
    ranked: list[torch.dtype | None] = [None, None, None]
    for operand in operands:
        if isinstance(operand, TensorMeta):
            rank = 0 if operand.size else 1
            ranked[rank] = _join(ranked[rank], operand.dtype)
        elif operand is not None:
            ranked[2] = _join(ranked[2], number_dtype(operand))
    found = _override(ranked[0], _override(ranked[1], ranked[2]))
    return torch.get_default_dtype() if found is None else found


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
        if not isinstance(operand, TensorMeta):
            continue
        if not operand.size and operand.device.type == "cpu":
            scalar = operand.device
        elif device is None:
            device = operand.device
        elif device != operand.device:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{device} and {operand.device}!"
            )
    return device or scalar or torch.device("cpu")
