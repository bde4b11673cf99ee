"""Tensors as bytes, and back. Flows in: tensors of the CPU's memory. Flows out: their elements, and rows of plain data."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from inductor.host import HOST

DTYPES = {str(value): value for value in vars(torch).values() if isinstance(value, torch.dtype)}


class Unstorable(Exception):
    """The parts hold something that no plain data stands for; the message says what."""


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    """The elements of a tensor in the CPU's memory, in the order of its indices."""
    flat = tensor.detach().contiguous()
    return ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size()) if flat.numel() else b""


def is_plain(value: Any) -> bool:
    """Whether a tensor is no more than memory of the CPU with a layout."""
    return (
        type(value) in (torch.Tensor, torch.nn.Parameter)
        and value.device.type == HOST.type
        and value.layout is torch.strided
        and not (value.is_conj() or value.is_neg() or value.is_quantized)
    )


_LARGEST = 1 << 26


def pack(constants: Mapping[str, tuple[str, Any]]) -> tuple[list[Any], bytes]:
    """Named tensors by variable, as rows of plain data and the memory that they lie in.

    Raises:
        Unstorable: one is not plain memory, or spread over much of it.
    """
    rows, parts, at = [], [], 0
    for variable, (name, value) in constants.items():
        if not is_plain(value):
            raise Unstorable(f"the constant {name} is not plain memory")
        length = _extent(value.size(), value.stride()) * value.element_size()
        if length > _LARGEST:
            raise Unstorable(f"the constant {name} is large")
        parts.append(ctypes.string_at(value.data_ptr(), length) if length else b"")
        rows.append([variable, name, str(value.dtype), list(value.size()), list(value.stride()), at, length])
        at += length
    return rows, b"".join(parts)


def unpack(rows: list[Any], content: bytes) -> dict[str, tuple[str, Any]]:
    """What `pack` was given, with the same strides."""
    found: dict[str, tuple[str, Any]] = {}
    for variable, name, dtype, size, stride, at, length in rows:
        memory = torch.empty(length, dtype=torch.uint8, device=HOST)  # aligned as torch's own
        if length:
            memory.copy_(torch.frombuffer(bytearray(content[at : at + length]), dtype=torch.uint8))
        found[variable] = name, memory.view(DTYPES[dtype]).as_strided(size, stride)
    return found


def _extent(size: Sequence[int], stride: Sequence[int]) -> int:
    """Elements from the first to the last."""
    return 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
