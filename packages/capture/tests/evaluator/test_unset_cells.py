# mypy: ignore-errors
# ruff: noqa: E731, F821, F841
"""A function's own variables in cells, without a value, in what goes on from a break and is left to the interpreter."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture
from capture import _native
from capture.resume import origin_of
from capture.session import Session

PROGRAMS: list[Callable[..., Any]] = []


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS.append(function)
    return function


@capture.disable
def stop(*args: Any) -> None:
    """A break that looks at nothing."""


@program
def read_where_it_may_have_a_value(x: Any) -> Any:
    def i():
        return a

    stop()
    if x is None:
        a = 1
    return a


@program
def read_and_caught(x: Any) -> Any:
    def i():
        return a

    stop()
    if x is None:
        a = 1
    try:
        return a
    except UnboundLocalError as e:
        return str(e)


@program
def deleted_without_a_value(x: Any) -> Any:
    def i():
        return a

    stop()
    del a


@program
def deleted_by_a_function_within(x: Any) -> Any:
    def d():
        nonlocal a
        del a

    a = x + 1
    stop()
    d()
    stop()
    return a


@program
def in_a_loop(x: Any) -> Any:
    def i():
        return a

    for k in range(3):
        stop()
        try:
            x = x + a
        except NameError as e:
            x = x + 1
            n = repr(e)
        a = k
    return x, n


@program
def beside_a_comprehensions_cell(x: Any) -> Any:
    def i():
        return y

    stop()
    r = [(lambda: y)() for y in range(3)]
    stop()
    try:
        r.append(y)
    except NameError as e:
        r.append(repr(e))
    y = 3
    return r, i()


@program
def read_by_a_comprehension(x: Any) -> Any:
    f = lambda: z
    stop()
    r = []
    try:
        r = [(stop(), y + z) for y in range(3)]
    except NameError as e:
        r.append(repr(e))
    z = 3
    return r


@program
def read_by_a_class_statement(x: Any) -> Any:
    def i():
        return a

    stop()
    try:

        class A:
            y = a
    except NameError as e:
        return repr(e)
    a = 3


@program
def added_to_in_a_block(x: Any) -> Any:
    def i():
        return a

    with torch.no_grad():
        stop()
        try:
            a += 1
        except UnboundLocalError as e:
            return repr(e)


@program
def a_handlers_variable(x: Any) -> Any:
    def i():
        return e

    try:
        stop()
        raise ValueError(1)
    except ValueError as e:
        stop()
        x = x + 1
    stop()
    return e


@program
def assigned_in_a_condition(x: Any) -> Any:
    f = lambda: w
    stop()
    if x is None and (w := 3):
        pass
    return w


@program
def an_argument_deleted(x: Any) -> Any:
    f = lambda: x
    stop()
    del x
    stop()
    try:
        return x
    except UnboundLocalError as e:
        return repr(e)


@program
def of_a_suspended_generator(x: Any) -> Any:
    def g():
        def i():
            return a

        yield x
        stop()
        yield x + 1
        yield a

    r = []
    t = g()
    r.append(next(t))
    stop()
    r.append(next(t))
    try:
        next(t)
    except UnboundLocalError as e:
        r.append(repr(e))
    return r


@program
def of_a_function_that_is_called(x: Any) -> Any:
    def o(x):
        def i():
            return a

        x = x + 1
        stop()
        if x is None:
            a = 1
        return a

    try:
        return o(x)
    except UnboundLocalError as e:
        return repr(e)


@program
def the_way_of_the_exception(x: Any) -> Any:
    f = lambda: w
    stop()
    try:
        w
    except UnboundLocalError as e:
        return [
            t.name for t in traceback.extract_tb(e.__traceback__)
        ], e.__traceback__.tb_lineno - e.__traceback__.tb_frame.f_code.co_firstlineno


def outcome(call: Callable[..., Any]) -> Any:
    try:
        return repr(call(torch.ones(2, 2)))
    except Exception as error:
        return repr(error), [each.lineno for each in traceback.extract_tb(error.__traceback__)][1:]


@pytest.fixture
def skipped_continuations(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Session.answer

    def skipping(self: Session, frame: Any) -> Any:
        return answer(self, frame) if origin_of(frame.code) is None else _native.SKIP

    monkeypatch.setattr(Session, "answer", skipping)


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
def test_left_to_the_interpreter(fn: Callable[..., Any], skipped_continuations: None) -> None:
    compiled = capture.compile(fn)
    for _ in range(2):
        assert outcome(compiled) == outcome(fn)


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_captured(fn: Callable[..., Any]) -> None:
    compiled = capture.compile(fn)
    for _ in range(2):
        assert outcome(compiled) == outcome(fn)


def test_what_looks_at_a_cell_ends_no_graph() -> None:
    def fn(x):
        def inner():
            return a

        stop()
        x = x + 1
        if x is not None:
            a = x
        return a * 2

    compiled = capture.compile(fn)
    assert torch.equal(compiled(torch.ones(2)), fn(torch.ones(2)))
    assert [capture.report(compiled).graph_count, capture.report(compiled).break_count] == [1, 1]
