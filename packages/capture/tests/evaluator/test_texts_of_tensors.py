"""A text in which a tensor is written out is written when it is looked at, and ends no graph where nobody does."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import capture

SILENT = logging.getLogger("silent")
SILENT.setLevel(logging.ERROR)


def check(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)


def in_a_check_that_holds(x: Tensor) -> Any:
    check(x.shape[0] > 1, f"{x.shape[0]} rows of {x}")
    return x + 1


def to_a_silent_logger(x: Tensor) -> Any:
    SILENT.debug(f"at {x.sum()}")
    return x * 2


def in_a_check_that_fails(x: Tensor) -> Any:
    y = x * 2
    try:
        check(x.shape[0] > 100, f"few rows of {y}")
    except ValueError as error:
        y.add_(1)
        return y, str(error)
    return y


def given_back(x: Tensor) -> Any:
    text = f"{x.sum()}!"
    x.add_(1)
    return text, x.sum()


def over_a_break(x: Tensor) -> Any:
    y = x * 2
    text = f"<{y}>"
    y.add_(1)
    if y.sum() > 0:
        y = y * 2
    return text, y


def in_a_container(x: Tensor) -> Any:
    texts = {"at": f"{x}"}
    x.mul_(2)
    return texts, x


def of_a_callee(x: Tensor) -> Any:
    def told(value: Tensor) -> str:
        return f"value {value}"

    text = told(x * 2)
    return x + 1, len(text), text


def with_a_specification(x: Tensor) -> Any:
    try:
        return f"{x:d}"
    except TypeError as error:
        return str(error), x + 1


UNSEEN = [in_a_check_that_holds, to_a_silent_logger]
SEEN = [in_a_check_that_fails, given_back, over_a_break, in_a_container, of_a_callee, with_a_specification]


@pytest.mark.parametrize("fn", UNSEEN)
def test_what_nobody_sees_ends_no_graph(fn: Callable[..., Any]) -> None:
    x = torch.arange(3.0)
    assert not capture.explain(fn, x).breaks
    torch.testing.assert_close(capture.compile(fn, eager)(x), fn(x))


@pytest.mark.parametrize("fn", SEEN)
def test_what_is_seen_says_what_was_then(fn: Callable[..., Any]) -> None:
    compiled = capture.compile(fn, eager)
    for start in (0.0, 5.0):
        given, plain = torch.arange(start, start + 3), torch.arange(start, start + 3)
        assert str(compiled(given)) == str(fn(plain))
        torch.testing.assert_close(given, plain)


def eager(module: Any, inputs: Any) -> Callable[..., Any]:
    return module.forward
