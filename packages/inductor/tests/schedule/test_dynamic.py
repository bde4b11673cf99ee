"""Schedules over symbolic sizes."""

import torch
from inductor_dynamic import check_dynamic
from inductor_schedules import launches


def tensors(*sizes: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(size) for size in sizes)


def test_softmax_is_one_kernel() -> None:
    plan = check_dynamic(lambda x: (x.softmax(-1),), tensors((4, 6)), tensors((3, 7)), tensors((9, 2)))
    assert launches(plan) == 1


def test_reductions_broadcasts_and_layouts() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = (x + y).exp()
        return z, z.sum(0), z.t().contiguous(), (z - z.mean(-1, keepdim=True)).relu()

    check_dynamic(f, tensors((4, 6), (6,)), tensors((3, 5), (5,)), tensors((8, 9), (9,)))


def test_views_between_kernels() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.cumsum(0)  # in memory
        return y.reshape(-1) * 2, y.view(x.shape[0] * x.shape[1], 4).sum(-1), y[1:] + 1

    check_dynamic(f, tensors((3, 5, 4)), tensors((6, 2, 4)))


def test_memory_is_reused_between_symbolic_sizes() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        for _ in range(4):
            x = x.cumsum(0).tanh()
        return (x,)

    plan = check_dynamic(f, tensors((3, 5)), tensors((6, 2)))
    assert plan.memory.reused
