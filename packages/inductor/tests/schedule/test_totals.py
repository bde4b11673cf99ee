"""Sums over columns that a kernel of rows keeps totals for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from inductor_schedules import run
from inductor_tracing import default_tolerance, trace
from torch import Tensor

from inductor import Options, Schedule, lower, schedule
from inductor.ir.operations import Store
from inductor.schedule.schedule import KernelStep
from inductor.traits import DeviceTraits

aten = torch.ops.aten
TRAITS = DeviceTraits(shares_rows=False, keeps_totals=True)
ROWS, WIDTH = 3072, 24
GENERATOR = torch.Generator().manual_seed(0)


def normal(*size: int) -> Tensor:
    return torch.randn(size, generator=GENERATOR)


X, Y, W = normal(ROWS, WIDTH), normal(ROWS, WIDTH), normal(WIDTH)
MEAN, SCALE = X.mean(1, keepdim=True), torch.rsqrt(X.var(1, keepdim=True))


def totals(plan: Schedule) -> int:
    """Buffers that the kernels keep totals in."""
    steps = [step for step in plan.steps if isinstance(step, KernelStep)]
    return sum(isinstance(op, Store) and op.mode == "total" for step in steps for op in step.kernel.body.ops)


def check(function: Callable[..., Any], *inputs: Tensor, kept: int, launches: int) -> Schedule:
    graph, expected = trace(function, *inputs)
    plan = schedule(lower(graph, inputs), Options(), traits=lambda _: TRAITS)
    for got, want in zip(run(plan, *inputs), expected, strict=True):
        torch.testing.assert_close(got, want, **(default_tolerance(want.dtype) or {"rtol": 1e-4, "atol": 1e-4}))
    assert (totals(plan), plan.launches) == (kept, launches), str(plan)
    return plan


def layer_norm(g: Tensor, x: Tensor, mean: Tensor, scale: Tensor, w: Tensor, b: Tensor) -> Any:
    return aten.native_layer_norm_backward(g, x, (WIDTH,), mean, scale, w, b, [True, True, True])


def rms_norm(g: Tensor, x: Tensor, scale: Tensor, w: Tensor) -> Any:
    inner = (g * w * x).mean(1, keepdim=True)
    return scale * (g * w - x * scale * scale * inner), (g * x * scale).sum(0)


def softmax_with_bias(g: Tensor, y: Tensor) -> Any:
    d = aten._softmax_backward_data(g, y, -1, g.dtype)
    return d, d.sum(0)


def gelu_of_normed(g: Tensor, x: Tensor, b: Tensor) -> Any:
    """The gradient of a bias behind what is normed, and a residual."""
    d = aten.gelu_backward(g, x + b)
    return d - d.mean(1, keepdim=True), d.sum(0), g.sum(0)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...], int]] = {
    "layer norm": (layer_norm, (Y, X, MEAN, SCALE, W, W), 2),
    "layer norm of halves": (layer_norm, (Y.half(), X.half(), MEAN, SCALE, W.half(), W.half()), 2),
    "rms norm": (rms_norm, (Y, X, SCALE, W), 1),
    "softmax with bias": (softmax_with_bias, (Y, torch.softmax(X, 1)), 1),
    "gelu with bias": (gelu_of_normed, (Y, X, W), 2),
    "of batches": (
        lambda g, y: ((d := aten._softmax_backward_data(g, y, -1, g.dtype)), d.sum((0, 1))),
        (Y.view(3, 1024, WIDTH), torch.softmax(X, 1).view(3, 1024, WIDTH)),
        1,
    ),
    "of doubles": (softmax_with_bias, (Y.double(), torch.softmax(X, 1).double()), 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_walk_over_memory(name: str) -> None:
    """The kernel of rows, and one that adds up its programs' totals."""
    function, inputs, kept = PROGRAMS[name]
    check(function, *inputs, kept=kept, launches=2)


def test_what_is_made_elementwise_is_summed_where_it_is_made() -> None:
    """No row is reduced: a kernel of columns does it all."""
    check(lambda g, x: ((d := aten.gelu_backward(g, x)), d.sum(0)), Y, X, kept=0, launches=2)


def test_few_rows_are_no_work_for_all_programs() -> None:
    check(softmax_with_bias, Y[:1024], torch.softmax(X[:1024], 1), kept=0, launches=3)


def test_what_waits_for_the_sum_is_another_kernel() -> None:
    """Sums that a row's reduction needs are cut into as many parts as suit a kernel of columns."""
    parted = check(lambda x: torch.softmax(x + x.sum(0), 1), X, kept=0, launches=3)
    alone = check(lambda x: x.sum(0), X, kept=0, launches=2)
    assert parted.kernels[0].outer_sizes == alone.kernels[0].outer_sizes


def test_a_result_of_rows_that_a_sum_needs() -> None:
    """The row's sum is there when the column's is added to."""
    check(lambda x: (torch.softmax(x, 1), (x * x.sum(1, keepdim=True)).sum(0)), X, kept=1, launches=2)


def test_largest_of_columns_are_not_summed() -> None:
    check(lambda g, y: ((d := aten._softmax_backward_data(g, y, -1, g.dtype)), d.amax(0)), Y, X, kept=0, launches=3)


def test_sums_of_rows_and_of_columns() -> None:
    """Either could be totals of the other: memory is walked through along its rows."""
    plan = check(lambda x: (x.sum(0), x.exp().sum(1)), X, kept=1, launches=2)
    assert plan.kernels[0].inner_sizes == (WIDTH,)


def test_threads_hold_so_many_totals() -> None:
    def many(count: int) -> Callable[..., Any]:
        def function(g: Tensor, y: Tensor) -> tuple[Tensor, ...]:
            d = aten._softmax_backward_data(g, y, -1, g.dtype)
            return d, *((d * (y + k)).sum(0) for k in range(count))

        return function

    check(many(8), Y, torch.softmax(X, 1), kept=8, launches=2)
    check(many(9), Y, torch.softmax(X, 1), kept=0, launches=3)
