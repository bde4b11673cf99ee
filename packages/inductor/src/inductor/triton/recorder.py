"""Recording on CUDA devices: graphs of the driver's, whose memory comes from one pool a device.

Flows in: functions that launch. Flows out: recordings. A device's recordings follow each other on its streams, so each may use
the memory of all others.
"""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from inductor._torch import current_raw_stream, end_allocating_to_pool, forget_workspaces, release_pool


class CudaRecorder:
    """Records launches on one CUDA device."""

    def __init__(self, index: int) -> None:
        self.lock = threading.RLock()
        self._index = index
        self._stream = torch.cuda.Stream(index)
        self._pool = torch.cuda.graph_pool_handle()
        self._last: torch.cuda.Stream | None = None
        """The stream of the last replay."""
        # Torch gives up a pool with the last graph that uses it, and such a one can't be taken up again: one graph always does.
        self._anchor = self.record(self._number)

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

    def record(self, run: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        graph = torch.cuda.CUDAGraph()
        torch.cuda.current_stream(self._index).synchronize()
        # A library's workspace is kept a stream: recordings have one of their pool, which nobody gives to others while they live.
        forget_workspaces()
        with torch.cuda.stream(self._stream), _without_collection(), torch.no_grad(), torch.inference_mode(False):
            # Other threads may go on to allocate.
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                results = run()
            except BaseException:
                with contextlib.suppress(RuntimeError):  # as is to be expected where a launch could not be recorded
                    graph.capture_end()
                self._recover()
                raise
            try:
                graph.capture_end()
            except RuntimeError:
                self._recover()
                raise
        forget_workspaces()
        return graph.replay, results

    def _recover(self) -> None:
        """Put in order what torch leaves as it was during a recording that failed."""
        end_allocating_to_pool(self._index, self._pool)
        release_pool(self._index, self._pool)
        forget_workspaces()
        # Torch goes on to take the pool for one that is recorded to, and the random generator counts for a recording until one
        # ends: the next one, to another pool.
        self._pool = torch.cuda.graph_pool_handle()
        self._anchor = self.record(self._number)

    def _number(self) -> torch.Tensor:
        """What there is to record where it does not matter what."""
        return torch.zeros(1, device=torch.device("cuda", self._index))

    def order(self) -> None:
        last = self._last
        if last is None or last.cuda_stream != current_raw_stream(self._index):
            self._last = torch.cuda.current_stream(self._index)
            if last is not None:
                self._last.wait_stream(last)


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """What is collected might belong to a device, and giving it back can't be recorded."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


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
