"""What eager says where it refuses operands, for all parts that must refuse them in its words: exceptions, to be raised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_KINDS = {
    torch.bool: "Bool",
    torch.uint8: "Byte",
    torch.int8: "Char",
    torch.int16: "Short",
    torch.int32: "Int",
    torch.int64: "Long",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.float32: "Float",
    torch.float64: "Double",
    torch.complex32: "ComplexHalf",
    torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
    torch.uint16: "UInt16",
    torch.uint32: "UInt32",
    torch.uint64: "UInt64",
}
#: What C++ calls those that it has a word for.
_WORDS = {torch.int32: "int", torch.float32: "float", torch.float64: "double"}


def unlike_sizes(first: Any, second: Any, dim: int) -> RuntimeError:
    """Two sizes in dimension `dim` (of the result) that do not broadcast."""
    return RuntimeError(
        f"The size of tensor a ({first}) must match the size of tensor b ({second}) at non-singleton dimension {dim}"
    )


def unlike_target(size: Sequence[Any], result: Sequence[Any]) -> RuntimeError:
    """A result of another size than what it is to be written to."""
    return RuntimeError(f"output with shape {list(size)} doesn't match the broadcast shape {list(result)}")


def uncastable(result: torch.dtype, target: torch.dtype) -> RuntimeError:
    """A result whose dtype is of a higher category than what it is to be written to."""
    return RuntimeError(f"result type {_kind(result)} can't be cast to the desired output type {_kind(target)}")


def no_condition(dtype: torch.dtype) -> RuntimeError:
    """What `where` is to choose by, of a dtype that is none of truth."""
    return RuntimeError(f"where expected condition to be a boolean tensor, but got a tensor with dtype {_kind(dtype)}")


def _kind(dtype: torch.dtype) -> str:
    return _KINDS.get(dtype) or str(dtype).removeprefix("torch.").capitalize()


def unlike_mask(mask: Sequence[Any], number: int, size: Sequence[Any], dim: int) -> IndexError:
    """A mask, index `number`, that is not as the tensor that it picks of from dimension `dim` on."""
    return IndexError(
        f"The shape of the mask {list(mask)} at index {number} does not match the shape of the indexed tensor {list(size)} at "
        f"index {dim}"
    )


def on_two_devices(first: torch.device, second: torch.device) -> RuntimeError:
    """Operands on two devices."""
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}!"
    )


def does_not_hold(dtype: torch.dtype) -> RuntimeError:
    """A number that is to be converted to a dtype which does not hold it."""
    name = str(dtype).removeprefix("torch.")
    kind = f"c10::{_KINDS[dtype]}" if dtype.is_floating_point and dtype.itemsize < 4 else _WORDS.get(dtype, f"{name}_t")
    return RuntimeError(f"value cannot be converted to type {kind} without overflow")
