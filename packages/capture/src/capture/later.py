"""What generated code seldom needs, made when it is first read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _done() -> None:
    """In the place of what was made once, and may have much to do with."""


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
        make = self._make
        if make is _done:  # by another thread since this one has looked
            return self.made
        made = make()
        if self._make is _done:
            return self.made
        self.made = made
        self._make = _done
        self.__class__ = Made  # type: ignore[assignment]
        return made
