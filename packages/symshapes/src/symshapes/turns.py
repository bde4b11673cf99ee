"""Operators that a part makes as programs need them: defined by one thread at a time, since the dispatcher refuses a name given twice.

Flows in: a function that defines operators. Flows out: the same function, which threads call one after the other.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_lock = threading.RLock()  # a signal handler or finalizer may call a compiled function while its own thread holds it


def in_turn(function: Callable[P, T]) -> Callable[P, T]:
    """A function that no two threads are in at once, nor in any other of these: one that remembers what it made makes it once."""

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        with _lock:
            return function(*args, **kwargs)

    return called


def _after_fork() -> None:
    """Another thread may have held the lock, and is not in the child to give it back."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)
