"""How a graph learns that one of its kernels met a position out of range.

Flows in: what kernels write into a number in pinned host memory, which they reach without the host's doing. Flows out: an
exception of the kind eager's CPU kernel raises; device memory was left alone and the GPU's context stays usable.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Protocol

import torch

from inductor.ops import INDEX_RULES

ERRORS: tuple[type[Exception], ...] = tuple(dict.fromkeys(rule.error for rule in INDEX_RULES.values() if rule.error))
"""A kernel writes one more than the place here; 0 is what nothing is wrong with."""


def code_of(rule: str) -> int:
    """What a kernel writes where a position breaks `rule`."""
    error = INDEX_RULES[rule].error
    assert error is not None
    return ERRORS.index(error) + 1


class Points(Protocol):
    """Points of a device's streams."""

    def mark(self) -> None:
        """Remember this point of the current device's current stream."""

    def wait(self) -> None:
        """Until the points marked since the last call are reached."""


class IndexChecks:
    """The number of one graph. `mark` is called after its last kernel that checks positions, `settle` before it returns."""

    def __init__(self, points: Points | None) -> None:
        """`points`: None where a kernel has run once its call returns."""
        self.number = torch.zeros(1, dtype=torch.int32, pin_memory=points is not None)
        self._seen = ctypes.c_int32.from_address(self.number.data_ptr())
        self._points = points
        self.mark: Callable[[], None] = _nothing if points is None else points.mark
        """Remember this point of the current device's current stream."""

    def settle(self, wait: bool = True) -> None:
        """Raise what a kernel found; with `wait`, after the marked points were reached.

        Raises:
            IndexError, RuntimeError: as the broken `IndexRule` says.
        """
        if wait and self._points is not None:
            self._points.wait()
        found = self._seen.value
        if found:
            self._seen.value = 0
            raise ERRORS[found - 1]("index out of range in self")


def _nothing() -> None:
    """There is nothing to wait for."""
