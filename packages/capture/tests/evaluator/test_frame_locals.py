"""Frames that look at their own variables through the frame object run as they are."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture


def kept(x: torch.Tensor) -> Any:
    a = [0]
    frame = sys._getframe()
    return x + a[0], sorted(frame.f_locals)


def at_once(x: torch.Tensor) -> Any:
    a = 5
    return x + a, inspect.currentframe().f_locals["a"]  # type: ignore[union-attr]


def within(x: torch.Tensor) -> Any:
    return at_once(x * 2), x + 1


@pytest.mark.parametrize("program", [kept, at_once, within])
@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
def test_own_variables(program: Callable[[torch.Tensor], Any]) -> None:
    compiled, x = capture.compile(program), torch.ones(2)
    for _ in range(2):
        assert str(compiled(x)) == str(program(x))
