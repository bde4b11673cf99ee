"""What a frame's cells hold is read before the frame's changes are made, wherever the frame ends."""

from __future__ import annotations

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
