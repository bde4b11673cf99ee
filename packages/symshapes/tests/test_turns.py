"""Threads that define operators go one after the other."""

from __future__ import annotations

import functools
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from symshapes import in_turn

inside = 0


@in_turn
@functools.cache
def made(name: str) -> object:
    global inside
    inside += 1
    found = object()
    threading.Event().wait(0.02)
    assert inside == 1, "another thread came in"
    inside -= 1
    return found


def test_threads_that_ask_at_once_get_the_same() -> None:
    with ThreadPoolExecutor(4) as pool:
        a, b, *others = pool.map(made, ["a", "b", "a", "a"])
    assert a is not b and others == [a, a]


def test_a_function_may_call_another_one() -> None:
    assert in_turn(lambda: in_turn(lambda: 3)())() == 3


def test_what_fails_lets_others_in() -> None:
    with pytest.raises(ZeroDivisionError):
        in_turn(divmod)(1, 0)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(in_turn(divmod), 7, 4).result(timeout=60) == (1, 3)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_does_not_wait_for_a_thread_that_it_has_not() -> None:
    entered, leave = threading.Event(), threading.Event()

    @in_turn
    def stays() -> None:
        entered.set()
        leave.wait()

    thread = threading.Thread(target=stays)
    thread.start()
    entered.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        in_turn(int)()
        os._exit(7)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
