"""What a recorder of a GPU does besides recording, which needs none."""

from __future__ import annotations

import gc
import importlib.util
import threading

import pytest

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed in this environment", allow_module_level=True)

from inductor.triton.recorder import _without_collection


def test_the_collector_rests_until_the_last_recording_has_ended() -> None:
    assert gc.isenabled()
    entered, leave = threading.Event(), threading.Event()

    def record() -> None:
        with _without_collection():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=record)
    with _without_collection():
        thread.start()
        entered.wait()
        assert not gc.isenabled()
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_who_has_stopped_the_collector_finds_it_stopped() -> None:
    gc.disable()
    try:
        with _without_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
