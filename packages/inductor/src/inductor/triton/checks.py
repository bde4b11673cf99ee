"""How a graph learns that one of its kernels met a position out of range.

Flows in: what kernels write into a number in pinned host memory, which they reach without the host's doing. Flows out: an
exception of the kind eager's CPU kernel raises; device memory was left alone and the GPU's context stays usable.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import weakref
from typing import Any

import torch

from inductor.ops import INDEX_RULES

ERRORS: tuple[type[Exception], ...] = tuple(dict.fromkeys(rule.error for rule in INDEX_RULES.values() if rule.error))
"""A kernel writes one more than the place here; 0 is what nothing is wrong with."""


def code_of(rule: str) -> int:
    """What a kernel writes where a position breaks `rule`."""
    error = INDEX_RULES[rule].error
    assert error is not None
    return ERRORS.index(error) + 1


class IndexChecks:
    """The number of one graph. `mark` is called after its last kernel that checks positions, `settle` before it returns."""

    def __init__(self, pinned: bool) -> None:
        self.number = torch.zeros(1, dtype=torch.int32, pin_memory=pinned)
        self._seen = ctypes.c_int32.from_address(self.number.data_ptr())
        self._points = _Points() if pinned else None

    def mark(self) -> None:
        """Remember this point of the current device's current stream."""
        if self._points is not None:
            self._points.mark()

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


@functools.cache
def cuda_driver() -> Any:
    """CUDA's driver library. Called directly: torch's events take five times as long, more than a small kernel."""
    return ctypes.CDLL("libcuda.so.1")


class _Points(threading.local):
    """Points of streams to wait for, each thread's own: one event a device."""

    def __init__(self) -> None:
        from triton.runtime import driver  # noqa: PLC0415  (it looks for a driver, which there is by now)

        self._stream_of = driver.active.get_current_stream
        self._events: dict[int, ctypes.c_void_p] = {}
        self._marked: list[ctypes.c_void_p] = []
        weakref.finalize(self, _destroy, self._events)

    def mark(self) -> None:
        """Remember now. Not while the stream is captured, where nothing runs and nothing can be waited for: what goes wrong in
        a replay is raised by the next call outside of one."""
        driver, device = cuda_driver(), torch.cuda.current_device()
        stream, capturing = ctypes.c_void_p(self._stream_of(device)), ctypes.c_int()
        driver.cuStreamIsCapturing(stream, ctypes.byref(capturing))
        if capturing.value:
            return
        event = self._events.get(device)
        if event is None:
            event = self._events[device] = ctypes.c_void_p()
            _succeed(driver.cuEventCreate(ctypes.byref(event), 2))  # 2: without time
        _succeed(driver.cuEventRecord(event, stream))
        self._marked.append(event)

    def wait(self) -> None:
        """Until the points marked since the last call are reached. What went wrong on the device is torch's to raise."""
        for event in self._marked:
            cuda_driver().cuEventSynchronize(event)
        self._marked.clear()


def _succeed(status: int) -> None:
    if status:
        raise RuntimeError(f"CUDA's driver answers {status}")


def _destroy(events: dict[int, ctypes.c_void_p]) -> None:
    for event in events.values():
        cuda_driver().cuEventDestroy_v2(event)
