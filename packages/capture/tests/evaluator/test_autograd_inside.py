"""Programs with autograd inside do captured what they do in eager, in one graph."""

from __future__ import annotations

from collections.abc import Callable

import autograd_custom
import autograd_inside
import autograd_parameters  # noqa: F401
import autograd_recipes  # noqa: F401
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


def test_hooks_on_what_is_saved_see_it() -> None:
    weight = torch.ones(3, requires_grad=True)
    packed: list[torch.Tensor] = []

    def step(x: torch.Tensor) -> None:
        (weight * x).exp().sum().backward()

    def pack(saved: torch.Tensor) -> torch.Tensor:
        packed.append(saved)
        return saved

    compiled = capture.compile(step)
    compiled(torch.ones(3))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved * 2):
        compiled(torch.ones(3))
    compiled(torch.ones(3))
    assert packed and torch.allclose(weight.grad, torch.full((3,), 6 * torch.e))


def test_anomalies_are_found() -> None:
    weight = torch.zeros(3, requires_grad=True)

    def step(x: torch.Tensor) -> None:
        (weight.sqrt() * x).sum().backward()

    compiled = capture.compile(step)
    compiled(torch.zeros(3))
    with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="nan values"):
        compiled(torch.zeros(3))


def _required_and_another(t):
    t.requires_grad_()
    y = (t * 3).sum()
    t.data = torch.zeros(3)
    y.backward()
    return t.grad


def _required_and_another_for_later(t):
    t.requires_grad_()
    y = (t * 3).sum()
    t.data = torch.zeros(3)
    return y, t


def test_a_leaf_that_is_made_one_and_given_other_data_gets_the_gradient_of_before():
    three = torch.full((3,), 3.0)
    compiled = capture.compile(_required_and_another)
    later = capture.compile(_required_and_another_for_later)
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(3)), three)
        y, t = later(torch.ones(3))
        y.backward()
        assert torch.equal(t.grad, three) and torch.equal(t, torch.zeros(3))


def test_a_kept_gradient_is_another_tensor_after_each_backward() -> None:
    def twice(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = x * weight
        h.retain_grad()
        y = (h * h).sum()
        y.backward(retain_graph=True)
        first = h.grad
        y.backward()
        return first, h.grad

    weight = torch.ones(2, requires_grad=True)
    first, both = capture.compile(twice, fullgraph=True)(torch.ones(2), weight)
    assert first.tolist() == [2.0, 2.0] and both.tolist() == [4.0, 4.0] and both._version == 0


def test_gradients_of_parameters_can_be_detached_in_place() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 2))

    def step(x: torch.Tensor) -> None:
        model(x).sum().backward()

    compiled = capture.compile(step, fullgraph=True)
    for _ in range(2):
        compiled(torch.ones(1, 2))
        for parameter in model.parameters():
            assert parameter.grad._base is None
            parameter.grad.detach_().zero_()  # as older training loops do it


def test_a_function_of_autograd_that_marks_a_leaf_as_written_to() -> None:
    compiled = capture.compile(lambda x: autograd_custom.InPlace.apply(x) + 1)
    for _ in range(2):
        leaf = torch.ones(2, requires_grad=True)
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place"):
            compiled(leaf)
        assert leaf.tolist() == [2.0, 2.0]
        assert compiled(leaf * 1).tolist() == [5.0, 5.0]


@pytest.mark.parametrize(
    "hook",
    [
        lambda gradient: gradient.clamp_(-3, 3),
        lambda gradient: gradient.data.mul_(2),
        lambda gradient: gradient.__setitem__(0, 7.0),
    ],
)
def test_a_hook_that_writes_to_its_gradient(hook: Callable[[torch.Tensor], object]) -> None:
    def step(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h, other = x * 2, x * 3
        h.register_hook(lambda gradient: (hook(gradient), None)[1])
        ((h + other) * torch.tensor([4.0, 5.0])).sum().backward()
        return (x.grad,)

    compiled = capture.compile(step)
    for _ in range(2):
        expected = step(torch.ones(2, requires_grad=True))
        assert torch.equal(compiled(torch.ones(2, requires_grad=True))[0], expected[0])
