"""The operators that stand for random numbers drawn within kernels: pure functions of seeds and of an element's position.

Flows in: a tensor of seeds, and which of them. Flows out: `torch.ops.in_kernel.*`, which graphs hold where ATen's random operators
stood, and which lowerings turn into loops. Called by themselves they compute the same numbers by torch's operators.

An element's number depends on its place in the tensor (row-major, whatever the strides), and on nothing else: however a
loop runs, and in whichever graph it is computed again, it is the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from inductor.philox import random_bits
from symshapes import ELEMENTWISE

DIGITS: dict[torch.dtype, int] = {torch.bfloat16: 8, torch.float16: 11, torch.float32: 24, torch.float64: 53}
"""Random bits of a uniform number, as many as the dtype holds: so that none rounds to 1."""
POSITIVE = (1 << 31) - 1
FLIPPED = 0x5851F42D4C957F2D
"""By what a seed differs from another that belongs to it: float64's normal numbers need more than 64 bits."""

_SIGNATURES = {
    "uniform": "(Tensor seeds, int which, SymInt[] size, *, ScalarType dtype) -> Tensor",
    "normal": "(Tensor seeds, int which, SymInt[] size, *, ScalarType dtype) -> Tensor",
    "integers": "(Tensor seeds, int which, SymInt[] size, int low, int high, *, ScalarType dtype) -> Tensor",
}
_library = torch.library.Library("in_kernel", "DEF")
for _name, _signature in _SIGNATURES.items():
    _library.define(_name + _signature, tags=(ELEMENTWISE,))


def _bits(seeds: Tensor, which: int, size: Sequence[int], flipped: int = 0) -> Tensor:
    positions = torch.arange(math.prod(size), device=seeds.device).reshape(list(size))
    return random_bits(seeds[which] ^ flipped, positions)


def _uniform(seeds: Tensor, which: int, size: Sequence[int], *, dtype: torch.dtype) -> Tensor:
    digits = DIGITS[dtype]
    return ((_bits(seeds, which, size) & ((1 << digits) - 1)) * 2.0**-digits).to(dtype)


def _normal(seeds: Tensor, which: int, size: Sequence[int], *, dtype: torch.dtype) -> Tensor:
    bits = _bits(seeds, which, size)
    if dtype is torch.float64:
        digits = DIGITS[dtype]
        first = ((bits & ((1 << digits) - 1)).double() + 1) * 2.0**-digits
        second = (_bits(seeds, which, size, FLIPPED) & ((1 << digits) - 1)) * 2.0**-digits
    else:
        first = ((bits & POSITIVE).float() + 1) * 2.0**-31
        second = ((bits >> 40) & 0xFFFFFF) * 2.0**-24
    return ((-2 * first.log()).sqrt() * (second * (2 * math.pi)).cos()).to(dtype)


def _integers(seeds: Tensor, which: int, size: Sequence[int], low: int, high: int, *, dtype: torch.dtype) -> Tensor:
    positive = _bits(seeds, which, size) & ((1 << 63) - 1)
    return ((positive if high - low > (1 << 63) - 1 else positive % (high - low)) + low).to(dtype)


def _like(seeds: Tensor, which: int, size: Sequence[int], *numbers: int, dtype: torch.dtype) -> Tensor:
    return seeds.new_empty(size, dtype=dtype)


_FUNCTIONS: dict[str, Any] = {"uniform": _uniform, "normal": _normal, "integers": _integers}
for _name, _function in _FUNCTIONS.items():
    _library.impl(_name, _function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"in_kernel::{_name}", _like, lib=_library)

UNIFORM: Any = torch.ops.in_kernel.uniform.default
"""Floating numbers of [0, 1)."""
NORMAL: Any = torch.ops.in_kernel.normal.default
"""Floating numbers of mean 0 and variance 1."""
INTEGERS: Any = torch.ops.in_kernel.integers.default
"""Whole numbers from `low` (of it on) to `high` (which is none of them); of any dtype that loops hold."""
