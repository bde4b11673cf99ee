"""Recording on CUDA devices: graphs of the driver's, whose memory comes from one pool a device.

Flows in: functions that launch. Flows out: recordings. A device's recordings follow each other on its streams, so each may use
the memory of all others.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from inductor._torch import current_raw_stream, end_allocating_to_pool, forget_workspaces, release_pool
from inductor.triton import places

_log = logging.getLogger("inductor")


class CudaRecorder:
    """Records launches on one CUDA device."""

    def __init__(self, index: int) -> None:
        self.lock = threading.RLock()
        self._index = index
        self._stream = torch.cuda.Stream(index)
        self._pool = torch.cuda.graph_pool_handle()
        self._last: torch.cuda.Stream | None = None
        """The stream of the last replay."""
        self._anchor: Any = None
        """A recording. Torch gives up a pool with the last graph that uses it, and such a one can't be taken up again: this one always
        does."""

    def busy(self) -> bool:
        return torch.cuda.is_current_stream_capturing()

    def aside(self, run: Callable[[], Any]) -> Any:
        # Memory of the recorder's stream was last read on that of the last call.
        self.order()
        current = torch.cuda.current_stream(self._index)
        self._stream.wait_stream(current)
        try:
            with torch.cuda.stream(self._stream):
                return run()
        finally:
            current.wait_stream(self._stream)

    def record(self, run: Callable[[], Any], apart: bool) -> tuple[Callable[[], None], Any]:
        if self._anchor is None:
            self._anchor = self._capture(self._number, self._pool)
        try:
            return self._capture(run, torch.cuda.graph_pool_handle() if apart else self._pool)
        except BaseException:
            self._renew()
            raise

    def _capture(self, run: Callable[[], Any], pool: Any) -> tuple[Callable[[], None], Any]:
        graph = torch.cuda.CUDAGraph()
        torch.cuda.current_stream(self._index).synchronize()
        # A library's workspace is kept a stream: recordings have one of their pool, which nobody gives to others while they live.
        forget_workspaces()
        with torch.cuda.stream(self._stream), _without_collection(), torch.no_grad(), torch.inference_mode(False):
            try:
                # Other threads may go on to allocate.
                graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            except BaseException:
                self._undo(pool, begun=False)
                raise
            try:
                results = run()
            except BaseException:
                self._end(graph, pool, suppress=True)  # as is to be expected where a launch could not be recorded
                raise
            self._end(graph, pool)
        forget_workspaces()
        return graph.replay, results

    def _end(self, graph: torch.cuda.CUDAGraph, pool: Any, suppress: bool = False) -> None:
        try:
            graph.capture_end()
        except RuntimeError:
            self._undo(pool, begun=True)
            if not suppress:
                raise

    def _undo(self, pool: Any, begun: bool) -> None:
        """Put in order what torch leaves as it was during a recording that failed. `begun`: torch took the pool up."""
        try:
            end_allocating_to_pool(self._index, pool)
        except RuntimeError:  # that it ended before, or was not begun
            if not begun:
                return  # nor is the pool to be given up: others' recordings may have it
        with contextlib.suppress(RuntimeError):
            release_pool(self._index, pool)

    def _renew(self) -> None:
        """Go on after a recording that failed. Torch goes on to take the pool for one that is recorded to, and the random generator
        counts for a recording until one ends: the next one, to another pool."""
        forget_workspaces()
        self._anchor = None
        self._pool = torch.cuda.graph_pool_handle()
        try:
            self._anchor = self._capture(self._number, self._pool)
        except RuntimeError as error:  # the next recording tries it again first
            _log.warning("nothing can be recorded now: %s", error)

    def _number(self) -> torch.Tensor:
        """What there is to record where it does not matter what."""
        return torch.zeros(1, device=torch.device("cuda", self._index))

    def reader(self, at: tuple[int, ...]) -> Callable[[list[Any]], bytes]:
        return places.reader(at)

    def order(self) -> None:
        last = self._last
        if last is None or last.cuda_stream != current_raw_stream(self._index):
            self._last = torch.cuda.current_stream(self._index)
            if last is not None:
                self._last.wait_stream(last)


class _Quiet:
    """Recordings during which nothing is collected: what is might belong to a device, and giving it back can't be recorded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._enabled = False

    def enter(self) -> None:
        """Of several threads the first one stops the collector."""
        with self._lock:
            if self._count == 0:
                self._enabled = gc.isenabled()
                gc.disable()
            self._count += 1

    def leave(self) -> None:
        """The last one lets it go on, if it did before."""
        with self._lock:
            self._count -= 1
            if self._count == 0 and self._enabled:
                gc.enable()


_quiet = _Quiet()


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    _quiet.enter()
    try:
        yield
    finally:
        _quiet.leave()


_recorders: weakref.WeakValueDictionary[int, CudaRecorder] = weakref.WeakValueDictionary()
"""By device: as long as there are recordings of it. Torch gives up a pool that no graph uses."""
_making = threading.Lock()


def recorder_of(device: torch.device) -> CudaRecorder:
    """The recorder that all graphs of a CUDA device share."""
    assert device.index is not None
    with _making:
        found = _recorders.get(device.index)
        if found is None:
            found = _recorders[device.index] = CudaRecorder(device.index)
        return found
