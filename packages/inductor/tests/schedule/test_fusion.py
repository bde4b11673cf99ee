"""Which loops become one kernel, and that the numbers stay eager's."""

import pytest
import torch
import torch.nn.functional as F
from inductor_schedules import check_schedule, launches

from inductor import Options
from inductor.schedule.lives import extent

X = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
WEIGHT = torch.randn(8, 8, generator=torch.Generator().manual_seed(1))
SEPARATE = Options(fuse=False, inplace=False, reuse_memory=False)


def realized(x: torch.Tensor) -> torch.Tensor:
    """A value in memory: the result of an ATen call."""
    return torch.sort(x, -1).values


def softmax(x: torch.Tensor) -> torch.Tensor:
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def layer_norm_parts(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    mean = x.mean(-1, keepdim=True)
    centred = x - mean
    variance = (centred * centred).mean(-1, keepdim=True)
    return centred * torch.rsqrt(variance + 1e-5), mean, variance


def column_sum_after_pointwise(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = realized(x).relu()
    return y, y.sum(0)


def horizontal(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.exp(), x.sin(), x.sum(-1)


def transposed_consumer(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = realized(x) + 1
    return y, (y.t().contiguous() * 2)


def flat_consumer(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = realized(x) + 1
    return y, y.reshape(-1) * 2, y.reshape(3, 16).sum(-1)


def two_reductions(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.sum(-1), x.amax(-1), x.argmax(-1)


def epilogue(x: torch.Tensor) -> torch.Tensor:
    return x.sum(-1).exp() + 1


def shifted(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = realized(x).exp()
    return y, y[:, 1:] - y[:, :-1]


ONE_KERNEL = [
    softmax,
    layer_norm_parts,
    column_sum_after_pointwise,
    horizontal,
    transposed_consumer,
    two_reductions,
    epilogue,
]


@pytest.mark.parametrize("function", ONE_KERNEL, ids=lambda f: f.__name__)
def test_becomes_one_kernel(function) -> None:
    plan = check_schedule(function, X)
    assert launches(plan) == 1, str(plan)
    check_schedule(function, X, options=SEPARATE)


def test_different_rows_do_not_fuse_with_whole_ones() -> None:
    # (6, 8) viewed as (3, 16) and summed: rows of 16 are not rows of 8, but refine them.
    plan = check_schedule(flat_consumer, X)
    assert launches(plan) == 1, str(plan)


def test_reading_at_another_place_needs_two_kernels() -> None:
    plan = check_schedule(shifted, X)
    assert launches(plan) == 2


def test_scatter_is_not_read_in_its_own_kernel() -> None:
    index = torch.tensor([[0, 2, 0, 1, 1, 1, 3, 5]])

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(6, 8).scatter_add(0, index, x[:1].exp()) * 2

    plan = check_schedule(f, X)
    scatters = [s for s in plan.steps if hasattr(s, "loop") and any(o.mode for o in s.loop.body.stores())]
    assert len(scatters) == 1
    assert launches(plan) >= 2


def test_a_long_serial_row_stays_apart() -> None:
    x = torch.randn(2, 1 << 17)

    def f(x: torch.Tensor) -> torch.Tensor:
        return x - x.amax(-1, keepdim=True)

    assert launches(check_schedule(f, x)) == 2
    assert launches(check_schedule(f, x, options=Options(max_serial_row=1 << 20))) == 1


def test_kernel_limits() -> None:
    def f(x: torch.Tensor) -> list[torch.Tensor]:
        return [x * k for k in range(8)]

    assert launches(check_schedule(f, X)) == 1
    assert launches(check_schedule(f, X, options=Options(max_kernel_buffers=5))) == 2
    assert launches(check_schedule(f, X, options=Options(horizontal=False))) == 8


def test_no_cycle_through_an_extern_call() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = realized(x).exp()
        z = realized(y)  # between producer and consumer
        return y * z.sum(), y

    check_schedule(f, X)


def test_half_precision_is_rounded_as_in_memory() -> None:
    x = X.to(torch.bfloat16)

    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.mm(x, x.t()).sum(-1)
        z = y * 3
        return y, z.amax()

    fused = check_schedule(f, x)
    assert launches(fused) <= 2


def test_equal_layers_share_a_kernel() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = F.gelu(torch.mm(x, WEIGHT))
        return x

    plan = check_schedule(f, X)
    assert launches(plan) == 4 and len(plan.kernels) == 1, str(plan)


def test_random_calls_keep_their_order() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = torch.rand(4)
        b = torch.randn(4)
        c = torch.rand(4)
        return c + 1, a * 2, b

    def run(seed: int):
        torch.manual_seed(seed)
        return f(X)

    from inductor_schedules import run as run_plan
    from inductor_schedules import scheduled

    plan = scheduled(f, X)
    expected = run(7)
    torch.manual_seed(7)
    for got, want in zip(run_plan(plan, X), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)


def test_a_reduction_over_one_element_joins_a_longer_one() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x[:, :1]
        return y.mean(0), y.mean(1), y.argmax(1), y.any(1), (y > 0).all(1), y.amax(1)

    check_schedule(f, X)
    check_schedule(f, X, options=SEPARATE)


def test_rows_and_columns_of_a_square_stay_apart() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.sum(0), x.sum(1)

    assert launches(check_schedule(f, torch.randn(8, 8))) == 2


def test_float32_made_of_halves_is_made_again_rather_than_kept() -> None:
    """The gradient of a batch norm in half precision: sums over all but channels, then each element by them. What it subtracts the mean
    from, twice as wide as what it is made of, is nowhere in memory."""

    def f(grad: torch.Tensor, x: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
        wide = torch.where(x > 0, grad, torch.zeros_like(grad)).float()
        centred = x.float() - mean
        total, product = wide.sum((0, 2), keepdim=True), (wide * centred).sum((0, 2), keepdim=True)
        return (wide - total / 144 - centred * (product / 144)).half()

    grad, x = torch.randn(2, 6, 5, 24, generator=torch.Generator().manual_seed(2)).half().unbind()
    given = grad, x, torch.randn(1, 5, 1)
    check_schedule(f, *given, rtol=1e-2, atol=1e-2)
    plan = check_schedule(f, *given, options=SEPARATE, rtol=1e-2, atol=1e-2)
    large = [
        name for step in plan.steps for name in step.loop.writes if extent(plan.program.buffers[name]) == x.numel()
    ]
    assert [plan.program.buffers[name].dtype for name in large] == [torch.float16]


def test_sums_over_what_a_kernel_makes_run_beside_those_over_what_it_is_made_of() -> None:
    """Those of a norm's weights read what the gradient of its input is made of, those of a bias that gradient."""

    def f(grad: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        grad, wide = realized(grad), x.float()
        scaled = grad.float() * wide.pow(2).mean(-1, keepdim=True)
        made = (scaled - wide * (scaled * wide).mean(-1, keepdim=True)).half()
        return made, (grad.float() * wide).sum(0), grad.float().sum(0), made.sum(0)

    given = torch.randn(2, 40, 24, generator=torch.Generator().manual_seed(2)).half().unbind()
    assert launches(check_schedule(f, *given, rtol=1e-2, atol=1e-2)) == 2
