"""What a frame's locals hold that are not read any more: it lives until the frame ends, or gives the local another value.

Only what there really is can be told to live: what came from outside, and what generated code makes for others. What nothing but such a local
holds is made nowhere: no weak reference can tell of it, nor has it a finalizer, of which each instance is made for real.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from capture._native import address
from capture.bytecode import build
from capture.sources import Const

from .base import Variable
from .placeholders import resolved
from .reconstruction import CannotReconstruct, Emitter

#: Of a variable: the one that stands for the whole object, whether generated code makes that, and the classes that it knows by their prototypes.
Look = Callable[[Variable], tuple[Variable, bool, Iterable[Variable]]]


def _unmade(variable: Variable) -> tuple[Variable, bool, Iterable[Variable]]:
    return resolved(variable), False, ()


class Several(Variable):
    """Values that are held, and are not read again: as a tuple, which lets go of its last element first."""

    def __init__(self, parts: list[Variable]) -> None:
        self.parts = parts

    def made_of(self) -> Iterable[Variable]:
        return self.parts

    def reconstruct(self, e: Emitter) -> None:
        e.emit(build.build_tuple(e.load_many(self.parts)))


def held_locals(frame: Any, live: frozenset[str], look: Look = _unmade) -> dict[str, Variable]:
    """By name, what the locals but the ``live`` ones hold: what they have, or of what is not made the parts that there are."""
    found: dict[str, Variable] = {}
    for name, value in frame.local.items():
        if name in live or name in frame.cells:
            continue
        parts = held_parts(value, look)
        if parts:
            found[name] = parts[0] if len(parts) == 1 else Several(parts)
    return found


def held_parts(value: Variable, look: Look) -> list[Variable]:
    """A value, if there really is one; else what it is made of and there is, what that is made of, and so on: a tuple of these lets go of
    them in the same order."""
    found: list[Variable] = []
    left, met = [value], set()
    while left:
        each, is_made, classes = look(left.pop())
        if address(each) in met or each.holds_nothing:
            continue
        met.add(address(each))
        if is_made or (each.source is not None and not isinstance(each.source, Const)):
            found.append(each)
            continue
        left += classes
        if each.node is not None:
            left += each.attached()
            continue
        with contextlib.suppress(CannotReconstruct):
            parts = [part for part in each.made_of() if part is not None]
            left += parts if each.dies_backwards else parts[::-1]
    return found[::-1]
