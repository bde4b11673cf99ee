"""What a frame's cells hold is read before the frame's changes are made, wherever the frame ends."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture


@capture.disable
def stop() -> None:
    """A break that looks at nothing."""


def in_a_lambda(a: torch.Tensor, b: torch.Tensor, items: list[torch.Tensor]) -> Any:
    b = items[-1]
    items.append(a)
    del items[1:]
    stop()
    return [(lambda: b)() for _ in range(2)], items


def in_a_function(a: torch.Tensor, b: torch.Tensor, items: list[torch.Tensor]) -> Any:
    last = items[-1]
    items.clear()

    def found() -> torch.Tensor:
        return last

    stop()
    return found(), items


def handed_out(a: torch.Tensor, b: torch.Tensor, items: list[torch.Tensor]) -> Any:
    last = items[-1]
    items.clear()
    return lambda: last + a


@pytest.mark.parametrize("fn", [in_a_lambda, in_a_function, handed_out])
def test_what_was_taken_out(fn: Callable[..., Any]) -> None:
    def outcome(call: Callable[..., Any]) -> str:
        result = call(torch.ones(2), torch.ones(2), [torch.zeros(2), torch.ones(2)])
        return repr(result() if callable(result) else result)

    assert outcome(capture.compile(fn)) == outcome(fn)


def in_a_handler(x: Any) -> Any:
    def inner() -> Any:
        return a

    stop()
    try:
        a = x.nothing  # type: ignore[attr-defined]
    except AttributeError:
        return a


def deleted_in_a_handler(x: Any) -> Any:
    def inner() -> Any:
        return a

    stop()
    try:
        a = x.nothing
    except AttributeError:
        del a


def at_the_end_of_a_block(x: Any) -> Any:
    def inner() -> Any:
        return a

    stop()
    try:
        x = x * 2
        a = x.nothing
    finally:
        x = a


def within_another(x: Any) -> Any:
    def called(x: Any) -> Any:
        def inner() -> Any:
            return a

        x = x.cos()
        try:
            stop()
            a = x.nothing
        except AttributeError:
            return a

    return called(x)


@pytest.mark.parametrize("fn", [in_a_handler, deleted_in_a_handler, at_the_end_of_a_block, within_another])
@pytest.mark.parametrize("make", [lambda: torch.ones(2, 2), lambda: torch.ones(2, 2).to_sparse()])
def test_a_variable_of_the_frames_own_without_a_value(fn: Callable[..., Any], make: Callable[..., Any]) -> None:
    def outcome(call: Callable[..., Any]) -> str:
        try:
            return repr(call(make()))
        except Exception as error:
            return repr(error)

    compiled = capture.compile(fn)
    for _ in range(2):
        assert outcome(compiled) == outcome(fn)


class Returns:
    def __init__(self, x: Any) -> None:
        stop()
        return x  # type: ignore[return-value]


def test_what_is_raised_for_the_interpreter_has_no_frame_of_ours() -> None:
    def names(error: BaseException) -> list[str]:
        return [each.name for each in traceback.extract_tb(error.__traceback__)]

    def of_a_cell(x: Any) -> Any:
        def inner() -> Any:
            return a

        stop()
        try:
            a = x.nothing
        except AttributeError:
            try:
                return a
            except UnboundLocalError as error:
                return names(error)

    def of_an_object(x: Any) -> Any:
        try:
            Returns(x)
        except TypeError as error:
            return names(error)

    for fn in (of_a_cell, of_an_object):
        assert capture.compile(fn)(torch.ones(2)) == fn(torch.ones(2)) == [fn.__name__]
