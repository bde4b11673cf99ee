"""What every source answers, and what a frame holds that sources are read from."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from capture._native import Place
from capture.bytecode.instruction import Instruction
from symshapes import dataclass


@dataclass(frozen=True)
class FrameValues:
    """What a frame holds at entry, for reading sources from Python. `func` gives the closure."""

    args: Mapping[str, Any]
    globals: Mapping[str, Any] = field(default_factory=dict)
    builtins: Mapping[str, Any] = field(default_factory=dict)
    func: types.FunctionType | None = None

    def free(self, name: str) -> Any:
        """The content of the function's free variable. Raises `LookupError` if there is none or it is empty."""
        return content_of(self.cell(name))

    def cell(self, name: str) -> types.CellType:
        """The cell of the function's free variable. Raises `LookupError` if there is none."""
        if self.func is None or name not in self.func.__code__.co_freevars:
            raise LookupError(f"no free variable {name!r}")
        return (self.func.__closure__ or ())[self.func.__code__.co_freevars.index(name)]


class Source(Place):
    """Base of all sources; equal sources read the same place."""

    __slots__ = ()

    def spelled(self) -> str:
        """The place as a user would write it: what `name` gives."""
        raise NotImplementedError

    @property
    def parent(self) -> Source | None:
        """The source this one is read from; None for a root."""
        return None

    def load(self) -> list[Instruction]:
        """Instructions that push the value, in code that runs in the captured frame's place."""
        raise NotImplementedError

    def read(self, values: FrameValues) -> Any:
        """The value now. Raises what reading it raises."""
        raise NotImplementedError

    @property
    def path(self) -> Iterator[Source]:
        """The source itself, its parent, and so on to the outermost."""
        source: Source | None = self
        while source is not None:
            yield source
            source = source.parent

    def __str__(self) -> str:
        return self.name


def content_of(cell: types.CellType) -> Any:
    """What a cell holds. Raises `LookupError` if it is empty."""
    try:
        return cell.cell_contents
    except ValueError as error:
        raise LookupError("the cell is empty") from error
