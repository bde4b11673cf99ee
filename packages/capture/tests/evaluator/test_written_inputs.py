"""Inputs that a frame writes to: which of them autograd lets be written to is not in their metadata."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture


def leaf() -> torch.Tensor:
    return torch.ones(4, requires_grad=True)


def made_without_gradients() -> torch.Tensor:
    whole = leaf() * 1
    with torch.no_grad():
        return whole[:4]


INPUTS: dict[str, Callable[[], torch.Tensor]] = {
    "computed": lambda: leaf() * 1,
    "a leaf": leaf,
    "a view of a leaf": lambda: leaf()[:4],
    "a view": lambda: (leaf() * 1)[:4],
    "one of several views": lambda: (torch.ones(2, 4, requires_grad=True) * 1).unbind()[0],
    "a view made without gradients": made_without_gradients,
    "without gradients": lambda: torch.ones(4),
    "a view without gradients": lambda: torch.ones(2, 4)[0],
    "one of several without gradients": lambda: torch.ones(2, 4).unbind()[0],
}


WEIGHT = torch.full((4,), 3.0, requires_grad=True)


def written_to(x, seen):
    seen.append(1)
    y = x * 1
    x.add_(1)
    seen.append(2)
    return y + x.sum()


def handled(x, seen):
    seen.append(1)
    try:
        x.mul_(2)
    except RuntimeError as error:
        seen.append(str(error))
    return x * 2


def a_view_is_written_to(x, seen):
    seen.append(1)
    x.view(-1)[0] = 5
    return x * 2


def given_gradients(x, seen):
    seen.append(1)
    x.copy_(WEIGHT * 2)
    return x * 2


def outcome(fn: Callable[..., Any], make: Callable[[], torch.Tensor]) -> Any:
    x, seen = make(), []
    try:
        result = fn(x, seen).tolist()
    except RuntimeError as error:
        result = str(error)
    return result, seen, x.tolist()


@pytest.mark.parametrize("fn", [written_to, handled, a_view_is_written_to, given_gradients])
def test_a_write_that_autograd_refuses(fn: Callable[..., Any]) -> None:
    for first, second in itertools.permutations(INPUTS, 2):
        compiled = capture.compile(fn)
        for name in (first, second, first):
            assert outcome(compiled, INPUTS[name]) == outcome(fn, INPUTS[name]), (first, second, name)


VIEWS: dict[str, Callable[[torch.Tensor], Any]] = {
    "several": lambda x: x.unbind(),
    "pieces": lambda x: x.split(1),
    "one each": lambda x: (x[0], x[1]),
}


@pytest.mark.parametrize("made_with", [True, False])
@pytest.mark.parametrize("views", VIEWS)
def test_a_view_that_has_no_gradient_once_it_was_written_to(views: str, made_with: bool) -> None:
    def written(x, first, second):
        with torch.no_grad():
            first.mul_(2)
        return second + 1

    def of_one(x, first, second):
        return written(x, first, first)

    def told(fn: Callable[..., Any], each: str) -> Any:
        x = torch.ones(2, 4, requires_grad=True) * 1
        with torch.set_grad_enabled(made_with):
            first, second = VIEWS[each](x)
        try:
            found = fn(x, first, second)
            return found.tolist(), found.requires_grad, x.tolist()
        except RuntimeError as error:
            return str(error), x.tolist()

    for fn in (written, of_one):
        for order in ((views,) * 3, ("one each", views), (views, "one each")):
            compiled = capture.compile(fn)
            for each in order:
                assert told(compiled, each) == told(fn, each)


def test_leaves_are_written_to_beside_their_gradients() -> None:
    def step(x):
        x.detach().mul_(0.5)
        with torch.no_grad():
            x.add_(1)
        return x * 2

    compiled = capture.compile(step, fullgraph=True)
    for make in (leaf, INPUTS["computed"], leaf):
        assert torch.equal(compiled(make()), step(make()))


@pytest.mark.parametrize("name", ["without gradients", "a view without gradients", "computed", "a view"])
def test_what_may_be_given_gradients_ends_no_graph(name: str) -> None:
    compiled = capture.compile(given_gradients, fullgraph=True)
    for _ in range(2):
        x = INPUTS[name]()
        (gradient,) = torch.autograd.grad(compiled(x, []).sum(), WEIGHT)
        assert gradient.tolist() == [4] * 4 and x.tolist() == [6] * 4
