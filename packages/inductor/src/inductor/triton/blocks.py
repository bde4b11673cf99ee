"""Block sizes. Flows in: a kernel's iteration counts. Flows out: XBLOCK, RBLOCK, warps; plain heuristics, no tuning."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, replace

from inductor.triton.tiles import Tile
from symshapes import dataclass

INT32_LIMIT = 2**31 - 1
MULTIPLE = 16
"""Of what addresses (in bytes) and numbers may be assumed to be multiples: it lets Triton load wide vectors."""


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
    tile: Tile | None = None
    """Which variables the block's axes run over; None: `x` is of the flat outer space."""
    stages: int = 1
    """How many steps of a loop are on their way at once."""
    shared: bool = False
    """A program has one part of one row, `r` points."""
    depth: int = 0
    """Of a product of matrices: so many steps at a time."""
    group: int = 1
    """Of a product: rows of blocks that run side by side, so that they read the same columns out of the cache."""
    walks: tuple[int, ...] = ()
    """Outer variables that a program walks through, `x` points at a time, keeping totals; it has one value of the others."""
    apart: int = 1
    """Of a product: every so many rows begin alike in memory. Such rows share a block, whose columns begin where vectors do."""

    @property
    def options(self) -> dict[str, int]:
        """What the compiler is told of it."""
        # Other loops say for themselves how many of their steps are on their way.
        return {"num_warps": self.warps} | ({"num_stages": self.stages} if self.depth else {})

    def text(self) -> str:
        """What `read` reads."""
        return json.dumps(asdict(self))


def read(text: str) -> Blocks:
    """Blocks as they were written."""
    found = json.loads(text)
    tile = found.pop("tile")
    return Blocks(**{**found, "walks": tuple(found["walks"])}, tile=None if tile is None else Tile(**tile))


def next_power_of_two(value: int) -> int:
    """The smallest power of two that is not below `value`."""
    return 1 << max(0, value - 1).bit_length()


HELD_LIMIT, READ_LIMIT = 8192, 16384
"""Longest row that one block holds, where it is walked over several times, and where once; longer ones are looped over."""
ROWS = 2048
"""Points of a block of short rows."""
WARP = 512
"""Points of a warp in a block of rows."""
MOST_WARPS = 16
LOOPED = 8192
"""Points of a longer row that are looked at together."""
LOOPED_WARPS = 8
AGAIN = 16384
"""Points of one that is walked over again: more threads have fewer rows at a time, which the cache holds until then."""
WORD = 16
"""Bytes that a thread reads at once, if they begin at a multiple."""
TILE = 4096
"""Points of a block with a tile."""
FEW, FEWEST = 32, 8
"""Columns of a block where there are few, and where there are so few that most processors wait for the others."""
WAITED = 64
"""Programs that do not."""
STEP = 32
"""Points of longer columns that are looked at together."""
AHEAD, AHEAD_BYTES = range(3, 5), 30 << 10
"""How many steps of columns are on their way at once, and what they may take of the memory that a program's threads share."""
TURNED = 64
"""Bytes of neighbouring rows that lie side by side where a kernel reads or writes something the other way around."""
TURNED_POINTS = 16384
"""Points of a block of such rows."""
SHARED_ROWS = 128
"""With fewer rows whose running results are wanted programs share those that are long."""
SHARED_ROW = 1 << 15
"""What is long then."""
WALKED = 2048
"""Points of a block of rows that a program walks through."""
WARP_OF_TOTALS = 2048
"""Totals of a warp at most: as many as its threads have registers for, beside what they compute with."""
WALKED_AHEAD, WALKED_BYTES = 4, 3 << 15
"""How many of them are on their way at once, and what they may take of the memory that a program's threads share."""
PROGRAMS = 256
"""With fewer some processors of a GPU have nothing to do."""


@dataclass(frozen=True)
class Nature:
    """What of a kernel decides its blocks, besides its sizes."""

    passes: int
    """How often it walks over a row: 0 where there is none, since it does not reduce."""
    width: int
    """Bytes of the largest element that it reads or writes."""
    tile: Tile | None = None
    part: int = 0
    """How many points of a row a program may have that shares it with others; 0: programs share none."""
    read: int = 0
    """Bytes that it reads for each point of its block."""
    turned: bool = False
    """Some of what it reads or writes is contiguous in another variable than its rows."""
    walks: tuple[int, ...] = ()
    """Outer variables that totals are over, which it keeps."""
    totals: int = 0
    """How many of a column."""
    finds: bool = False
    """It looks for positions: for that threads had better have many points each, and little to tell each other."""


def choose(
    outer: int | None,
    inner: int | None,
    nature: Nature,
    largest: int | None,
    axes: tuple[int | None, int | None] = (None, None),
) -> Blocks:
    """Blocks of one or two thousand points; a reduction's rows side by side while they are short.

    Args:
        outer: how many outer points there are; None: any number. So are the others.
        inner: how many inner ones, if it reduces.
        largest: no position is larger, nor any number on the way to one.
        axes: how many points each axis of the tile runs over.
    """
    # The last block of a walk reaches beyond the end; where one holds all of a row no number comes near the limit.
    wide = largest is None or largest > INT32_LIMIT - (LOOPED if nature.passes < 2 else AGAIN)
    if nature.tile is not None:
        return _tiled(outer, inner, nature, wide, nature.tile, axes)
    if nature.passes == 0:
        x = min(1024 if nature.width > 2 else 2048, 1 << 20 if outer is None else next_power_of_two(outer))
        return Blocks(x=x, r=1, persistent=True, warps=max(1, min(4, x // 128)), wide=wide)
    if nature.part and outer is not None and outer < SHARED_ROWS and inner is not None and inner >= SHARED_ROW:
        warps = max(1, min(LOOPED_WARPS, nature.part // (2 * WARP)))
        return Blocks(x=1, r=nature.part, persistent=True, warps=warps, wide=wide, shared=True)
    if nature.passes > 1 and inner is not None and inner > AGAIN:
        return Blocks(x=1, r=AGAIN, persistent=False, warps=MOST_WARPS, wide=wide)
    if inner is None or inner > (READ_LIMIT if nature.passes == 1 else HELD_LIMIT):
        return Blocks(x=1, r=LOOPED, persistent=False, warps=LOOPED_WARPS, wide=wide)
    r = next_power_of_two(inner)
    x = _rows(outer, r, inner * nature.width % WORD == 0)
    if nature.turned and outer is not None:
        side_by_side = min(next_power_of_two(outer), TURNED // nature.width, TURNED_POINTS // r)
        if side_by_side > x:
            return Blocks(side_by_side, r, persistent=True, warps=_warps(side_by_side * r, 2048), wide=wide)
    each = (
        4 * WARP if nature.finds else WARP // 2 if outer == 1 else WARP
    )  # nobody else wants the threads of a program that is alone
    return Blocks(x=x, r=r, persistent=True, warps=max(1, min(MOST_WARPS, x * r // each)), wide=wide)


def walking(rows: int | None, inner: int, nature: Nature, largest: int | None) -> Blocks:
    """Blocks of a kernel that keeps totals over so many rows, each of which it holds; the next rows are on their way."""
    wide = largest is None or largest > INT32_LIMIT - LOOPED
    r = next_power_of_two(inner)
    x = max(1, min(WALKED // r, WALKED if rows is None else next_power_of_two(rows)))
    ahead = WALKED_AHEAD if WALKED_AHEAD * x * r * nature.read <= WALKED_BYTES else 1
    held = next_power_of_two(nature.totals)  # a program's warps are a power of two
    warps = max(1, min(MOST_WARPS, max(x * r // WARP, x * r * held // WARP_OF_TOTALS)))
    return Blocks(x, r, persistent=True, warps=warps, wide=wide, walks=nature.walks, stages=ahead)


def _rows(outer: int | None, r: int, aligned: bool) -> int:
    """How many rows lie side by side. As many as keep a warp busy; more where enough programs are left, and threads read words: where
    they don't, several warps share a row, and wait for each other."""
    least, most = max(1, WARP // r), max(1, ROWS // r)
    if not aligned:
        most = least
    if outer is None:
        return most
    programs = 1 << max(0, (outer // PROGRAMS).bit_length() - 1)
    return min(next_power_of_two(outer), max(least, min(most, programs)))


def programs(sizes: Sequence[int], blocks: Blocks) -> int:
    """How many programs an outer space of these sizes takes."""
    tile = blocks.tile
    if blocks.walks:
        return math.prod(size for at, size in enumerate(sizes) if at not in blocks.walks)
    if tile is None:
        return -(-math.prod(sizes) // blocks.x)
    return math.prod(_along(blocks, tile, at, size) for at, size in enumerate(sizes))


def _along(blocks: Blocks, tile: Tile, at: int, size: int) -> int:
    """How many blocks one outer variable takes."""
    if at == tile.x:
        alike = -(-size // blocks.apart)
        return blocks.apart * -(-alike // blocks.x)
    return -(-(size + blocks.apart - 1) // blocks.r) if at == tile.across else size


def of_any_size(blocks: Blocks) -> Blocks:
    """Blocks for outer spaces and rows of many sizes: what is printed for a few of them serves all. Rows have a power of four as room.
    What has a single point stays alone."""
    if blocks.x == blocks.r == 1:
        return replace(blocks, warps=1)
    if blocks.tile is not None:
        if blocks.tile.across is None:
            return replace(blocks, stages=1)
        return replace(blocks, x=64, r=64, warps=_warps(TILE, 512))
    r = max(blocks.r, min(HELD_LIMIT, 1 << (blocks.r.bit_length() // 2 * 2))) if blocks.persistent else blocks.r
    x = max(1, ROWS // r)
    return replace(blocks, x=x, r=r, warps=4 if r == 1 else max(1, min(MOST_WARPS, x * r // WARP)))


def _tiled(
    outer: int | None, inner: int | None, nature: Nature, wide: bool, tile: Tile, axes: tuple[int | None, int | None]
) -> Blocks:
    """Square blocks, or long ones where an axis is short; of a reduction narrower ones where there would be few programs, and a few rows
    at a time, the next of them on their way."""
    first, second = (next_power_of_two(TILE if axis is None else axis) for axis in axes)
    if nature.passes == 0:
        x = min(64, first)
        r = min(TILE // x, second, 128)
        x = min(TILE // r, first, 128)
        return Blocks(x, r, persistent=True, warps=_warps(x * r, 512), wide=wide, tile=tile)
    few = outer is not None and outer < 64 * PROGRAMS
    least = FEW if outer is None else min(FEW, max(FEWEST, next_power_of_two(outer) // WAITED))
    x = min(least if few else 64, first)
    row = TILE if inner is None else next_power_of_two(inner)
    r = min(TILE // x, row)
    if not few and r < row and nature.read:
        ahead = min(AHEAD[-1], AHEAD_BYTES // (x * STEP * nature.read))
        if ahead in AHEAD:
            return Blocks(x, STEP, persistent=False, warps=4, wide=wide, tile=tile, stages=ahead)
    warps = _warps(x * r, 512 if x < FEW // 2 else 1024)
    return Blocks(x, r, persistent=inner is not None and inner <= r, warps=warps, wide=wide, tile=tile)


def _warps(points: int, each: int) -> int:
    return max(1, min(8, points // each))
