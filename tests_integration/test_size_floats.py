"""Floats that a program computes from dynamic sizes: in kernels and in its own branches as Python computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import meta

COMPUTED: dict[str, Callable[[Any], Any]] = {
    "remainder": lambda s: (0.5 - s) % (0.5 / s),
    "remainder by a number": lambda s: s % 0.3,
    "floor division": lambda s: (0.5 - s) // (0.5 / s),  # the floor of the rounded quotient is another number
    "floor division of a size": lambda s: s // 0.3,
    "floor division by a float of a size": lambda s: 7 // (s * 0.1),
    "floor division to a negative zero": lambda s: s * 0.0 // -0.7,
    "floor division of a rounded product": lambda s: 0.1 * s // 0.1,
    "absolute value": lambda s: abs(0.5 - s * 1.5),
    "maximum": lambda s: max(s * 0.5, 2.3),
    "rounding": lambda s: round(s * 0.37),
    "int of a floor division": lambda s: int(s // 2.0),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_floats_of_sizes(name: str) -> None:
    number = COMPUTED[name]

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * number(x.size(0))

    compiled = meta.compile(f, dynamic=True, fullgraph=True)
    for size in (3, 4, 5, 6, 7, 9, 11):
        x = torch.ones(size, dtype=torch.float64)
        expected, got = f(x), compiled(x)
        assert torch.equal(expected, got) and torch.equal(expected.signbit(), got.signbit())


def test_branch_on_a_floor_division() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        s = x.size(0)
        return x + 1 if (0.5 - s) // (0.5 / s) == -16.0 else x - 1

    compiled = meta.compile(f, dynamic=True, fullgraph=True)
    for size in (3, 4, 3):
        x = torch.ones(size)
        assert torch.equal(f(x), compiled(x))
