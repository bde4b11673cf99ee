"""What a product of matrices becomes one kernel with, where the device prints those by blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from inductor_schedules import check_schedule, launches
from inductor_tracing import trace

from inductor import Options, contraction_of, lower
from inductor.ir.operations import Store
from inductor.ir.program import ExternOp
from inductor.schedule import ExternStep

torch.manual_seed(0)
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


ACROSS = torch.randn(48, 40)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x @ W).relu().t().contiguous(),
        lambda x: (x @ W) + ACROSS.t(),
    ],
)
def test_what_goes_through_memory_otherwise_has_loops_of_its_own(function: Callable[..., Any]) -> None:
    """Blocks end in vectors of columns; loops of their own run in tiles."""
    plan = check_schedule(function, X)
    loops = [step.loop for step in plan.steps if not isinstance(step, ExternStep)]
    (product,) = (loop for loop in loops if contraction_of(loop.body) is not None)
    columns = product.body.outer_vars[-1]
    stored = [op.index for op in product.body.ops if isinstance(op, Store)]
    assert len(loops) == 2 and all(index.coeff(columns) == 1 for index in stored), str(plan)


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


def image(channels: int, *size: int, batch: int = 2) -> torch.Tensor:
    last = torch.channels_last if len(size) == 2 else torch.channels_last_3d
    return torch.randn(batch, channels, *size).to(memory_format=last)


THREE, FIVE = torch.randn(24, 16, 3, 3), torch.randn(24, 16, 5, 5)
SQUARE = torch.randn(24, 24, 3, 3)
DEEP = torch.randn(17, 101, 3, 3)
LAST, TURNED = THREE.to(memory_format=torch.channels_last), THREE.transpose(2, 3)


@pytest.mark.parametrize(
    "function, image",
    [
        (lambda x: F.conv2d(x, THREE, SHIFT, padding=1), image(16, 5, 6)),
        (lambda x: F.conv2d(x, THREE), image(16, 7, 9)),
        (lambda x: F.conv2d(x, THREE, stride=2, padding=1), image(16, 8, 9)),
        (lambda x: F.conv2d(x, THREE, stride=(1, 3), padding=(0, 2)), image(16, 8, 9)),
        (lambda x: F.conv2d(x, THREE, dilation=2, padding=2), image(16, 9, 8)),
        (lambda x: F.conv2d(x, FIVE, padding=6), image(16, 3, 4)),
        (lambda x: F.conv2d(x, FIVE, padding=2), image(16, 1, 1)),
        (lambda x: F.conv2d(x, KERNEL, stride=2), image(16, 9, 8)),
        (lambda x: F.conv2d(x, KERNEL, padding=1), image(16, 5, 6)),
        (lambda x: F.conv2d(x, FIVE[:17, :, :2, :1]), image(16, 5, 6)),
        (lambda x: F.conv2d(x, LAST), image(16, 7, 9)),
        (lambda x: F.conv2d(x, TURNED, padding=1), image(16, 7, 9)),
        (lambda x: F.conv2d(x[..., 1:, ::2], THREE, padding=1), image(16, 9, 12)),
    ],
)
def test_convolutions_with_neighbours(function: Callable[..., Any], image: torch.Tensor) -> None:
    plan = check_schedule(lambda x: function(x).relu() * 0.1, image)
    assert [step for step in plan.steps if isinstance(step, ExternStep)] == []
    assert launches(plan) == 1, str(plan)


UP, WIDE, CUBE = torch.randn(16, 24, 4, 4), torch.randn(16, 1025, 4, 4), torch.randn(16, 24, 2, 2, 2)
LAST_UP = UP.to(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    "function, image",
    [
        (lambda x: F.conv_transpose2d(x, UP, SHIFT, stride=2, padding=1), image(16, 5, 6)),
        (lambda x: F.conv_transpose2d(x, UP, stride=4), image(16, 5, 6)),
        (lambda x: F.conv_transpose2d(x, UP[:, :, :2, :2], SHIFT, stride=2), image(16, 5, 6)),
        (lambda x: F.conv_transpose2d(x, UP, stride=2), image(16, 4, 5)),
        (lambda x: F.conv_transpose2d(x, UP, stride=2, padding=2, output_padding=(0, 0)), image(16, 4, 5)),
        (lambda x: F.conv_transpose2d(x, UP, stride=4, padding=3, output_padding=2), image(16, 4, 5)),
        (lambda x: F.conv_transpose2d(x, UP, stride=4, padding=(0, 2)), image(16, 1, 2)),
        (lambda x: F.conv_transpose2d(x, UP, stride=(1, 2), padding=(3, 1)), image(16, 4, 5)),
        (lambda x: F.conv_transpose2d(x, UP, dilation=2, padding=1), image(16, 4, 5)),
        (lambda x: F.conv_transpose2d(x, UP[:, :, :3, :1], stride=(1, 1), padding=(1, 0)), image(16, 4, 5)),
        (lambda x: F.conv_transpose2d(x, UP[:, :, :1, :1]), image(16, 4, 5)),
        (lambda x: F.conv_transpose2d(x, UP.transpose(2, 3), stride=2, padding=1), image(16, 4, 5)),
        (lambda x: F.conv_transpose2d(x, LAST_UP, stride=2), image(16, 4, 5)),
        (lambda x: F.conv_transpose2d(x[..., 1:, ::2], UP, stride=2, padding=1), image(16, 5, 8)),
        (lambda x: F.conv_transpose3d(x, CUBE, stride=2), image(16, 2, 3, 4)),
    ],
)
def test_transposed_convolutions(function: Callable[..., Any], image: torch.Tensor) -> None:
    plan = check_schedule(lambda x: function(x).relu() * 0.1, image)
    assert [step for step in plan.steps if isinstance(step, ExternStep)] == []
    assert launches(plan) == 1, str(plan)


def test_what_follows_a_convolution_is_in_its_kernel() -> None:
    torch.manual_seed(0)
    mean, variance = torch.randn(24), torch.rand(24) + 0.5

    def block(x: torch.Tensor) -> torch.Tensor:
        normal = F.batch_norm(F.conv2d(x, SQUARE, padding=1), mean, variance, SHIFT, SHIFT + 1)
        return F.relu6(normal + x)

    plan = check_schedule(block, image(24, 5, 6), rtol=1e-5, atol=1e-4)
    assert launches(plan) == 1 and not any(isinstance(step, ExternStep) for step in plan.steps), str(plan)


@pytest.mark.parametrize(
    "function, image",
    [
        (lambda x: F.conv2d(x, KERNEL), IMAGE.contiguous()),
        (lambda x: F.conv2d(x, THREE, padding=1), IMAGE.contiguous()),
        (lambda x: F.conv2d(x, KERNEL[:, :8], groups=2), IMAGE),
        (lambda x: F.conv_transpose2d(x, UP, stride=2, padding=1), IMAGE.contiguous()),
        (
            lambda x: F.conv_transpose2d(x, UP[:, :, :3, :3], stride=2, padding=1, output_padding=1),
            IMAGE,
        ),  # one tap, or two
        (lambda x: F.conv_transpose2d(x, UP, stride=2, padding=1, output_padding=1), IMAGE),  # half a cell
        (lambda x: F.conv_transpose2d(x, UP, stride=2, dilation=3), IMAGE),
        (lambda x: F.conv_transpose2d(x, UP, stride=2, groups=2), IMAGE),
        (lambda x: F.conv_transpose2d(x, UP[:, :16], stride=2, padding=1), IMAGE),
        (lambda x: F.conv_transpose2d(x, UP[:, :1].expand(16, 24, 4, 4), stride=2, padding=1), IMAGE),
        (lambda x: F.conv_transpose2d(x, WIDE, stride=4), IMAGE),
        (lambda x: F.conv_transpose2d(x, UP, stride=2, padding=1), image(16, 111, 110)),
        (lambda x: F.conv_transpose2d(x.double(), UP.double(), stride=2, padding=1), IMAGE),
        (lambda x: F.conv2d(x, THREE[:, :1], padding=1), image(1, 5, 6)),  # no channels to walk along
        (lambda x: F.conv2d(x, THREE[:1], padding=1), IMAGE),
        (lambda x: F.conv2d(x, THREE[:, :3], stride=2), image(3, 31, 30, batch=1)),
        (lambda x: F.conv2d(x, THREE[:1].expand(24, 16, 3, 3), padding=1), IMAGE),
        (lambda x: F.conv2d(x.double(), THREE.double(), padding=1), IMAGE),
        (lambda x: F.conv2d(x, torch.ones(4, 16, 16, 16), padding=8), IMAGE),
        (lambda x: F.conv2d(x, THREE, padding=1), image(16, 5, 6, batch=0)),
        (lambda x: F.conv2d(x, DEEP, padding=1), image(101, 65, 64, batch=1)),
        # A point by any kernel with as much of nothing around it has no layout to go by: its result is contiguous.
        (lambda x: F.conv2d(x, THREE, padding=4), torch.randn(3, 16, 1, 1)),
    ],
)
def test_other_convolutions_are_left_to_aten(function: Callable[..., Any], image: torch.Tensor) -> None:
    plan = check_schedule(function, image)
    assert any(isinstance(step, ExternStep) for step in plan.steps)


def test_without_the_pass_for_masked_loads_padding_is_left_to_aten() -> None:
    graph, _ = trace(lambda x: F.conv2d(x, THREE, padding=1), IMAGE)
    program = lower(graph, [IMAGE], Options(disabled_passes=("masked_load",)))
    assert all(isinstance(operation, ExternOp) for operation in program.operations)
