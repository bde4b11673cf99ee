"""The blocks that products of matrices are tried with, and those taken where nothing was tried: a table of what is fast on GPUs with
tensor cores, and which rows of it suit a product.

Flows in: a `Product`. Flows out: `Blocks`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from inductor.device import Kernel
from inductor.triton.blocks import PROGRAMS, Blocks, next_power_of_two
from inductor.triton.extent import extent_of
from inductor.triton.misaligned import rows_apart
from inductor.triton.product import Kind, Product
from inductor.triton.tiles import Tile


class Tiling(NamedTuple):
    """Rows, columns and steps of a block, and how it is compiled: what `KernelSource.settings` holds of a product."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


GROUP = 8
"""Rows of blocks that run side by side."""
LEAST = 16
"""Of a block, along each axis, that tensor cores take."""
MOST_TRIED = 6
MOST_SMALLER = 4
"""Blocks of fewer points than this part of the largest that keep processors busy read too much."""
LEAST_WARPS = 4
"""Where nothing is tried: fewer are a tenth faster at best, slower by more where rows begin anywhere, and take twice as long to compile."""
WIDE = 1 << 30
"""Positions from which on they have 64 bits: blocks reach beyond the end of a row, and of the last one."""

TILINGS: dict[Kind, tuple[Tiling, ...]] = {
    "half": (
        Tiling(128, 256, 64, 8, 3),
        Tiling(128, 256, 64, 8, 4),
        Tiling(256, 128, 64, 8, 3),
        Tiling(128, 128, 64, 4, 3),
        Tiling(128, 128, 64, 8, 4),
        Tiling(64, 256, 64, 4, 3),
        Tiling(128, 64, 64, 4, 4),
        Tiling(64, 128, 64, 4, 4),
        Tiling(64, 64, 128, 4, 3),
        Tiling(64, 64, 64, 4, 4),
        Tiling(64, 32, 128, 4, 4),
        Tiling(32, 64, 128, 4, 4),
        Tiling(32, 32, 128, 4, 4),
        Tiling(16, 128, 128, 4, 4),
        Tiling(16, 64, 128, 4, 4),
        Tiling(16, 32, 128, 2, 4),
        Tiling(32, 16, 128, 2, 4),
        Tiling(16, 16, 128, 1, 4),
    ),
    "tf32": (
        Tiling(128, 256, 32, 8, 3),
        Tiling(128, 128, 32, 8, 4),
        Tiling(128, 128, 32, 4, 3),
        Tiling(128, 64, 32, 4, 4),
        Tiling(64, 128, 32, 4, 4),
        Tiling(64, 64, 64, 4, 3),
        Tiling(64, 32, 64, 4, 3),
        Tiling(32, 32, 64, 4, 3),
    ),
    "ieee": (
        Tiling(128, 64, 16, 8, 3),
        Tiling(64, 64, 32, 4, 3),
        Tiling(64, 64, 16, 4, 3),
        Tiling(64, 32, 32, 4, 3),
        Tiling(32, 32, 32, 4, 3),
    ),
}
"""Largest first: the first that keeps all processors busy is the likeliest."""


def suitable(kernel: Kernel, product: Product) -> list[Tiling]:
    """The tilings that a product of known sizes may be fastest with, the likeliest first: no larger than it, and no smaller than keeps
    processors busy."""
    rows, columns, depth = (int(size) if size.is_Integer else None for size in product.sizes(kernel))
    batch = math.prod(int(size) if size.is_Integer else 1 for size in kernel.outer_sizes) // (
        (rows or 1) * (columns or 1)
    )
    fitting = [
        tiling for tiling in TILINGS[product.kind] if _fits(tiling.rows, rows) and _fits(tiling.columns, columns)
    ]
    known = list(dict.fromkeys(tiling._replace(depth=min(tiling.depth, _whole(depth))) for tiling in fitting))
    if rows is None or columns is None:
        return known[:1]

    def programs(tiling: Tiling) -> int:
        return batch * -(-rows // tiling.rows) * -(-columns // tiling.columns)

    enough = min(PROGRAMS // 4, max(map(programs, known)))
    busy = [tiling for tiling in known if programs(tiling) >= enough]
    largest = max(tiling.rows * tiling.columns for tiling in busy)
    return [tiling for tiling in busy if tiling.rows * tiling.columns * MOST_SMALLER >= largest][:MOST_TRIED]


def usual(kernel: Kernel, product: Product) -> Tiling:
    """The tiling taken where nothing is tried."""
    likeliest = suitable(kernel, product)[0]
    return likeliest._replace(warps=max(likeliest.warps, LEAST_WARPS))


def _fits(block: int, size: int | None) -> bool:
    return size is None or block <= _whole(size)


def _whole(size: int | None) -> int:
    return 1 << 30 if size is None else max(LEAST, next_power_of_two(size))


def blocks_of(kernel: Kernel, product: Product, tiling: Tiling) -> Blocks:
    """The blocks of a tiling."""
    _, _, largest = extent_of(kernel).known
    return Blocks(
        x=tiling.rows,
        r=tiling.columns,
        persistent=True,
        warps=tiling.warps,
        wide=largest is None or largest > WIDE,
        tile=Tile(product.rows, product.columns),
        depth=tiling.depth,
        group=GROUP,
        stages=tiling.stages,
        apart=rows_apart(kernel, product, tiling.rows),
    )


__all__ = ["Tiling", "blocks_of", "suitable", "usual"]
