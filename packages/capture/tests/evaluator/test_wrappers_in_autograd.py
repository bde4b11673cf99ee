"""Gradients of tensors whose classes say below autograd what operations on them are: the classes are asked what they are asked in eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from dispatching import ASKED, Defaulting, Eighths, Pair

import capture


def pair(cls: Any = Pair) -> Any:
    return cls(torch.arange(1.0, 4.0), torch.full((3,), 2.0))


def told(value: Any) -> Any:
    """What can be compared: classes, parts, gradients."""
    if isinstance(value, list | tuple):
        return [told(each) for each in value]
    if not isinstance(value, torch.Tensor):
        return value
    held = [value.a.tolist(), value.b.tolist()] if isinstance(value, Defaulting) else value.tolist()
    return type(value), held, value.requires_grad, told(value.grad) if value.is_leaf else None


def outcomes(fn: Callable[..., Any], compiled: Callable[..., Any], make: Callable[[], tuple[Any, ...]]) -> list[Any]:
    """What the plain function and the compiled one give, leave of their arguments, and ask classes; with a backward of what they give."""
    found = []
    for each in (fn, compiled):
        args = make()
        ASKED.clear()
        result = each(*args)
        if isinstance(result, torch.Tensor) and result.grad_fn is not None:
            result.sum().backward()
        asked = list(ASKED)
        found.append((told(result), told(args), asked))
    return found


def forward(x):
    return x.sin() * x + 1


def backward(x):
    y = x * 2
    (y * y).sum().backward()
    return x.grad


def asked_for(x):
    return torch.autograd.grad((x * x * x).sum(), [x])


def updated(x):
    (x * x).sum().backward()
    with torch.no_grad():
        x.sub_(x.grad * 0.5)
    x.grad = None
    return x.detach() * 2


@pytest.mark.parametrize("fn", [forward, backward, asked_for, updated])
@pytest.mark.parametrize("cls", [Pair, Defaulting])
@pytest.mark.parametrize("made", [lambda x: x.requires_grad_(), torch.nn.Parameter])
def test_gradients_of_wrappers(fn: Callable[..., Any], cls: Any, made: Callable[[Any], Any]) -> None:
    compiled = capture.compile(fn)
    for _ in range(3):
        wanted, got = outcomes(fn, compiled, lambda: (made(pair(cls)),))
        assert wanted == got


def test_gradients_through_a_module_with_a_weight_that_is_one() -> None:
    def make() -> tuple[Any, ...]:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 3)
        model.weight = torch.nn.Parameter(Eighths.of(model.weight.detach()), requires_grad=False)
        return model, torch.linspace(-1, 1, 8).view(2, 4).requires_grad_()

    def fn(model, x):
        return torch.relu(model(x))

    compiled = capture.compile(fn)
    for _ in range(2):
        gradients = []
        for each in (fn, compiled):
            model, x = make()
            y = each(model, x)
            y.sum().backward()
            gradients.append((y.tolist(), x.grad, model.bias.grad))
        assert gradients[0][0] == gradients[1][0]
        assert all(torch.equal(a, b) for a, b in zip(gradients[0][1:], gradients[1][1:], strict=True))
