"""Training loops: twenty steps with the usual optimizers lose what eager loses."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import meta
from tests_integration.zoo import Mlp

OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "sgd": lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9),
    "adam": lambda m: torch.optim.Adam(m.parameters(), lr=1e-3),
}


def _as_it_is(function: Any) -> Any:
    return function


#: What of a step is compiled: the model alone, or all of it.
COMPILED: dict[str, tuple[Any, Any]] = {"model": (meta.compile, _as_it_is), "step": (_as_it_is, meta.compile)}


def _losses(module: nn.Module, make: Any, wrap_model: Any = _as_it_is, wrap_step: Any = _as_it_is) -> list[float]:
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(32, 64, generator=generator)
    y = torch.randint(0, 10, (32,), generator=generator)
    optimizer = make(module)
    run = wrap_model(module)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(run(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        return loss

    run_step = wrap_step(step)
    return [run_step().item() for _ in range(20)]


@pytest.mark.parametrize("compiled", COMPILED)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_twenty_steps_of_an_mlp(optimizer: str, compiled: str) -> None:
    torch.manual_seed(0)
    ours = Mlp()
    theirs = copy.deepcopy(ours)
    expected = _losses(theirs, OPTIMIZERS[optimizer])
    found = _losses(ours, OPTIMIZERS[optimizer], *COMPILED[compiled])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert found[-1] < found[0], "a loss that does not fall trains nothing"


def test_the_loss_inside_the_compiled_function() -> None:
    torch.manual_seed(0)
    ours = Mlp()
    theirs = copy.deepcopy(ours)

    def loss_of(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(module(x), y)

    compiled = meta.compile(loss_of)
    x, y = torch.randn(16, 64), torch.randint(0, 10, (16,))
    for _ in range(2):
        mine, eagers = compiled(ours, x, y), loss_of(theirs, x, y)
        torch.testing.assert_close(mine, eagers)
        mine.backward()
        eagers.backward()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


def test_batch_norm_statistics_follow_eager() -> None:
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
    theirs = copy.deepcopy(ours)
    compiled = meta.compile(ours)
    for _ in range(3):
        x = torch.randn(4, 3, 10, 10)
        torch.testing.assert_close(compiled(x), theirs(x))
    for mine, eagers in zip(ours.buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(mine, eagers)
    ours.eval()
    theirs.eval()
    torch.testing.assert_close(compiled(x), theirs(x))
