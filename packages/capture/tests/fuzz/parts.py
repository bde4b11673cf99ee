"""What a state is drawn from: parts, each with how it is made, its places for values, how it is read and how it changes.

All is source text. ``H.`` stands for what holds the part (a module, an object, the globals, closure cells), ``$`` and a letter for
drawn text (``HOLES``).
"""

from __future__ import annotations

import dataclasses

from . import values


@dataclasses.dataclass(frozen=True)
class Part:
    name: str  #: of the attribute or global it is made as
    make: str
    classes: str = ""  #: what is made once, before
    places: tuple[str, ...] = ()  #: expressions that can be read, assigned and deleted
    reads: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()


PARTS: dict[str, Part] = {}

HOLES = {
    **values.VALUES,
    "C": ("Leaf", "Left", "Right", "Base", "Mixin"),
    "D": ("Right", "Base", "Left"),
    "S": ("Special", "Root_"),
}


def part(new: Part) -> None:
    assert new.name not in PARTS, new.name
    PARTS[new.name] = new
