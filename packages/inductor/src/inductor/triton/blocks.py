"""Block sizes. Flows in: a kernel's iteration counts. Flows out: XBLOCK, RBLOCK, warps; plain heuristics, no tuning."""

from __future__ import annotations

from dataclasses import dataclass

from inductor.triton.tiles import Tile

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
    tile: Tile | None = None
    """Which variables the block's axes run over; None: `x` is of the flat outer space."""
    depth: int = 0
    """Of a product of matrices: so many steps at a time."""
    group: int = 1
    """Of a product: rows of blocks that run side by side, so that they read the same columns out of the cache."""
    stages: int | None = None
    """Of loads under way in a loop; None: as Triton does."""

    @property
    def options(self) -> dict[str, int]:
        """What the compiler is told of it."""
        return {"num_warps": self.warps} | ({} if self.stages is None else {"num_stages": self.stages})


def next_power_of_two(value: int) -> int:
    """The smallest power of two that is not below `value`."""
    return 1 << max(0, value - 1).bit_length()


ROWS = 1024
"""Points of a block of short rows."""
WARP = 1024
"""Points of a warp in a block of rows."""
MOST_WARPS = 8
LOOPED = 8192
"""Points of a longer row that are looked at together."""
TILE = 4096
"""Points of a block with a tile."""
PROGRAMS = 256
"""With fewer some processors of a GPU have nothing to do."""


def choose(
    outer: int | None,
    inner: int | None,
    reduces: bool,
    largest: int | None,
    tile: Tile | None = None,
    axes: tuple[int | None, int | None] = (None, None),
) -> Blocks:
    """Blocks of about a thousand points; a reduction's rows side by side while they are short.

    Args:
        outer: how many outer points there are; None: any number. So are the others.
        inner: how many inner ones, if it `reduces`.
        largest: no position is larger, nor any number on the way to one.
        tile: what the axes run over, and `axes`: how many points that are.
    """
    most = next_power_of_two(1 << 20 if outer is None else outer)
    # The last block of a walk reaches beyond the end.
    wide = largest is None or largest > INT32_LIMIT - max(PERSISTENT_LIMIT, LOOPED)
    if tile is not None:
        return _tiled(outer, inner, reduces, wide, tile, axes)
    if not reduces:
        x = min(1024, most)
        return Blocks(x=x, r=1, persistent=True, warps=max(1, min(4, x // 128)), wide=wide)
    persistent = inner is not None and inner <= PERSISTENT_LIMIT
    r = next_power_of_two(inner) if inner is not None and persistent else LOOPED
    x = max(1, min(most, ROWS // r))
    return Blocks(x=x, r=r, persistent=persistent, warps=max(1, min(MOST_WARPS, x * r // WARP)), wide=wide)


def _tiled(
    outer: int | None, inner: int | None, reduces: bool, wide: bool, tile: Tile, axes: tuple[int | None, int | None]
) -> Blocks:
    """Square blocks, or long ones where an axis is short; of a reduction narrower ones where there would be few programs."""
    first, second = (next_power_of_two(TILE if axis is None else axis) for axis in axes)
    if not reduces:
        x = min(64, first)
        r = min(TILE // x, second, 128)
        x = min(TILE // r, first, 128)
        return Blocks(x, r, persistent=True, warps=_warps(x * r), wide=wide, tile=tile)
    few = outer is not None and outer < 64 * PROGRAMS
    x = min(32 if few else 64, first)
    row = TILE if inner is None else next_power_of_two(inner)
    r = min(TILE // x, row)
    return Blocks(x, r, persistent=inner is not None and inner <= r, warps=_warps(x * r), wide=wide, tile=tile)


def _warps(points: int) -> int:
    return max(1, min(8, points // 256))
