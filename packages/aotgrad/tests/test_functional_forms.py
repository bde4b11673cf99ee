"""Operators that write to their arguments and have no functional form: a user's own."""

from __future__ import annotations

import pytest
import torch

import aotgrad


@torch.library.custom_op("forms::double", mutates_args={"x"})
def double(x: torch.Tensor) -> None:
    x.mul_(2)


@torch.library.custom_op("forms::spread", mutates_args={"targets", "more"})
def spread(
    source: torch.Tensor,
    targets: list[torch.Tensor],
    more: torch.Tensor | None,
    *,
    by: float = 1.0,
    counts: list[int],
) -> torch.Tensor:
    for target, count in zip(targets, counts):
        target.add_(source.sum() * by * count)
    if more is not None:
        more.fill_(by)
    return source + by


@spread.register_fake
def _(source, targets, more, *, by=1.0, counts):
    return torch.empty_like(source)


def test_a_new_tensor(check):
    def program(x):
        y = torch.empty_like(x).fill_(3)
        double(y)
        return y + x

    check(program, torch.randn(4, 5))


def test_an_input(check):
    def program(x):
        double(x)
        return x + 1

    check(program, torch.randn(4, 5))


def test_an_input_with_strides(check):
    def program(x):
        double(x)
        double(x[1])
        double(x.t()[2:])
        return x.sum()

    check(program, torch.randn(5, 4).t())
    check(program, torch.randn(4, 10)[:, ::2])


def test_lists_nothing_and_numbers(check):
    def program(x, y):
        z = x * 2
        first = spread(z, [z[:1], y], None, counts=[1, 2])
        second = spread(x, [z[1], y[0]], z[2], by=3.5, counts=[2, 1])
        return first, second, z

    check(program, torch.randn(4, 5), torch.randn(3, 2))


def test_one_tensor_twice(check):
    def program(x):
        y = x + 1
        spread(y[0], [y, y[1:]], y[:2], counts=[1, 2])
        return y

    check(program, torch.randn(4, 5))


def test_gradients_around(check):
    def program(x, y):
        z = x.detach() * 2
        double(z)
        return (z * y).sum() + x.sum()

    check(program, torch.randn(4, requires_grad=True), torch.randn(4, requires_grad=True))


def test_elements_that_are_one_in_memory():
    def program(x):
        double(x)
        return x + 1

    with pytest.raises(aotgrad.Unsupported, match="one in memory"):
        aotgrad.trace_inference(program, [torch.randn(4).expand(3, 4)])


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.expand(2, 4)[1].mul_(2),
        lambda x: x.unfold(0, 3, 1)[:, 0].add_(1),
        lambda x: x.as_strided((2, 3), (1, 1))[0].fill_(7),
        lambda x: torch._foreach_add_([x.expand(2, 4)[0]], 1),
    ],
)
def test_a_part_of_elements_that_are_one_in_memory(write):
    def program(x):
        write(x)
        return x + 1

    with pytest.raises(aotgrad.Unsupported, match="one in memory"):
        aotgrad.trace_inference(program, [torch.randn(4)])


def test_a_view_of_other_dimensions(check):
    def program(x, y):
        double(x.reshape(-1))
        double(y.view(2, 6))
        return x + 1

    check(program, torch.randn(()), torch.randn(12))
