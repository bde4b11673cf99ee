"""Long reductions of few rows in two steps."""

import pytest
import torch
from inductor_dynamic import check_dynamic
from inductor_schedules import check_schedule, launches

from inductor import Options

SPLIT = Options(split_reductions=True)
X = torch.randn(4, 1 << 15, generator=torch.Generator().manual_seed(0))


def total(x: torch.Tensor) -> torch.Tensor:
    return x.exp().sum() + 1


def statistics(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.mean(-1), x.amax(-1), (x > 0).all(-1), x.sum(-1).exp()


def channels(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x.view(8, 4, 64, 64)
    return y.sum((0, 2, 3)), (y * y).mean((0, 2, 3))


@pytest.mark.parametrize("function", [total, statistics, channels], ids=lambda f: f.__name__)
def test_two_steps_give_the_same(function) -> None:
    plan = check_schedule(function, X, options=SPLIT, rtol=1e-4, atol=1e-3)
    # The first steps read the same and are one kernel.
    assert launches(plan) == 2, str(plan)
    assert launches(check_schedule(function, X, rtol=1e-4, atol=1e-3)) == 1


def test_what_cannot_be_split_stays_whole() -> None:
    for function in (lambda x: x.argmax(-1), lambda x: x[:, : (1 << 15) - 19].sum(-1), lambda x: x[:, :100].sum(-1)):
        plan = check_schedule(function, X, options=SPLIT, rtol=1e-4, atol=1e-3)
        assert launches(plan) == 1
    assert (
        launches(check_schedule(lambda x: x.sum(-1), torch.randn(600, 1 << 14), options=SPLIT, rtol=1e-4, atol=1e-3))
        == 1
    )


def test_the_loop_that_divides_best_is_cut() -> None:
    x = torch.randn(3, 4, 64, 128)
    plan = check_schedule(lambda x: x.sum((0, 2, 3)), x, options=SPLIT, rtol=1e-4, atol=1e-3)
    assert "over [64 | 3, 512]" in str(plan), str(plan)


def test_symbolic_rows_are_cut_into_what_their_outer_loop_runs_over() -> None:
    def statistics(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # Channels are a constant, as a convolution makes them: its sizes are those of the weight.
        y = torch.nn.functional.conv2d(x, torch.ones(8, 1, 1, 1))
        return y.sum((0, 2, 3)) + 1, (y * y).mean((0, 2, 3)), y.amax((0, 2, 3)), y

    def of(batch: int, side: int) -> tuple[torch.Tensor, ...]:
        return (torch.randn(batch, 1, side, side, generator=torch.Generator().manual_seed(batch)),)

    sizes = [of(4, 64), of(2, 3), of(7, 30)]
    plan = check_dynamic(statistics, *sizes, options=SPLIT, rtol=1e-4, atol=1e-3)
    whole = check_dynamic(statistics, *sizes, rtol=1e-4, atol=1e-3)
    assert launches(plan) == launches(whole) + 1, str(plan)
