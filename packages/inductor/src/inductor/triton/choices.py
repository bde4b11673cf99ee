"""Which form of a kernel runs for the numbers it is called with: short rows stay in registers, positions have 32 bits where
that is enough, and what the sizes say at compile time is said by the launch where they don't.

Flows in: a `Kernel`, how its text becomes a function. Flows out: `Choices`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from inductor.device import Kernel
from inductor.triton.blocks import Blocks, choose
from inductor.triton.extent import extent_of
from inductor.triton.kernel import KernelPrinter, general_blocks

Make = Callable[[str, str], Any]
"""A kernel's text and its name to its function."""
MOST_IDLE = 4
"""A row may be held in so many times the registers that it needs, rather than that the kernel is compiled again."""


class Choices:
    """The forms of one kernel, made as launches ask for them.

    Args:
        general: the function of the kernel's general text.
        make: see `Make`.
    """

    def __init__(self, kernel: Kernel, general: Any, make: Make) -> None:
        extent = extent_of(kernel)
        self.kernel = kernel
        self._make = make
        self._outer, inner, largest = extent.known
        self._reduces = extent.reduces
        self.blocks: list[Blocks] = [general_blocks(extent)]
        self._functions: dict[int, Any] = {0: general}
        known = self._outer is not None and inner is not None and largest is not None
        self.points: int | None = self._outer if known else None
        """The outer points of a kernel of which all is known: it has one form."""
        self._measure = None if known else extent.measure()

    def plan(self, *numbers: Any) -> tuple[int, int, int]:
        """For a launch: outer points, the form's number, outer points of one program."""
        if self._measure is None:
            assert self.points is not None
            return self.points, 0, self.blocks[0].x
        points, row, largest = self._measure(*numbers)
        wanted = choose(self._outer, row, self._reduces, largest)
        at = self._like(wanted)
        if at is None:
            self.blocks.append(wanted)
            at = self.blocks.index(wanted)
        return points, at, self.blocks[at].x

    def _like(self, wanted: Blocks) -> int | None:
        """A form that is there and serves as well."""
        found = None
        for at, blocks in enumerate(self.blocks):
            if blocks == wanted:
                return at
            if (
                (blocks.wide, blocks.persistent) == (wanted.wide, wanted.persistent)
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
