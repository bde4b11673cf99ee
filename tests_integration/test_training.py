"""Training loops: twenty steps with the usual optimizers lose what eager loses."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

import meta
from tests_integration.zoo import Mlp

OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "sgd": lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9),
    "adam": lambda m: torch.optim.Adam(m.parameters(), lr=1e-3),
}


def _losses(run: Callable[[torch.Tensor], torch.Tensor], optimizer: torch.optim.Optimizer) -> list[float]:
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(32, 64, generator=generator)
    y = torch.randint(0, 10, (32,), generator=generator)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(run(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_twenty_steps_of_an_mlp(optimizer: str) -> None:
    torch.manual_seed(0)
    ours = Mlp()
    theirs = copy.deepcopy(ours)
    expected = _losses(theirs, OPTIMIZERS[optimizer](theirs))
    found = _losses(meta.compile(ours), OPTIMIZERS[optimizer](ours))
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
