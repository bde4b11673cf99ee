"""The operators that stand for random numbers drawn within kernels: pure functions of seeds and of an element's position.

Flows in: a tensor of seeds, and which of them. Flows out: `torch.ops.in_kernel.*`, which graphs hold where ATen's random operators
stood, and which lowerings turn into loops. Called by themselves they compute the same numbers by torch's operators.

An element's number depends on its place in the tensor (row-major, whatever the strides), and on nothing else: however a
loop runs, and in whichever graph it is computed again, it is the same. Two elements beside each other share 64 random bits, of which
one alone would leave half.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from inductor.philox import random_bits
from inductor.seeds import drawn_seeds
from symshapes import ELEMENTWISE, RANDOM, register_fake, register_function, register_launches

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
_library.define("seeds(int count, Device device) -> Tensor", tags=(RANDOM,))
_library.impl("seeds", drawn_seeds, "CompositeExplicitAutograd")
for _name, _signature in _SIGNATURES.items():
    _library.define(_name + _signature, tags=(ELEMENTWISE,))


def _bits(seeds: Tensor, which: int, size: Sequence[int], flipped: int = 0) -> Tensor:
    positions = torch.arange(math.prod(size), device=seeds.device).reshape(list(size))
    return random_bits(seeds[which] ^ flipped, positions)


def _shared_bits(seeds: Tensor, which: int, size: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Those that two elements beside each other have together, and which of both each one is."""
    positions = torch.arange(math.prod(size), device=seeds.device).reshape(list(size))
    return random_bits(seeds[which], positions >> 1), positions & 1


def _uniform(seeds: Tensor, which: int, size: Sequence[int], *, dtype: torch.dtype) -> Tensor:
    digits = DIGITS[dtype]
    if digits > 32:
        bits = _bits(seeds, which, size)
    else:
        shared, odd = _shared_bits(seeds, which, size)
        bits = shared >> (odd * 32)
    return ((bits & ((1 << digits) - 1)) * 2.0**-digits).to(dtype)


def _normal(seeds: Tensor, which: int, size: Sequence[int], *, dtype: torch.dtype) -> Tensor:
    if dtype is torch.float64:
        bits, digits = _bits(seeds, which, size), DIGITS[dtype]
        first = ((bits & ((1 << digits) - 1)).double() + 1) * 2.0**-digits
        turns = (_bits(seeds, which, size, FLIPPED) & ((1 << digits) - 1)) * 2.0**-digits
    else:
        bits, odd = _shared_bits(seeds, which, size)
        first = ((bits & POSITIVE).float() + 1) * 2.0**-31
        # The sine is the cosine of a quarter less. Half a turn less is as random, and closer to zero, where cosines are exacter.
        turns = ((bits >> 40) & 0xFFFFFF) * 2.0**-24 - (odd + 2) * 0.25
    return ((-2 * first.log()).sqrt() * (turns * (2 * math.pi)).cos()).to(dtype)


def _integers(seeds: Tensor, which: int, size: Sequence[int], low: int, high: int, *, dtype: torch.dtype) -> Tensor:
    positive = _bits(seeds, which, size) & ((1 << 63) - 1)
    return ((positive if high - low > (1 << 63) - 1 else positive % (high - low)) + low).to(dtype)


def _seeds(count: int, device: torch.device) -> Tensor:
    return torch.empty(count, dtype=torch.int64, device=device)


def _like(seeds: Tensor, which: int, size: Sequence[int], *numbers: int, dtype: torch.dtype) -> Tensor:
    return seeds.new_empty(size, dtype=dtype)


_FUNCTIONS: dict[str, Any] = {"uniform": _uniform, "normal": _normal, "integers": _integers}
for _name, _function in _FUNCTIONS.items():
    _library.impl(_name, _function, "CompositeExplicitAutograd")
    register_fake(f"in_kernel::{_name}", _like, _library)

register_fake("in_kernel::seeds", _seeds, _library)

SEEDS: Any = torch.ops.in_kernel.seeds.default
"""As many seeds as are asked for (`inductor.seeds`)."""
register_launches(SEEDS)
register_function(SEEDS, drawn_seeds)
UNIFORM: Any = torch.ops.in_kernel.uniform.default
"""Floating numbers of [0, 1)."""
NORMAL: Any = torch.ops.in_kernel.normal.default
"""Floating numbers of mean 0 and variance 1."""
INTEGERS: Any = torch.ops.in_kernel.integers.default
"""Whole numbers from `low` (of it on) to `high` (which is none of them); of any dtype that loops hold."""
