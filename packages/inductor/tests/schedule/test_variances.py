"""Means and variances of long rows by one walk over memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from inductor_schedules import check_schedule, launches
from torch import Tensor

from inductor import Options

SPLIT = Options(split_reductions=True)
GENERATOR = torch.Generator().manual_seed(0)


def normal(*size: int, mean: float = 0.0) -> Tensor:
    return torch.randn(size, generator=GENERATOR) + mean


def statistics(x: Tensor) -> Any:
    mean = x.mean((0, 2, 3), keepdim=True)
    return mean, ((x - mean) ** 2).mean((0, 2, 3))


def of_rows(x: Tensor) -> Any:
    y = x.double() * 2
    mean = y.mean(1, keepdim=True)
    return mean.exp(), ((y - mean) * (y - mean)).sum(1).sqrt()


IMAGES = normal(8, 3, 64, 64, mean=5.0)
ROWS = normal(3, 1 << 15)


@pytest.mark.parametrize(
    ("fn", "x"),
    [
        (statistics, IMAGES),
        (statistics, IMAGES.to(memory_format=torch.channels_last)),
        (of_rows, ROWS),
        (of_rows, ROWS * 1e-3 + 100),
        (of_rows, torch.full((2, 1 << 15), 7.0)),
    ],
)
def test_one_walk_over_memory(fn: Callable[[Tensor], Any], x: Tensor) -> None:
    """The parts' means and squares are put together by one kernel."""
    plan = check_schedule(fn, x, options=SPLIT, rtol=1e-4, atol=1e-5)
    assert launches(plan) == 2, str(plan)


def test_the_first_element_may_be_far_from_the_others() -> None:
    """In every part: what cancels is no more than the part's own spread."""
    x = normal(2, 1 << 15)
    x[:, ::1024] = 1e3
    check_schedule(of_rows, x, options=SPLIT, rtol=1e-6, atol=1e-6)
    plan = check_schedule(
        lambda x: (mean := x.mean(1, keepdim=True), ((x - mean) ** 2).mean(1)), x, options=SPLIT, rtol=1e-4, atol=1e-4
    )
    assert launches(plan) == 2


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: (x - x.mean(1, keepdim=True)).abs().sum(1),
        lambda x: ((x - x.sum(1, keepdim=True)) ** 2).sum(1),
        lambda x: ((x * 2 - x.mean(1, keepdim=True)) ** 2).sum(1),
        lambda x: ((x - x.mean(1, keepdim=True).flip(0)) ** 2).sum(1),
    ],
)
def test_other_pairs_walk_twice(fn: Callable[[Tensor], Any]) -> None:
    plan = check_schedule(fn, ROWS, options=SPLIT, rtol=1e-4, atol=1e-3)
    assert launches(plan) == 4, str(plan)


def test_what_a_loop_makes_is_summed_by_it() -> None:
    """It would have to be there before, to be subtracted from."""

    def fn(x: Tensor) -> Any:
        y = x.exp()
        mean = y.mean(1, keepdim=True)
        return y, mean, ((y - mean) ** 2).mean(1)

    plan = check_schedule(fn, ROWS, options=SPLIT, rtol=1e-4, atol=1e-3)
    assert launches(plan) == 4, str(plan)


def test_infinite_numbers() -> None:
    """Sums of them are, and no more than they."""
    x = normal(4, 1 << 15)
    x[0, 5] = x[1, 0] = x[2, 0] = x[3, 0] = float("inf")
    x[3, 7] = -float("inf")
    plan = check_schedule(
        lambda x: (mean := x.mean(1, keepdim=True), ((x - mean) ** 2).mean(1)), x, options=SPLIT, rtol=1e-4, atol=1e-4
    )
    assert launches(plan) == 2
