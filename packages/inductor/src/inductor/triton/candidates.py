"""Blocks that may be faster than those of the heuristics: a few of each kind of kernel, which are compiled and timed.

Flows in: what is known of a launch. Flows out: blocks that are right for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from inductor.triton.blocks import Blocks, next_power_of_two
from inductor.triton.choices import Case

MOST = 8
"""Blocks that are tried of one kernel, the heuristics' included."""
WORTH = 1 << 16
"""Points of a launch. What has fewer costs its launch, whatever its blocks."""
HELD = 1 << 15
"""Points of a row that may be held in registers by the most threads that a program can have."""
MOST_WARPS = 32
POINTS = range(2, 65)
"""Of a thread."""
THREADS = 32
"""Of a warp."""


def candidates(case: Case, reduces: bool) -> list[Blocks]:
    """The heuristics' blocks first, then others that compute the same, but that sums may be added in another order."""
    usual, sizes, row = case.usual, case.sizes, case.row
    if math.prod(sizes) * row < WORTH:
        return [usual]
    tile = usual.tile
    along = math.prod(sizes) if tile is None else sizes[tile.x]
    across = sizes[tile.across] if tile is not None and tile.across is not None else row
    most_x, most_r = next_power_of_two(along), next_power_of_two(across)
    found = [usual]
    kind = _walked if usual.walks else _KINDS[reduces, tile is not None]
    for blocks in kind(usual, row):
        in_bounds = blocks.tile is None or (blocks.x <= most_x and blocks.r <= most_r)
        warps = blocks.warps in range(1, MOST_WARPS + 1)
        if in_bounds and warps and blocks.x * blocks.r // (THREADS * blocks.warps) in POINTS and blocks not in found:
            found.append(blocks)
    return found[:MOST]


def _flat(usual: Blocks, row: int) -> Iterator[Blocks]:
    """More and fewer points and threads."""
    x, warps = usual.x, usual.warps
    for points, threads in (
        (x, 2 * warps),
        (x // 2, warps),
        (x // 2, warps // 2),
        (2 * x, 2 * warps),
        (x, warps // 2),
        (x // 4, warps // 4),
        (2 * x, warps),
    ):
        yield replace(usual, x=points, warps=threads)


def _tiles(usual: Blocks, row: int) -> Iterator[Blocks]:
    """Longer and shorter ones along either axis, fewer threads, and no tile."""
    x, r, warps = usual.x, usual.r, usual.warps
    for rows, columns, threads in (
        (x, 2 * r, warps),
        (x, r // 2, warps),
        (2 * x, r, warps),
        (x // 2, r, warps),
        (x, r, warps // 2),
        (x, r // 2, warps // 2),
    ):
        yield replace(usual, x=rows, r=columns, warps=threads)
    yield replace(usual, x=1024, r=1, warps=4, tile=None)


def _rows(usual: Blocks, row: int) -> Iterator[Blocks]:
    """Rows held in registers, by more and fewer threads and side by side, and rows that are walked over in steps."""
    whole = next_power_of_two(row)
    if usual.persistent:
        x, warps = usual.x, usual.warps
        for rows, threads in (
            (x, 2 * warps),
            (x, warps // 2),
            (2 * x, 2 * warps),
            (x // 2, warps // 2),
            (2 * x, warps),
            (x // 4, warps // 4),
        ):
            if rows:
                yield replace(usual, x=rows, warps=threads)
    elif whole <= HELD:
        for threads in (whole // 1024, whole // 2048, whole // 512):
            yield replace(usual, r=whole, persistent=True, warps=threads)
    for step, warps, stages in ((8192, 8, 1), (2048, 8, 1), (4096, 8, 1), (2048, 4, 3), (8192, 16, 1), (1024, 4, 1)):
        if 2 * step <= whole:
            yield replace(usual, x=1, r=step, persistent=False, warps=warps, stages=stages)


def _walked(usual: Blocks, row: int) -> Iterator[Blocks]:
    """More and fewer rows at a time, some of the next on their way, by more and fewer threads."""
    x, warps = usual.x, usual.warps
    for rows, threads, stages in (
        (x, warps, 1),
        (2 * x, 2 * warps, usual.stages),
        (2 * x, warps, 1),
        (x, 2 * warps, usual.stages),
        (2 * x, 2 * warps, 1),
        (x // 2, warps // 2, usual.stages),
    ):
        if rows:
            yield replace(usual, x=rows, warps=threads, stages=stages)


def _columns(usual: Blocks, row: int) -> Iterator[Blocks]:
    """More and fewer columns, longer and shorter steps, more threads; longer ones none of which is on its way before."""
    x, r, warps, ahead = usual.x, usual.r, usual.warps, usual.stages
    for columns, steps, threads, stages in (
        (2 * x, r, 2 * warps, ahead),
        (x, 2 * r, warps if ahead > 1 else 2 * warps, 1),
        (x // 2, r, warps, ahead),
        (x, r, 2 * warps, ahead),
        (2 * x, r // 8, warps // 2, ahead),
        (x // 2, 2 * r, warps, ahead),
        (x // 2, r // 2, warps, ahead),
        (x, r // 2, warps, ahead),
    ):
        if columns and steps:
            yield replace(usual, x=columns, r=steps, persistent=row <= steps, warps=threads, stages=stages)


_KINDS: dict[tuple[bool, bool], Callable[[Blocks, int], Iterator[Blocks]]] = {
    (False, False): _flat,
    (False, True): _tiles,
    (True, False): _rows,
    (True, True): _columns,
}
"""By whether a kernel reduces, and whether its blocks have a tile."""
