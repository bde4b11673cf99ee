"""Which form of a kernel runs for the numbers it is called with: short rows stay in registers, positions have 32 bits where
that is enough, and what the sizes say at compile time is said by the launch where they don't.

Flows in: a `Kernel`, how its text becomes a function. Flows out: `Choices`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

from inductor.device import Kernel
from inductor.triton.blocks import Blocks
from inductor.triton.extent import extent_of
from inductor.triton.kernel import KernelPrinter, blocks_for, general_blocks
from inductor.triton.tiles import tile_of

Make = Callable[[str, str], Any]
"""A kernel's text and its name to its function."""
MOST_IDLE = 4
"""A row may be held in so many times the registers that it needs, rather than that the kernel is compiled again."""


class Choices:
    """The forms of one kernel, made as launches ask for them.

    Args:
        general: the function of the kernel's general text.
        make: see `Make`.
        blocks: of the only form, which serves whatever it is called with; without, there are forms by sizes.
    """

    def __init__(self, kernel: Kernel, general: Any, make: Make, blocks: Blocks | None = None) -> None:
        extent = extent_of(kernel)
        self.kernel = kernel
        self._make = make
        self._sizes, inner, largest = extent.known
        self._reduces = extent.reduces
        self._tile = tile_of(kernel)
        self._only = blocks is not None
        self.blocks: list[Blocks] = [blocks or general_blocks(kernel)]
        self._functions: dict[int, Any] = {0: general}
        sizes = [size for size in self._sizes if size is not None]
        known = len(sizes) == len(self._sizes) and inner is not None and largest is not None
        self.points: int | None = math.prod(sizes) if known else None
        """The outer points of a kernel of which all is known: it has one form."""
        self._measure = None if known else extent.measure()

    def plan(self, *numbers: Any) -> tuple[int, int, int]:
        """For a launch: units of work, the form's number, units of one program: outer points, or tiles one by one."""
        if self._measure is None:
            return self._work(cast(tuple[int, ...], self._sizes), 0)
        sizes, row, largest = self._measure(*numbers)
        if self._only:
            return self._work(sizes, 0)
        wanted = blocks_for(self._sizes, row, self._reduces, largest, self._tile)
        at = self._like(wanted)
        if at is None:
            self.blocks.append(wanted)
            at = self.blocks.index(wanted)
        return self._work(sizes, at)

    def _work(self, sizes: tuple[int, ...], form: int) -> tuple[int, int, int]:
        blocks, points = self.blocks[form], math.prod(sizes)
        tile = blocks.tile
        if tile is None or points == 0:
            return points, form, blocks.x
        axes = {tile.x: blocks.x} if tile.across is None else {tile.x: blocks.x, tile.across: blocks.r}
        return math.prod(-(-size // axes.get(at, 1)) for at, size in enumerate(sizes)), form, 1

    def _like(self, wanted: Blocks) -> int | None:
        """A form that is there and serves as well."""
        found = None
        for at, blocks in enumerate(self.blocks):
            if blocks == wanted:
                return at
            if (
                (blocks.wide, blocks.persistent, blocks.x if blocks.tile else 0)
                == (wanted.wide, wanted.persistent, wanted.x if wanted.tile else 0)
                and wanted.r <= blocks.r <= MOST_IDLE * wanted.r
                and (found is None or blocks.r < self.blocks[found].r)
            ):
                found = at
        return found

    def function(self, form: int) -> Any:
        """The function of a form."""
        found = self._functions.get(form)
        if found is None:
            text = KernelPrinter(self.kernel, self.blocks[form]).text()
            found = self._functions[form] = self._make(text, self.kernel.name)
        return found
