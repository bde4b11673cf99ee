"""A bar on the terminal for what takes a while, by tqdm where that is installed. Nothing is shown where nobody watches."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Collection, Generator
from typing import Any, Protocol, TypeVar, cast

T = TypeVar("T")


class _Bar(Protocol):
    total: int | float | None

    def refresh(self) -> object: ...

    def update(self, count: float) -> object: ...

    def close(self) -> object: ...


class Progress:
    """Steps done of those to do. The bar is there while some are left.

    Args:
        what: is being done, with its unit.
    """

    def __init__(self, what: str, unit: str) -> None:
        self._what, self._unit = what, unit
        self._bar: _Bar | None = None
        self._left = 0
        self._lock = threading.Lock()

    def more(self, steps: int) -> None:
        """So many steps are to be done besides."""
        with self._lock:
            self._left += steps
            if self._bar is None:
                self._bar = _bar(self._what, self._unit)
            if self._bar is not None:
                self._bar.total = (self._bar.total or 0) + steps
                self._bar.refresh()

    def done(self, steps: int = 1) -> None:
        """So many were done, or need not be any more."""
        with self._lock:
            self._left -= steps
            if self._bar is not None:
                self._bar.update(steps)
                if self._left <= 0:
                    self._bar.close()
                    self._bar = None

    def over(self, items: Collection[T]) -> Generator[T, None, None]:
        """The items, each of which is a step that is done when the next one is asked for."""
        left = len(items)
        self.more(left)
        try:
            for item in items:
                yield item
                left -= 1
                self.done()
        finally:
            self.done(left)


def _bar(what: str, unit: str) -> _Bar | None:
    try:
        tqdm: Any = importlib.import_module("tqdm").tqdm
    except ImportError:
        return None
    made = tqdm(total=0, desc=what, unit=unit, leave=False, disable=None)  # None: where it is no terminal
    return cast(_Bar, made)
