"""Which form of a kernel runs for the numbers it is called with: short rows stay in registers, positions have 32 bits where
that is enough, and what the sizes say at compile time is said by the launch where they don't.

Flows in: a `Kernel`, how its text becomes a function. Flows out: `Choices`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

from inductor.device import Kernel
from inductor.triton.blocks import Blocks, programs
from inductor.triton.extent import extent_of
from inductor.triton.kernel import KernelPrinter
from inductor.triton.nature import blocks_for, general_blocks, nature_of
from inductor.triton.scans import sharing, words_of
from symshapes import dataclass

Make = Callable[[str, str], Any]
"""A kernel's text and its name to its function."""
Plan = tuple[int, int, int]
"""Of a launch: units of work (outer points, or tiles one by one), the form's number, units of one program."""
MOST_IDLE = 4
"""A row may be held in so many times the registers that it needs, rather than that the kernel is compiled again."""


@dataclass(frozen=True)
class Case:
    """What is known of a launch."""

    sizes: tuple[int, ...]
    """Outer ones."""
    row: int
    """Inner points."""
    usual: Blocks
    """What the heuristics say."""


class Choices:
    """The forms of one kernel, made as launches ask for them.

    Args:
        general: the function of the kernel's general text.
        make: see `Make`.
        blocks: of the only form, which serves whatever it is called with; without, there are forms by sizes.
    """

    def __init__(self, kernel: Kernel, general: Any, make: Make, blocks: Blocks | None = None) -> None:
        extent = extent_of(kernel)
        self._only = blocks is not None
        self.blocks: list[Blocks] = [blocks or general_blocks(kernel)]
        self.kernel = sharing(kernel, self.blocks[0])
        self._make = make
        self._sizes, self._inner, largest = extent.known
        self.reduces = extent.reduces
        """There is an inner space."""
        self._nature = nature_of(kernel)
        self._functions: dict[int, Any] = {0: general}
        self._usual, self._taken = [0], dict[Case, int]()
        sizes = [size for size in self._sizes if size is not None]
        known = len(sizes) == len(self._sizes) and self._inner is not None and largest is not None
        self.points: int | None = math.prod(sizes) if known else None
        """The outer points of a kernel of which all is known: it has one form."""
        self._row = cast(int, self._inner)
        self._measure = None if known else extent.measure()

    def case(self, *numbers: Any) -> Case:
        """What a launch with these numbers asks for."""
        if self._measure is None:
            return Case(cast(tuple[int, ...], self._sizes), cast(int, self._inner), self.blocks[0])
        sizes, row, largest = self._measure(*numbers)
        return Case(sizes, row, self.blocks[0] if self._only else blocks_for(self._sizes, row, self._nature, largest))

    @property
    def cases(self) -> int:
        """How many were taken."""
        return len(self._taken)

    def knows(self, case: Case) -> bool:
        """Whether it was taken."""
        return case in self._taken

    def take(self, case: Case, blocks: Blocks) -> int:
        """Run launches of this case by these blocks from now on; gives the form's number."""
        form = self._taken[case] = self.form_of(blocks)
        return form

    def form_of(self, blocks: Blocks) -> int:
        """The number of the form with these blocks, which is made if there is none."""
        if blocks not in self.blocks:
            self.blocks.append(blocks)
        return self.blocks.index(blocks)

    def plan(self, *numbers: Any) -> Plan:
        """Of a launch with these numbers."""
        case = self.case(*numbers)
        form = self._taken.get(case)
        return self.work(case.sizes, self._usual_form(case.usual) if form is None else form)

    def work(self, sizes: tuple[int, ...], form: int) -> Plan:
        """`plan` for a form."""
        blocks, points = self.blocks[form], math.prod(sizes)
        if blocks.shared:
            return points * -(-self._row // blocks.r), form, 1
        if points == 0 or (blocks.tile is None and not blocks.walks):
            return points, form, blocks.x
        return programs(sizes, blocks), form, 1

    def _usual_form(self, wanted: Blocks) -> int:
        """Of those that the heuristics asked for so far one that serves as well, or a new one."""
        found = None
        for at in self._usual:
            blocks = self.blocks[at]
            if blocks == wanted:
                return at
            if (
                (blocks.wide, blocks.persistent, blocks.x if blocks.tile else 0)
                == (wanted.wide, wanted.persistent, wanted.x if wanted.tile else 0)
                and wanted.r <= blocks.r <= MOST_IDLE * wanted.r
                and (found is None or blocks.r < self.blocks[found].r)
            ):
                found = at
        if found is None:
            found = self.form_of(wanted)
            self._usual.append(found)
        return found

    @property
    def words(self) -> int:
        """How many words of memory that is zero a launch brings, if any."""
        blocks = self.blocks[0]
        return words_of(self.kernel, blocks, cast(int, self.points), self._row) if blocks.shared else 0

    def function(self, form: int) -> Any:
        """The function of a form."""
        found = self._functions.get(form)
        if found is None:
            text = KernelPrinter(self.kernel, self.blocks[form]).text()
            found = self._functions[form] = self._make(text, self.kernel.name)
        return found
