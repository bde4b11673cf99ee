"""A tensor of which is known what it holds is true or false as its one number is; of several, or none, torch says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture


def one_number(x: torch.Tensor) -> Any:
    return x + 1, 1 if torch.zeros(1) > 1 else 2, 3 if torch.ones(1, 1) > 0 else 4, not torch.zeros(1, 1)


def several(x: torch.Tensor) -> Any:
    return x + 1, 2 if torch.ones(3) < 2 else 3


def sorted_with_a_number(x: torch.Tensor) -> Any:
    return x + 1, sorted((torch.ones(3), 2))


def outcome(fn: Callable[[torch.Tensor], Any]) -> Any:
    try:
        return repr(fn(torch.ones(2)))
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("fn", [one_number, several, sorted_with_a_number], ids=lambda fn: fn.__name__)
def test_as_in_the_program(fn: Callable[[torch.Tensor], Any]) -> None:
    compiled = capture.compile(fn, lambda module, _: module.forward)
    for _ in range(2):
        assert outcome(compiled) == outcome(fn)
