"""What generated code seldom needs, made when it is first read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Made:
    """What generated code reads as ``made``."""

    __slots__ = ("_make", "made")

    made: Any
    _make: Callable[[], Any]


class Later(Made):
    """The same while it is not made: who reads it has it made, and this is of the other class then, which is read fast."""

    __slots__ = ()

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:
        if name != "made":
            raise AttributeError(name)
        made = self.made = self._make()
        # What it was made of is let go of. Another thread may be about to ask, as it found nothing either.
        self._make = lambda: made
        self.__class__ = Made  # type: ignore[assignment]
        return made
