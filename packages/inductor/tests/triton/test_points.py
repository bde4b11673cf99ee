"""Points of streams against a driver made of Python: what is recorded where, and what is waited for."""

from __future__ import annotations

import ctypes
import importlib.util
import threading
from typing import Any

import pytest
import torch

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed in this environment", allow_module_level=True)
from triton.runtime.build import compile_module_from_src

from inductor.addresses import address_facts
from inductor.triton import native, points
from inductor.triton.checks import ERRORS, IndexChecks

NOT_READY, REFUSED = 600, 400
_number, _pointer = ctypes.c_int, ctypes.c_void_p


class Driver:
    """What it was asked, in order; `answers` by the name of a call, `capturing` streams."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.answers: dict[str, int] = {}
        self.capturing: set[int] = set()
        self.stream = 0x5000
        self.made = 0
        self.calls = [
            ctypes.CFUNCTYPE(_number, _pointer, _pointer)(lambda event, stream: self.say("record", event, stream)),
            ctypes.CFUNCTYPE(_number, _pointer)(lambda event: self.say("query", event)),
            ctypes.CFUNCTYPE(_number, _pointer)(lambda event: self.say("synchronize", event)),
            ctypes.CFUNCTYPE(_number, _pointer, ctypes.POINTER(_number))(self.is_capturing),
            ctypes.CFUNCTYPE(_number, _number, ctypes.POINTER(ctypes.c_char_p))(self.text),
        ]
        self.addresses = [ctypes.cast(each, _pointer).value for each in self.calls]

    def say(self, name: str, *what: Any) -> int:
        self.asked.append((name, *what))
        return self.answers.get(name, 0)

    def is_capturing(self, stream: int, answer: Any) -> int:
        answer[0] = int(stream in self.capturing)
        return 0

    def text(self, status: int, answer: Any) -> int:
        answer[0] = b"refused"
        return 0

    def cuEventCreate(self, event: Any, flags: int) -> int:
        self.made += 1
        event._obj.value = 0x100 * self.made
        return 0

    def cuEventDestroy_v2(self, event: ctypes.c_void_p) -> int:
        return self.say("destroy", event.value)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    extension = compile_module_from_src(native.native_text(native.SOURCE) + "/* of points */", "launcher")
    *calls, text = made.addresses
    extension.configure(address_facts(), lambda device: made.stream + device, lambda device: None, text, text, text)
    extension.points(*calls)
    monkeypatch.setattr(native, "points", lambda: extension)
    monkeypatch.setattr(native, "cuda_driver", lambda: made)
    monkeypatch.setattr(points, "current_cuda_device", lambda: 0)
    return made


def test_a_point_is_waited_for_where_it_was_not_reached(driver: Driver) -> None:
    some = points.StreamPoints()
    some.mark()
    some.wait()
    driver.answers["query"] = NOT_READY
    some.mark()
    some.wait()
    some.wait()
    assert driver.asked == [
        ("record", 0x100, 0x5000), ("query", 0x100),
        ("record", 0x100, 0x5000), ("query", 0x100), ("synchronize", 0x100),
    ]  # fmt: skip


def test_each_device_and_each_thread_has_an_event(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    some = points.StreamPoints()
    some.mark()
    monkeypatch.setattr(points, "current_cuda_device", lambda: 1)
    some.mark()
    thread = threading.Thread(target=some.mark)
    thread.start(), thread.join()
    assert driver.asked[:3] == [("record", 0x100, 0x5000), ("record", 0x200, 0x5001), ("record", 0x300, 0x5001)]
    driver.asked.clear()
    some.wait()
    assert [each for each in driver.asked if each[0] == "query"] == [("query", 0x100), ("query", 0x200)]


def test_an_event_ends_with_its_thread_or_its_points(driver: Driver) -> None:
    some = points.StreamPoints()
    some.mark()
    thread = threading.Thread(target=some.mark)
    thread.start(), thread.join()
    assert [each for each in driver.asked if each[0] == "destroy"] == [("destroy", 0x200)]
    del some
    assert [each for each in driver.asked if each[0] == "destroy"] == [("destroy", 0x200), ("destroy", 0x100)]


def test_nothing_is_marked_in_a_captured_stream(driver: Driver) -> None:
    some = points.StreamPoints()
    driver.capturing.add(0x5000)
    some.mark()
    some.wait()
    assert driver.asked == []


def test_what_the_driver_refuses_is_raised(driver: Driver) -> None:
    driver.answers["record"] = REFUSED
    with pytest.raises(RuntimeError, match="CUDA error 400 at a point of a stream: refused"):
        points.StreamPoints().mark()


def test_a_kernel_is_heard_after_its_point(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *size, pin_memory, **kind: zeros(*size, **kind))
    checks = IndexChecks(points.StreamPoints())

    def found(event: int) -> int:
        checks.number[0] = 1  # the kernel has run by then
        return driver.say("synchronize", event)

    late = ctypes.CFUNCTYPE(_number, _pointer)(found)
    driver.answers["query"] = NOT_READY
    native.points().points(*driver.addresses[:2], ctypes.cast(late, _pointer).value, driver.addresses[3])
    checks.mark()
    checks.settle(wait=False)
    with pytest.raises(ERRORS[0]):
        checks.settle()
    checks.settle()
