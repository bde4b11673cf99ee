"""C++ names of dtypes: scalars, vectors (`vec.h`), elements in memory; and literals of constants."""

from __future__ import annotations

import math

import torch

SCALAR: dict[torch.dtype, str] = {
    torch.bool: "bool",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float32: "float",
    torch.float64: "double",
}
VECTOR: dict[torch.dtype, str] = {
    torch.bool: "Mask",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.float32: "F32",
    torch.float64: "F64",
}
MEMORY: dict[torch.dtype, str] = {**SCALAR, torch.bfloat16: "bfloat16", torch.float16: "float16"}


def literal(value: float | int | bool, dtype: torch.dtype) -> str:
    """A constant of a compute dtype as C++; a float32 is printed by the shortest decimal that rounds to it."""
    if dtype is torch.bool:
        return "true" if value else "false"
    name = SCALAR[dtype]
    if not dtype.is_floating_point:
        # As eager casts it: what does not fit keeps its lower bits.
        lowest = torch.iinfo(dtype).min
        number = (int(value) - lowest) % (1 << torch.iinfo(dtype).bits) + lowest
        if number == -(2**63):
            return "i64(-__INT64_MAX__ - 1)"
        return f"{name}({number}{'L' if abs(number) >= 2**31 else ''})"
    value = float(value)
    if dtype is torch.float32:
        value = torch.tensor(value, dtype=torch.float32).item()
    if math.isnan(value):
        return f"{name}(NOT_A_NUMBER)"
    if math.isinf(value):
        return f"{name}({'-' if value < 0 else ''}INF)"
    if dtype is torch.float32:
        short = next(text for digits in range(1, 10) if _is_float32(text := f"{value:.{digits}g}", value))
        value_text = repr(float(short))
        return f"{name}({value_text})"
    return f"{name}({value!r})"


def _is_float32(text: str, value: float) -> bool:
    return torch.tensor(float(text), dtype=torch.float32).item() == value
