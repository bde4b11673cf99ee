"""Points of CUDA's streams: marked by a call, waited for at its end. Through `launcher.c`: torch's events, and calls by ctypes, take longer than a
small kernel runs.

Flows in: the current device and its current stream. Flows out: nothing; the driver's events stand for the points.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any

from inductor._torch import current_cuda_device
from inductor.triton import native

_WITHOUT_TIME = 2
"""CU_EVENT_DISABLE_TIMING"""


class _Alive:
    """Lives as long as its thread and the points do."""


class StreamPoints(threading.local):
    """Each thread's own: one event a device, which ends with the thread."""

    def __init__(self) -> None:
        self._native = native.points()
        self._events: dict[int, int] = {}
        self._marked: list[int] = []
        self._alive = _Alive()
        weakref.finalize(self._alive, _destroy, native.cuda_driver(), self._events)

    def mark(self) -> None:
        """Remember now. Not while the stream is captured, where nothing runs and nothing can be waited for: what goes wrong in
        a replay is raised by the next call outside of one.

        Raises:
            RuntimeError: the driver refuses.
        """
        device = current_cuda_device()
        event = self._events.get(device)
        if event is None:
            event = self._events[device] = _made()
        if self._native.mark(device, event):
            self._marked.append(event)

    def wait(self) -> None:
        """Until the points marked since the last call are reached. What went wrong on the device is torch's to raise."""
        for event in self._marked:
            self._native.reach(event)
        self._marked.clear()


def _made() -> int:
    event = ctypes.c_void_p()
    status = native.cuda_driver().cuEventCreate(ctypes.byref(event), _WITHOUT_TIME)
    if status or event.value is None:
        raise RuntimeError(f"CUDA's driver answers {status}")
    return event.value


def _destroy(driver: Any, events: dict[int, int]) -> None:
    for event in events.values():
        driver.cuEventDestroy_v2(ctypes.c_void_p(event))
