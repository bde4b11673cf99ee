"""What is left of sources once they are but told of: they keep no object of the program's alive."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from capture.labels import Told
from capture.records import record

from .base import FrameValues, Source
from .parts import Item, ReadFrom
from .roots import Const


@record()
class Remembered(Source):
    """What a ``Const`` was of."""

    label: str
    told: Told = field(compare=False)

    def spelled(self) -> str:
        return self.label

    def read(self, values: FrameValues) -> object:
        return self.told.now()


def remembered(source: Source, known: dict[Source, Source]) -> Source:
    """A source of the same name that is read in the same way and holds weakly what can be held so.

    ``known`` has what was made before.
    """
    found = known.get(source) or _along(source, known)
    # Equal sources read the same place, and may have been given different names: by the labels of what they begin with.
    root: Any = source.root
    alike = type(root) is not Const or (root.label or root.name) == found.root.label
    return found if alike else _along(source, {})


def _along(source: Source, known: dict[Source, Source]) -> Source:
    """From the root on, in a loop: sources may nest deeply."""
    path = []
    at: Source | None = source
    while at is not None and at not in known:
        path.append(at)
        at = at.parent
    for each in reversed(path):
        known[each] = _remembered(each, known)
    return known[source]


def _remembered(source: Source, known: dict[Source, Source]) -> Source:
    if type(source) is Const:
        # A module's dictionary cannot be held weakly, and is not made as programs run.
        return (
            source if issubclass(type(source.value), dict) else Remembered(source.name, Told(source.value, source.name))
        )
    if not isinstance(source, ReadFrom):
        return source
    made = source.without_key() if isinstance(source, Item) else source
    base = known[source.base]
    return made if base is source.base else made.on(base)
