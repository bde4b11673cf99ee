"""Programs with autograd inside do captured what they do in eager, in one graph."""

from __future__ import annotations

import autograd_custom  # noqa: F401  (registers its programs)
import autograd_inside
import pytest
import torch

import capture


@pytest.mark.parametrize("name", autograd_inside.PROGRAMS)
def test_program(name: str) -> None:
    capture.reset()
    autograd_inside.check(name, lambda fn: capture.compile(fn, fullgraph=name not in autograd_inside.BREAKS))


def test_a_leaf_that_is_none_at_another_call() -> None:
    def square(x: torch.Tensor) -> None:
        (x * x).sum().backward()

    compiled = capture.compile(square)
    first, second = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    compiled(first)
    compiled(second * 2)
    assert torch.equal(first.grad, torch.full((3,), 2.0)) and torch.equal(second.grad, torch.full((3,), 8.0))


def test_hooks_that_come_later() -> None:
    weight = torch.ones(3, requires_grad=True)
    seen = []

    def step(x: torch.Tensor) -> None:
        (weight * x).sum().backward()

    compiled = capture.compile(step)
    compiled(torch.ones(3))
    weight.register_hook(lambda g: g * 10)
    compiled(torch.ones(3))
    assert torch.equal(weight.grad, torch.full((3,), 11.0))
    weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    compiled(torch.ones(3))
    assert len(seen) == 1 and torch.equal(seen[0], torch.full((3,), 21.0))


def test_the_way_back_leads_through_what_was_computed_before() -> None:
    weight = torch.ones(3, requires_grad=True)

    def step(h: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad((h * h).sum(), [weight])

    (expected,) = step(weight * 2, weight)
    (found,) = capture.compile(step)(weight * 2, weight)
    assert torch.equal(found, expected)
