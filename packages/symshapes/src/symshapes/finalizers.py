"""Garbage collections while a program is traced: the finalizers that they run compute for real, outside the tracer's modes.

Flows in: the stretch of tracing. Nothing flows out.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Iterator
from typing import Any

from symshapes import _torch

_here = threading.local()
_lock = threading.RLock()  # a signal handler or finalizer may call a compiled function while its own thread holds it
_tracing = 0  # stretches in all threads; the callback is registered while there are any


@contextlib.contextmanager
def finalizers_outside_modes() -> Iterator[None]:
    """For a stretch of tracing. An operation of a finalizer would otherwise be faked, or recorded as the program's."""
    global _tracing
    with _lock:
        _tracing += 1
        if _tracing == 1:
            gc.callbacks.append(_at_collection)
    try:
        yield
    finally:
        with _lock:
            _tracing -= 1
            if not _tracing:
                gc.callbacks.remove(_at_collection)


def _after_fork() -> None:
    """Another thread may have held the lock, and is not in the child to give it back."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def _at_collection(phase: str, info: dict[str, Any]) -> None:
    """Called by the collector in the thread that it runs in, at its start and its end."""
    if phase == "start":
        if _torch.in_dispatch_mode():
            _here.guard = _torch.NoDispatchModes()
            _here.guard.__enter__()
    else:
        guard = _here.__dict__.pop("guard", None)
        if guard is not None:
            guard.__exit__(None, None, None)
