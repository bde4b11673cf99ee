"""Where the time of a compilation goes: stretches of work by name, each without the stretches inside it.

Flows in: what is done, as it begins and ends, in any package. Flows out: seconds by name, to whoever asked in that thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_clock: ContextVar[_Clock | None] = ContextVar("_clock", default=None)


class _Clock:
    """Counts for one name at a time: that of the innermost phase."""

    def __init__(self, name: str) -> None:
        self.seconds = {name: 0.0}
        self.name = name
        self.since = time.perf_counter()

    def switch(self, name: str) -> str:
        """Count for `name` from now on; gives the name that was counted for."""
        now = time.perf_counter()
        before, self.name = self.name, name
        self.seconds[before] += now - self.since
        self.seconds.setdefault(name, 0.0)
        self.since = now
        return before


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Count the time inside as `name`'s, but for phases within; next to nothing while nobody asks."""
    clock = _clock.get()
    if clock is None:
        yield
        return
    before = clock.switch(name)
    try:
        yield
    finally:
        clock.switch(before)


@contextmanager
def timed_phases(rest: str = "other") -> Iterator[dict[str, float]]:
    """Seconds by phase, in the order of their beginnings, of what this thread does inside; they add up to its time.

    Args:
        rest: the name of what belongs to no phase. It comes first.
    """
    clock = _Clock(rest)
    token = _clock.set(clock)
    try:
        yield clock.seconds
    finally:
        clock.switch(rest)
        _clock.reset(token)
