"""Floats that a program computes from dynamic sizes: in kernels and in its own branches as Python computes them."""

from __future__ import annotations

import math
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


TENSORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "functions of math": lambda x: x * math.log(x.shape[0]) + math.exp(-x.shape[0]) + math.gcd(x.shape[0], 12),
    "bits": lambda x: x * (x.shape[0] & 6) + (1 << (x.shape[0] - 1).bit_length()) + (x.shape[0] ^ 3),
    "digits and sums": lambda x: x * round(x.shape[0] / 3, 2) + sum([x.shape[0] * 0.1, 0.2, 0.3]),
    "a negative zero": lambda x: x * 0 + x.shape[0] * -0.0,
    "a position": lambda x: x * x[x.shape[0] // 2] + x[x.shape[0] - 1],
    "tensors of numbers": lambda x: (
        torch.tensor([x.shape[0], 2]) + torch.tensor(x.shape[0] / 3) + x.new_tensor(x.shape[0])
    ),
    "counts": lambda x: torch.linspace(0, 1, x.shape[0]) + torch.arange(0, 1, 1 / x.shape[0])[0],
}


@pytest.mark.parametrize("name", TENSORS)
def test_numbers_of_sizes_in_kernels(name: str) -> None:
    program = TENSORS[name]
    compiled = meta.compile(program, dynamic=True, fullgraph=True)
    for size in (3, 5, 8, 11):
        x = torch.arange(1.0, size + 1)
        torch.testing.assert_close(compiled(x), program(x))
    assert len(compiled.session.report.graphs) == 1


def test_a_division_by_zero_raises() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * (1 / (x.size(0) - 5)) + math.sqrt(x.size(0) - 3)

    compiled = meta.compile(f, dynamic=True)
    for size in (7, 9):
        x = torch.ones(size)
        torch.testing.assert_close(compiled(x), f(x))
    with pytest.raises(ZeroDivisionError):
        compiled(torch.ones(5))
    with pytest.raises(ValueError, match="math domain error"):
        compiled(torch.ones(2))


def test_branch_on_a_floor_division() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        s = x.size(0)
        return x + 1 if (0.5 - s) // (0.5 / s) == -16.0 else x - 1

    compiled = meta.compile(f, dynamic=True, fullgraph=True)
    for size in (3, 4, 3):
        x = torch.ones(size)
        assert torch.equal(f(x), compiled(x))
