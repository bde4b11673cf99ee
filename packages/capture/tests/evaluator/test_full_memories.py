"""Functions that remember so many keys and no more: what is dropped, and what is counted."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture


def made(limit: int | None) -> tuple[Any, Any]:
    """A function that remembers, and one that calls it twice."""

    @functools.lru_cache(limit)
    def double(k: int) -> int:
        return k * 2

    @functools.lru_cache(limit)
    def both(k: int) -> int:
        return double(k) + double(k + 1)

    return double, both


def fills_another(x: torch.Tensor, double: Any, both: Any, k: int) -> Any:
    x = x + double(k + 1)
    if double(2) > 3:
        x = x * 2
    return x + both(k + 1)


def asks_before(x: torch.Tensor, double: Any, both: Any, k: int) -> Any:
    x = x + double(1)
    x = x + double(k)
    return x * 2 if double(k + 1) > 3 else x


def asks_within(x: torch.Tensor, double: Any, both: Any, k: int) -> Any:
    x = x + double(1) + double(k % 2)
    return x + both(k)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 8, 128, None])
@pytest.mark.parametrize("fn", [fills_another, asks_before, asks_within])
def test_what_is_counted(fn: Callable[..., Any], limit: int | None) -> None:
    found = []
    for each in (fn, capture.compile(fn)):
        double, both = made(limit)
        told = []
        for k in (0, 3, 3, 5, 0, 1, 3, 7, 2, 3):
            x = each(torch.ones(2), double, both, k)
            told.append((x.tolist(), double.cache_info(), both.cache_info()))
        found.append(told)
    assert found[0] == found[1]
