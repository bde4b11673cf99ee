"""NumPy's dtypes and torch's: which stand for each other, and which one NumPy computes operands of several in."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

#: Where NumPy computes, whatever device a program has torch compute on.
CPU = torch.device("cpu")

#: What torch computes with as NumPy does. Unsigned integers of more than 8 bits it can store, and little else.
TORCH_DTYPES: dict[np.dtype[Any], torch.dtype] = {
    np.dtype(name): getattr(torch, name)
    for name in (
        "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128",
    )
}  # fmt: skip
#: Integers that not all of 64 bits are.
_SMALL = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32)
NUMPY_DTYPES = {ours: theirs for theirs, ours in TORCH_DTYPES.items()}

_NUMBERS: tuple[tuple[tuple[type, ...], type], ...] = (
    ((bool, torch.SymBool), bool),
    ((int, torch.SymInt), int),
    ((float, torch.SymFloat), float),
    ((complex,), complex),
)


def torch_dtype(dtype: Any) -> torch.dtype:
    """What stands for a dtype, or for anything that NumPy makes one of. Raises ``NotImplementedError`` if nothing does."""
    found = TORCH_DTYPES.get(np.dtype(dtype))
    if found is None or not np.dtype(dtype).isnative:
        raise NotImplementedError(f"arrays of {np.dtype(dtype)}")
    return found


def numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    """What stands for torch's. Raises ``NotImplementedError`` if nothing does."""
    found = NUMPY_DTYPES.get(dtype)
    if found is None:
        raise NotImplementedError(f"arrays of {dtype}")
    return found


def kind_of(operand: Any) -> Any:
    """What decides about promotion: an array's dtype, or the class of a number of Python's, symbolic ones too."""
    if isinstance(operand, torch.Tensor):
        return numpy_dtype(operand.dtype)
    for classes, kind in _NUMBERS:
        if isinstance(operand, classes):
            return kind
    raise NotImplementedError(f"{type(operand).__name__} among arrays")


def strong(operand: Any) -> np.dtype[Any]:
    """The dtype of the array that NumPy makes of an operand alone."""
    return np.dtype(kind_of(operand))


def common(*operands: Any) -> torch.dtype:
    """The dtype in which arrays, and numbers that are made arrays first, are put together."""
    return torch_dtype(np.result_type(*map(strong, operands)))


def promoted(*operands: Any) -> torch.dtype:
    """The same where numbers of Python's count for little (NEP 50)."""
    samples = {bool: np.dtype(bool), int: 0, float: 0.0, complex: 0j}
    return torch_dtype(np.result_type(*(samples.get(kind, kind) for kind in map(kind_of, operands))))


def loop_of(ufunc: np.ufunc, operands: tuple[Any, ...], dtype: torch.dtype | None) -> list[torch.dtype]:
    """The dtypes in which a ufunc takes each operand and gives each result. Raises ``TypeError`` if it takes none such."""
    kinds = [kind_of(each) for each in operands]
    weak = (int, float, complex)
    if all(kind in weak for kind in kinds):
        kinds = [np.dtype(kind) for kind in kinds]
    kinds = [np.dtype(bool) if kind is bool else kind for kind in kinds]
    signature: Any = {}
    if dtype is not None:
        signature = {"signature": (*(None,) * ufunc.nin, *(numpy_dtype(dtype),) * ufunc.nout)}
    found = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout), **signature)
    return [torch_dtype(each) for each in found]


def fitted(operand: Any, dtype: torch.dtype) -> torch.Tensor:
    """An operand as an array of a dtype. Raises ``OverflowError`` for an integer of Python's that is beyond it."""
    if isinstance(operand, torch.Tensor):
        return operand if operand.dtype is dtype else operand.to(dtype)
    if isinstance(operand, int) and not isinstance(operand, bool):
        np.array(operand, numpy_dtype(dtype))
    elif isinstance(operand, torch.SymInt) and dtype in _SMALL:
        raise NotImplementedError(f"a number known at the run only, as {dtype}")
    return torch.full((), operand, dtype=dtype, device=CPU)
