"""Garbage collections while a program is traced: the finalizers that they run compute for real, outside the tracer's modes.

Flows in: the stretch of tracing. Nothing flows out.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from symshapes import _torch

_here = threading.local()
_lock = threading.RLock()  # a signal handler or finalizer may call a compiled function while its own thread holds it
# Of all threads; the callback is registered while there are any.
_stretches: weakref.WeakSet[_Stretch] = weakref.WeakSet()


class TraceSpoiled(Exception):
    """Finalizers ran among the operations that were traced, or these ran for real: the trace is not to be used."""


class _Stretch:
    """Of tracing. An interrupt may come before its end is noted: then it dies, and the next one to end clears up after it."""


@contextlib.contextmanager
def finalizers_outside_modes() -> Iterator[None]:
    """For a stretch of tracing. An operation of a finalizer would otherwise be faked, or recorded as the program's.

    Raises TraceSpoiled at its end where a collection's start or end was cut short.
    """
    stretch = _Stretch()
    with _lock:
        _stretches.add(stretch)
        if _at_collection not in gc.callbacks:
            gc.callbacks.append(_at_collection)
    failures, in_collection = _failures(), "guard" in _here.__dict__
    try:
        yield
    finally:
        with _lock:
            _stretches.discard(stretch)
            if not _stretches and _at_collection in gc.callbacks:
                gc.callbacks.remove(_at_collection)
        if not in_collection and "guard" in _here.__dict__:
            _leave_guard()
            _note_failure()
    if _failures() != failures:
        raise TraceSpoiled("an interrupt or the limit of recursion came in the middle of a garbage collection")


def _after_fork() -> None:
    """Another thread may have held the lock, and is not in the child to give it back."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def _at_collection(phase: str, info: dict[str, Any]) -> None:
    """Called by the collector in the thread that it runs in, at its start and its end.

    An interrupt or a RecursionError may end either call, and the collector swallows it: the next call notes that.
    """
    guarded = "guard" in _here.__dict__
    if phase == "start":
        if guarded:
            _note_failure()  # the modes have been held back since the end of the collection before
        elif _torch.in_dispatch_mode():
            guard = _torch.NoDispatchModes()
            guard.__enter__()
            _here.guard = guard
    elif guarded:
        _leave_guard()
    elif _torch.in_dispatch_mode():
        _note_failure()


def _leave_guard() -> None:
    _here.guard.__exit__(None, None, None)
    del _here.guard


def _failures() -> int:
    """How many collections of this thread have failed to keep finalizers outside."""
    return getattr(_here, "failures", 0)


def _note_failure() -> None:
    _here.failures = _failures() + 1
