"""Time by phase."""

from __future__ import annotations

import threading
import time

import pytest

from symshapes import phase, timed_phases


def test_each_second_is_counted_once_for_the_innermost_phase() -> None:
    start = time.perf_counter()
    with timed_phases("rest") as seconds:
        with phase("outer"):
            time.sleep(0.01)
            with phase("inner"):
                time.sleep(0.02)
        with phase("inner"):
            time.sleep(0.02)
        time.sleep(0.01)
    whole = time.perf_counter() - start
    assert list(seconds) == ["rest", "outer", "inner"]
    assert seconds["outer"] >= 0.01 and seconds["inner"] >= 0.04 and seconds["rest"] >= 0.01
    assert sum(seconds.values()) <= whole


def test_a_phase_that_raises_ends() -> None:
    with timed_phases() as seconds:
        with pytest.raises(ValueError), phase("fails"):
            raise ValueError
        time.sleep(0.01)
    assert seconds["other"] >= 0.01


def test_nobody_else_is_told() -> None:
    @phase("work")
    def work() -> None:
        """Something that takes part in a compilation."""

    work()  # nobody asks
    with timed_phases() as outer:
        with timed_phases() as inner:
            work()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert list(outer) == ["other"] and list(inner) == ["other", "work"]
