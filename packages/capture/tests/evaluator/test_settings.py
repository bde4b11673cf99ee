"""Torch's settings, row by row: what a program asks, what it changes, and what is in force after a capture."""

from __future__ import annotations

import types

import pytest
import torch

import capture
from capture import state_readers
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


def _recurrent(function, *, cell):
    size, hidden = 3, 4
    rows = (4 if cell else 3 if function is torch.gru else 1) * hidden
    weights = [torch.randn(rows, size), torch.randn(rows, hidden)]
    state = torch.zeros(1, 2, hidden)

    def program(x):
        return function(x, (state, state) if cell else state, weights, False, 1, 0.0, False, False, False)[0]

    return program, torch.randn(5, 2, size)


def _attention(function):
    return lambda x: function(x, x, x), torch.randn(1, 2, 3, 4)


@pytest.mark.parametrize("name", [name for name, setting in SETTINGS.items() if setting.read_by])
def test_what_operators_choose_kernels_by_is_guarded_where_they_are_called(name):
    """A backend that takes these apart would choose for good."""
    setting = SETTINGS[name]
    for function in setting.read_by:
        if not isinstance(function, types.BuiltinFunctionType):
            continue
        attends = function is torch.nn.functional.scaled_dot_product_attention
        program, x = _attention(function) if attends else _recurrent(function, cell=function is torch.lstm)
        x = x.to("meta") if setting.off_cpu else x
        compiled, other = capture.compile(program), capture.compile(lambda x: x + 1)
        compiled(x)
        other(x)
        seen = {setting.read()}
        for change in setting.changes:
            with change():
                seen.add(setting.read())
                found = compiled(x)
                assert setting.off_cpu or torch.allclose(found, program(x), atol=1e-5)
                other(x)
            compiled(x)
        assert compiled.session.report.graph_count == len(seen) == 2
        assert other.session.report.graph_count == 1


_WEIGHT = torch.randn(4, 4)
_MULTIPLYING = {
    "function": lambda x, w: torch.matmul(x, w),
    "operator": lambda x, w: x @ w,
    "in place": lambda x, w: x.clone().addmm_(x, w),
    "linear": torch.nn.functional.linear,
    "einsum": lambda x, w: torch.einsum("ij,kj->ik", x, w),
    "batches": lambda x, w: torch.bmm(x[None], w[None]),
    "attention": lambda x, w: torch.nn.functional.scaled_dot_product_attention(x[None], w[None], w[None]),
}


@pytest.mark.parametrize("name", _MULTIPLYING)
def test_how_float32_is_multiplied_is_guarded_where_it_is(name):
    """A backend that multiplies by a kernel of its own would multiply by as many bits for good."""
    program = _MULTIPLYING[name]
    compiled = {case: capture.compile(program) for case in ("here", "float32", "float16")}
    given = {"here": ("cpu", torch.float32), "float32": ("meta", torch.float32), "float16": ("meta", torch.float16)}

    def call():
        for case, (device, dtype) in given.items():
            x = _WEIGHT.to(device, dtype)
            compiled[case](x, x)

    call()
    for change in SETTINGS["products of float32"].changes:
        with change():
            call()
        call()
    counts = {case: each.session.report.graph_count for case, each in compiled.items()}
    # Attention of halves that comes down to products has them in float32.
    halves = 3 if name == "attention" else 1
    assert counts == {"here": 1, "float32": 3, "float16": halves}


@pytest.mark.parametrize(
    "attend",
    [
        torch.ops.aten.scaled_dot_product_attention,
        torch.ops.aten.scaled_dot_product_attention.default,
        lambda *x: torch.nn.functional.multi_head_attention_forward(
            *x, 4, 1, torch.ones(12, 4), None, None, None, False, 0.0, torch.ones(4, 4), None, need_weights=False
        )[0],
    ],
)
def test_operators_and_functions_that_call_what_chooses_kernels_are_guarded_too(attend):
    x = torch.randn(2, 3, 4)
    compiled = capture.compile(lambda x: attend(x, x, x))
    compiled(x)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        compiled(x)
    compiled(x)
    assert compiled.session.report.graph_count == 2


@pytest.mark.parametrize("function", [torch.ops.aten.gru, torch.ops.aten.gru.input])
def test_operators_of_recurrent_layers_are_guarded_too(function):
    x = torch.randn(5, 2, 3)
    weights = [torch.randn(12, 3), torch.randn(12, 4)]
    compiled = capture.compile(
        lambda x: function(x, torch.zeros(1, 2, 4), weights, False, 1, 0.0, False, False, False)[0]
    )
    compiled(x)
    with torch.backends.mkldnn.flags(enabled=False):
        compiled(x)
    compiled(x)
    assert compiled.session.report.graph_count == 2


def test_flags_of_attention_are_read_at_once():
    (flags,) = state_readers.native_words.values()
    assert set(flags) == {name for name in SETTINGS if name.startswith("attention by")}


def test_what_the_frame_sets_itself_is_guarded_as_it_was_before():
    query = torch.randn(1, 2, 3, 4)

    def program(x):
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return torch.nn.functional.scaled_dot_product_attention(x, x, x)

    compiled = capture.compile(program)
    for _ in range(3):
        assert torch.equal(compiled(query), program(query))
    assert compiled.session.report.graph_count == 1
