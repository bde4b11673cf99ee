"""Numbers of another kind than the tensors they meet, and the largest ones of a dtype: what eager computes and raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import meta
from tests_integration.outcomes import outcome

BYTES = torch.arange(256, dtype=torch.uint8)


@pytest.mark.parametrize(
    "program",
    [
        lambda a, b: a // b,
        lambda a, b: a % b,
        lambda a, b: torch.fmod(a, b),
        lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        lambda a, b: torch.div(a, b, rounding_mode="floor"),
    ],
)
@pytest.mark.parametrize("divisor", [1, 2, 254, 255])
@pytest.mark.parametrize("count", [3, 256])
def test_bytes_divided_by_the_largest_ones(program: Callable[..., Any], divisor: int, count: int) -> None:
    a = BYTES.flip(0)[:count]
    for b in torch.full_like(a, divisor), torch.tensor(divisor, dtype=torch.uint8), divisor:
        assert outcome(meta.compile(program), a, b) == outcome(program, a, b)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.addcmul(x, x, x, value=1.5),
        lambda x: torch.nn.functional.threshold(x, 1.5, 2.5),
        lambda x: x == 1j,
    ],
)
def test_numbers_with_what_integers_have_not(program: Callable[..., Any], dtype: torch.dtype) -> None:
    x = torch.tensor([0, 1, 2, 3], dtype=dtype)
    assert outcome(meta.compile(program), x) == outcome(program, x)


def test_foreach_operators_refuse_what_single_ones_do() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch._foreach_sub([x], [y])

    mask = torch.tensor([True, False])
    expected = outcome(program, mask, mask)
    assert expected[0] is RuntimeError
    assert outcome(meta.compile(program), mask, mask) == expected
