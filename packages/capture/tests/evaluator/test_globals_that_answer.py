"""Functions whose globals are of a class that may answer for names that it does not have, as the library makes them to read annotations."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch

import capture

scale = 2


class Answers(dict[str, Any]):
    def __missing__(self, name: str) -> int:
        return 5


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * scale


apart = types.FunctionType(scaled.__code__, Answers())


def both(x: torch.Tensor) -> torch.Tensor:
    return scaled(x) + apart(x)


@pytest.mark.parametrize("fn", [apart, both])
def test_as_plain(fn: Any) -> None:
    x = torch.ones(2)
    capture.compile(scaled)(x)  # of the same code, with globals that have the name
    assert torch.equal(capture.compile(fn)(x), fn(x))
