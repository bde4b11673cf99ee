"""Block sizes. Flows in: a kernel's iteration counts. Flows out: XBLOCK, RBLOCK, warps; plain heuristics, no tuning."""

from __future__ import annotations

from dataclasses import dataclass

PERSISTENT_LIMIT = 4096
"""Longest reduction whose whole row is held in registers; longer ones loop."""
INT32_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class Blocks:
    """How one program of the grid walks its share: `x` outer points by `r` inner points."""

    x: int
    r: int
    persistent: bool
    """The inner space fits one block, so that each inner value is computed once whatever the number of passes."""
    warps: int
    wide: bool
    """Positions have 64 bits."""


def next_power_of_two(value: int) -> int:
    """The smallest power of two that is not below `value`."""
    return 1 << max(0, value - 1).bit_length()


def choose(outer: int | None, inner: int | None, reduces: bool, largest: int | None) -> Blocks:
    """Blocks of about a thousand points; a reduction's rows side by side while they are short.

    Args:
        outer: how many outer points there are; None: any number. So are the others.
        inner: how many inner ones, if it `reduces`.
        largest: no position is larger, nor any number on the way to one.
    """
    most = next_power_of_two(1 << 20 if outer is None else outer)
    # The last block of a walk reaches beyond the end.
    wide = largest is None or largest > INT32_LIMIT - PERSISTENT_LIMIT
    if not reduces:
        x = min(1024, most)
        return Blocks(x=x, r=1, persistent=True, warps=max(1, min(4, x // 128)), wide=wide)
    persistent = inner is not None and inner <= PERSISTENT_LIMIT
    r = next_power_of_two(inner) if inner is not None and persistent else 1024
    x = max(1, min(most, 1024 // r))
    return Blocks(x=x, r=r, persistent=persistent, warps=max(1, min(8, x * r // 256)), wide=wide)
