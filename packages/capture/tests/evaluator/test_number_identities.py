"""Numbers that are equal, and one object or two, as in plain Python: before and after a break."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture

BIG, QUARTERS = 10**20, float("7.25")


@capture.disable
def stop() -> None:
    """A break."""


def computed(x: torch.Tensor, k: Any) -> Any:
    n, m, f = x.shape[0] * 1000, x.shape[0] * 1000, float("2.5")
    before = n is m, n is 3000, f is 2.5, n is n  # noqa: F632
    stop()
    return x + 1, before, n is m, n is 3000, f is 2.5, n is n, [f][0] is f, n == 3000  # noqa: F632


def handed_in(x: torch.Tensor, k: Any) -> Any:
    held = [k]
    stop()
    return x + 1, k is BIG, k is QUARTERS, held[0] is k, k * 1 is k


def bits(x: torch.Tensor, k: Any) -> Any:
    values = [float("-0.0"), float("nan"), float("-inf"), -(10**25) * x.shape[0], 2.0 * x.shape[0]]
    again = values[1]
    stop()
    return x + 1, list(map(str, values)), again is values[1], again == again


def twice(x: torch.Tensor, k: Any) -> Any:
    made = [float("2.5") for _ in range(3)]
    stop()
    return x + 1, [one is other for one in made for other in made], made.count(2.5), made.index(made[2])


def tried(x: torch.Tensor, k: Any) -> Any:
    n = int("100000")
    return x + 1, n is 100000, n is k  # noqa: F632


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("k", [BIG, QUARTERS, 10**21, 3])
@pytest.mark.parametrize("fn", [computed, handed_in, bits, twice, tried])
def test_as_plain(fn: Callable[..., Any], k: Any) -> None:
    x = torch.ones(3)
    compiled = capture.compile(fn)
    for _ in range(2):
        assert compiled(x, k)[1:] == fn(x, k)[1:]


def test_a_number_that_was_computed_is_no_literal_without_a_break() -> None:
    x = torch.ones(3)
    assert capture.compile(tried, fullgraph=True)(x, BIG)[1:] == (False, False)


def test_the_hash_of_a_nan_is_of_the_object() -> None:
    def fn(x: torch.Tensor) -> Any:
        n = float("nan")
        return hash(n) == object.__hash__(n), x + 1

    compiled, x = capture.compile(fn), torch.ones(1)
    for _ in range(2):
        assert compiled(x)[0] and fn(x)[0]
