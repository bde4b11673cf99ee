"""The table of training patterns, and what several of them share: a small net, data, copies of its gradients and state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Wrap = Callable[[Any], Any]
Pattern = Callable[[Wrap], Any]

PATTERNS: dict[str, Pattern] = {}


def pattern(function: Pattern) -> Pattern:
    """Enter a pattern into the table."""
    PATTERNS[function.__name__] = function
    return function


class Net(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.second = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x)))


def data(seed: int = 0, *sizes: int) -> torch.Tensor:
    """Normal numbers of this seed."""
    return torch.randn(*(sizes or (5, 4)), generator=torch.Generator().manual_seed(seed))


def grads(module: nn.Module) -> dict[str, torch.Tensor | None]:
    """Copies of a module's gradients."""
    return {n: None if p.grad is None else p.grad.clone() for n, p in module.named_parameters()}


def state(module: nn.Module) -> dict[str, torch.Tensor]:
    """Copies of a module's parameters and buffers."""
    return {n: t.detach().clone() for n, t in module.state_dict().items()}


def square_step(net: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    """A step without an optimizer: the sum of the squares of what comes out, and its backward."""

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = net(x).square().sum()
        loss.backward()
        return loss

    return step
