"""Torch's settings, row by row: what a program asks, what it changes, and what is in force after a capture."""

from __future__ import annotations

import pytest
import torch

import capture
from capture.settings import SETTERS, SETTINGS, in_force, put_back


@pytest.fixture(autouse=True)
def _as_before():
    before = in_force()
    yield
    put_back(before)


#: The question for the default devices is our own; under a mode of the program's nothing is captured.
ASKED = [name for name in SETTINGS if name not in ("default devices", "torch-function modes", "dispatch modes")]


@pytest.mark.parametrize("name", ASKED)
def test_answers_follow_the_setting(name):
    setting = SETTINGS[name]

    def program(x):
        return x + 1, setting.query(*setting.args)

    compiled = capture.compile(program)
    x = torch.ones(2)
    assert compiled(x)[1] == setting.read()
    for change in setting.changes:
        with change():
            assert compiled(x)[1] == setting.read()
    assert compiled(x)[1] == setting.read()


@pytest.mark.parametrize("call", SETTERS, ids=SETTERS.get)
def test_what_a_frame_sets_is_set_after_each_call(call):
    (setter, args), name = call, SETTERS[call]
    setting = SETTINGS[name]
    first = setting.read()
    values = [first]
    for change in setting.changes:
        with change():
            values.append(setting.read())
    other = next(value for value in values if value != first)

    def program(x, value):
        before = setting.query(*setting.args)
        setter(*args, value)
        return x + 1, before, setting.query(*setting.args)

    compiled = capture.compile(program)
    x = torch.ones(2)
    for before, value in ((first, other), (other, other), (other, first), (first, first), (first, other)):
        assert setting.read() == before
        assert compiled(x, value)[1:] == (before, value)
        assert setting.read() == value
    assert compiled.session.report.graph_count


def test_an_argument_by_name_is_the_one_that_is_asked_about():
    compiled = capture.compile(lambda x: (x + 1, torch.get_autocast_dtype(device_type="cuda")))
    x = torch.ones(2)
    for dtype in (torch.float16, torch.bfloat16, torch.float16):
        torch.set_autocast_dtype("cuda", dtype)
        assert compiled(x)[1] is dtype


def test_a_device_without_a_row_is_left_to_the_interpreter():
    before = torch.get_autocast_dtype("xpu")

    def program(x):
        torch.set_autocast_dtype("xpu", torch.float16)
        return x + 1, torch.get_autocast_dtype("xpu")

    try:
        compiled = capture.compile(program)
        assert compiled(torch.ones(2))[1] is torch.float16
        assert torch.get_autocast_dtype("xpu") is torch.float16
        assert any("xpu" in broken.reason for broken in compiled.session.report.breaks)
    finally:
        torch.set_autocast_dtype("xpu", before)
