"""Block sizes. Flows in: a kernel's iteration counts. Flows out: XBLOCK, RBLOCK, warps; plain heuristics, no tuning."""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from inductor.device import Kernel
from inductor.ir.operations import Expr

PERSISTENT_LIMIT = 4096
"""Longest reduction whose whole row is held in registers; longer or symbolic ones loop."""


@dataclass(frozen=True)
class Blocks:
    """How one program of the grid walks its share: `x` outer points by `r` inner points."""

    x: int
    r: int
    persistent: bool
    """The inner space fits one block, so that each inner value is computed once whatever the number of passes."""
    warps: int


def product(sizes: tuple[Expr, ...]) -> Expr:
    """The product of the sizes; 1 of none."""
    return sympy.Mul(*sizes) if sizes else sympy.Integer(1)


def next_power_of_two(value: int) -> int:
    """The smallest power of two that is not below `value`."""
    return 1 << max(0, value - 1).bit_length()


def choose(kernel: Kernel) -> Blocks:
    """Blocks of about a thousand points; a reduction's rows side by side while they are short."""
    outer, inner = product(kernel.outer_sizes), product(kernel.inner_sizes)
    outer_hint = int(outer) if outer.is_Integer else 1 << 20
    if not kernel.inner_sizes:
        x = min(1024, next_power_of_two(outer_hint))
        return Blocks(x=x, r=1, persistent=True, warps=max(1, min(4, x // 128)))
    persistent = bool(inner.is_Integer) and int(inner) <= PERSISTENT_LIMIT
    r = next_power_of_two(int(inner)) if persistent else 1024
    x = max(1, min(next_power_of_two(outer_hint), 1024 // r))
    return Blocks(x=x, r=r, persistent=persistent, warps=max(1, min(8, x * r // 256)))
