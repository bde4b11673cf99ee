"""What a product of matrices becomes one kernel with, where the device prints those by blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from inductor_schedules import check_schedule, launches

from inductor import contraction_of
from inductor.schedule import ExternStep

X, OTHER = torch.randn(40, 48), torch.randn(40, 48)
W, V, BIAS = torch.randn(48, 48), torch.randn(48, 48), torch.randn(48)


def linear(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(torch.addmm(BIAS, x, W.t())) + OTHER


def scaled(x: torch.Tensor) -> torch.Tensor:
    return torch.addmm(BIAS, x, W, beta=0.5, alpha=2)


def of_zero_nothing_is_read(x: torch.Tensor) -> torch.Tensor:
    return torch.addmm(torch.full((48,), torch.nan), x, W, beta=0)


def batches(x: torch.Tensor) -> torch.Tensor:
    y = x.view(2, 20, 48)
    return torch.bmm(y, y.transpose(1, 2)) * 0.125


def gated(x: torch.Tensor) -> torch.Tensor:
    return F.silu(x @ W) * (x @ V)


def with_itself(x: torch.Tensor) -> torch.Tensor:
    return x.t() @ x + 1


def normalised(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ W + BIAS, -1)


def read_before(x: torch.Tensor) -> torch.Tensor:
    return (x.relu() @ W).exp() @ V


def spread(x: torch.Tensor) -> torch.Tensor:
    return x[:1].expand(40, 48) @ W


@pytest.mark.parametrize(
    "function, kernels",
    [
        (linear, 1),
        (scaled, 1),
        (of_zero_nothing_is_read, 1),
        (batches, 1),
        (with_itself, 1),
        (spread, 1),
        (gated, 2),  # a product each
        (normalised, 2),  # what reduces anew has loops of its own
        (read_before, 3),  # factors are in memory first
    ],
)
def test_kernels(function: Callable[..., Any], kernels: int) -> None:
    plan = check_schedule(function, X * 0.1)
    assert launches(plan) == kernels, str(plan)


def test_what_adds_up_at_places_of_its_own_is_apart() -> None:
    """Blocks run beside each other, in no order."""
    target = torch.randint(0, 7, (40,))
    plan = check_schedule(lambda x: torch.zeros(7, 48).index_add(0, target, (x @ W).relu()), X)
    (product,) = (
        step.loop for step in plan.steps if not isinstance(step, ExternStep) and contraction_of(step.loop.body)
    )
    assert all(store.mode is None for store in product.body.stores())


def test_other_dtypes_are_left_to_aten() -> None:
    for dtype in (torch.float64, torch.bfloat16, torch.int32):
        plan = check_schedule(lambda x: x @ x.t(), torch.ones(30, 30).to(dtype))
        assert launches(plan) == 0, dtype


IMAGE = torch.randn(2, 16, 5, 6).to(memory_format=torch.channels_last)
KERNEL, SHIFT = torch.randn(24, 16, 1, 1), torch.randn(24)


def test_a_convolution_without_neighbours() -> None:
    plan = check_schedule(lambda x: F.conv2d(x, KERNEL, SHIFT).relu() + 1, IMAGE)
    assert [step for step in plan.steps if isinstance(step, ExternStep)] == []
    assert launches(plan) == 1, str(plan)


@pytest.mark.parametrize(
    "function, image",
    [
        (lambda x: F.conv2d(x, KERNEL), IMAGE.contiguous()),
        (lambda x: F.conv2d(x, KERNEL, stride=2), IMAGE),
        (lambda x: F.conv2d(x, KERNEL, padding=1), IMAGE),
        (lambda x: F.conv2d(x, KERNEL[:, :8], groups=2), IMAGE),
        (lambda x: F.conv_transpose2d(x, KERNEL.transpose(0, 1)), IMAGE),
        (lambda x: F.conv2d(x, torch.ones(3, 16, 2, 1)), IMAGE),
    ],
)
def test_other_convolutions_are_left_to_aten(function: Callable[..., Any], image: torch.Tensor) -> None:
    plan = check_schedule(function, image)
    assert any(isinstance(step, ExternStep) for step in plan.steps)
