"""What of a kernel decides its blocks, and the blocks that follow from it.

Flows in: a `Kernel`, and what is known of its sizes. Flows out: `Blocks`.
"""

from __future__ import annotations

import math

from inductor.device import Kernel
from inductor.ir.operations import Load, Reduce, Symbol
from inductor.levels import split
from inductor.primitives import REDUCTIONS
from inductor.triton.blocks import Blocks, Nature, choose, walking
from inductor.triton.extent import extent_of
from inductor.triton.scans import shared_part
from inductor.triton.tiles import is_turned, tile_of
from inductor.triton.totals import is_total, walked


def general_blocks(kernel: Kernel) -> Blocks:
    """Blocks for whatever numbers a kernel is called with."""
    sizes, inner, largest = extent_of(kernel).known
    return blocks_for(sizes, inner, nature_of(kernel), largest)


def nature_of(kernel: Kernel) -> Nature:
    """What of a kernel decides its blocks, besides its sizes."""
    passes = len(split(kernel.body).passes) if kernel.inner_sizes else 0
    width = max((arg.dtype.itemsize for arg in kernel.args if arg.role != "size"), default=1)
    tile = tile_of(kernel)
    finds = any(isinstance(op, Reduce) and REDUCTIONS[op.kind].finds_position for op in kernel.body.ops)
    walks = walked(kernel)
    if walks:
        rows = {kernel.body.outer_vars[at] for at in walks}
        return Nature(passes, width, read=_read(kernel, rows), walks=walks, totals=sum(map(is_total, kernel.body.ops)))
    turned = tile is None and is_turned(kernel)
    read = 0 if tile is None or not kernel.inner_sizes else _read(kernel, {kernel.body.outer_vars[tile.x]})
    return Nature(passes, width, tile, shared_part(kernel.body), read, turned, finds=finds)


def _read(kernel: Kernel, along: set[Symbol]) -> int:
    """Bytes that are read for each point of a block along outer variables and inner ones."""
    widths = {arg.name: arg.dtype.itemsize for arg in kernel.args}
    axes = along, set(kernel.body.inner_vars)
    loads = dict.fromkeys((op.buffer, op.index) for op in kernel.body.ops if isinstance(op, Load))
    return sum(
        widths[buffer] for buffer, index in loads if all(not index.free_symbols.isdisjoint(axis) for axis in axes)
    )


def blocks_for(sizes: tuple[int | None, ...], inner: int | None, nature: Nature, largest: int | None) -> Blocks:
    """Blocks of a kernel by what is known of it; see `choose`."""
    tile = nature.tile
    if nature.walks:
        over = [sizes[at] for at in nature.walks]
        assert inner is not None, "rows whose length is known are held"
        return walking(None if None in over else math.prod(map(int, over)), inner, nature, largest)  # type: ignore[arg-type]
    known = [size for size in sizes if size is not None]
    outer = math.prod(known) if len(known) == len(sizes) else None
    across = None if tile is None or tile.across is None else sizes[tile.across]
    return choose(outer, inner, nature, largest, (None if tile is None else sizes[tile.x], across))
