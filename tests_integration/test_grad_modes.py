"""Grad mode belongs to a piece of the program: what is recorded is what eager records, wherever a graph begins or breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture
import meta

W = torch.randn(4, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()


@capture.disable
def _break() -> None:
    """What capture does not look into."""


@torch.no_grad()
def _quiet(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ W)


@torch.enable_grad()
def _loud(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ W)


@torch.set_grad_enabled(False)
def _set_off(x: torch.Tensor) -> torch.Tensor:
    return x @ W


torch.set_grad_enabled(True)  # the decorator above has switched it off


@torch.inference_mode()
def _inference(x: torch.Tensor) -> torch.Tensor:
    return x @ W


def decorated(x: torch.Tensor) -> Any:
    return _quiet(x), _loud(x) * 2, _quiet(_loud(x)), _loud(_quiet(x)), _set_off(x)


def break_within_no_grad(x: torch.Tensor) -> Any:
    before = torch.tanh(x @ W)
    with torch.no_grad():
        inside = before * 2
        _break()
        more = inside + x @ W
    return before, inside, more, before * 3


def break_within_enable_grad(x: torch.Tensor) -> Any:
    before = torch.tanh(x @ W)
    with torch.enable_grad():
        inside = before * 2 + x @ W
        _break()
        more = inside.sin() + x @ W
    return before, inside, more, more * 2


def set_as_function(x: torch.Tensor) -> Any:
    was = torch.is_grad_enabled()
    torch.set_grad_enabled(not was)
    one = x @ W
    _break()
    two = (x @ W).sin()
    torch.set_grad_enabled(was)
    return one, two, x @ W, was


def nested(x: torch.Tensor) -> Any:
    with torch.no_grad():
        one = x @ W
        with torch.enable_grad():
            two = x @ W
            with torch.set_grad_enabled(False):
                three = two * 2
            four = two.sin()
        five = four * 2
    return one, two, three, four, five, torch.is_grad_enabled()


def left_by_an_exception(x: torch.Tensor) -> Any:
    try:
        with torch.set_grad_enabled(not torch.is_grad_enabled()):
            one = x @ W
            raise ValueError
    except ValueError:
        return one, x @ W


def differentiated_within(x: torch.Tensor) -> Any:
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        (g,) = torch.autograd.grad(torch.tanh(x @ W).sum(), x)
    return g, (x @ W).detach(), x.requires_grad


def inference_within(x: torch.Tensor) -> Any:
    one = x @ W
    with torch.inference_mode():
        two = one * 2
    three = _inference(x).clone()
    return one.sin(), two.clone(), three, two.is_inference()


def written_within(x: torch.Tensor) -> Any:
    total = torch.zeros(3, 4)
    hidden = x @ W
    with torch.no_grad():
        total += hidden
    with torch.enable_grad():
        other = hidden * (x @ W)
    return total, hidden, other, other[:2]


PROGRAMS: tuple[Callable[[torch.Tensor], Any], ...] = (
    decorated, break_within_no_grad, break_within_enable_grad, set_as_function, nested, left_by_an_exception,
    differentiated_within, inference_within, written_within,
)  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_grad_mode(program: Callable[[torch.Tensor], Any], backend: str) -> None:
    run = meta.compile(program, backend=backend)
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    for enabled in (True, False, True):
        with torch.set_grad_enabled(enabled):
            found, expected = run(x), program(x)
            assert torch.is_grad_enabled() == enabled
        for at, (mine, eagers) in enumerate(zip(found, expected, strict=True)):
            if not isinstance(eagers, torch.Tensor):
                assert mine == eagers, at
                continue
            torch.testing.assert_close(mine, eagers)
            assert mine.requires_grad == eagers.requires_grad, (at, enabled)
            if eagers.requires_grad:
                ours, theirs = (
                    torch.autograd.grad(t.square().sum(), W, retain_graph=True, allow_unused=True)
                    for t in (mine, eagers)
                )
                torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_inputs_made_in_inference_mode(backend: str) -> None:
    with torch.inference_mode():
        x = torch.randn(3, 4)
    run = meta.compile(lambda x: torch.tanh(x + W[:3]), backend=backend)
    (mine,) = torch.autograd.grad(run(x).sum(), W)
    torch.testing.assert_close(mine, torch.autograd.grad(torch.tanh(x + W[:3]).sum(), W)[0])
