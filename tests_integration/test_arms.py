"""An `if` on what a tensor holds whose arms only compute: captured whole, compiled, differentiated, with both truths by one compile."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import capture
import meta


class Guarded(nn.Module):
    """As encoders guard themselves against overflow in half precision."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.norm, self.other = nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            h = self.norm(x + torch.relu(self.linear(x)))
            if torch.isinf(h).any() or torch.isnan(h).any() or h.abs().max() > 2:
                most = 1.5
                h = torch.clamp(h, min=-most, max=most)
            x = h + x
        return x


class Gated(Guarded):
    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(x)
        h = self.linear(h) if h.sum() > 0 else self.other(h)
        return self.norm(h) * 2


class Early(Guarded):
    def forward(self, x: Tensor) -> Tensor:
        h = self.linear(x)
        if x.mean() > 0:
            return h.sin()
        return self.norm(h).cos()


class OfSizes(Guarded):
    """A size that varies in the arms, and a condition that is a number."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.linear(x)
        if bool((x > 0).any()) and x.sum().item() > x.shape[0]:
            h = h.flip(0) * x.shape[0]
        return h + self.norm(x)


def inputs() -> list[Tensor]:
    torch.manual_seed(1)
    x = torch.randn(4, 8)
    return [x, -x, x * 3, -x.abs(), x.abs(), x * 0.01]


def step(module: Any, called: Any, x: Tensor, differentiates: bool) -> Any:
    module.zero_grad(set_to_none=True)
    x = x.clone().requires_grad_(differentiates)
    with torch.set_grad_enabled(differentiates):
        found = called(x)
        if differentiates:
            (found * found).sum().backward()
    return found.detach(), x.grad, [parameter.grad for parameter in module.parameters()]


@pytest.mark.parametrize("differentiates", [False, True])
@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("kind", [Guarded, Gated, Early])
def test_both_ways_of_an_if_are_compiled_once(kind: type[Guarded], backend: str, differentiates: bool) -> None:
    module = kind()
    compiled: Any = meta.compile(module, backend=backend, fullgraph=True)
    for x in inputs():
        wanted, found = step(module, module, x, differentiates), step(module, compiled, x, differentiates)
        assert [each is None for each in wanted[2]] == [each is None for each in found[2]]
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    assert capture.report(compiled).frames == 1


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_with_sizes_that_vary(backend: str) -> None:
    module = OfSizes()
    compiled: Any = meta.compile(module, backend=backend, dynamic=True)
    for size in (4, 7, 5):
        for factor in (1, -1, 9):
            x = torch.linspace(-1, 1.5, size * 8).reshape(size, 8) * factor
            for differentiates in (False, True):
                wanted, found = step(module, module, x, differentiates), step(module, compiled, x, differentiates)
                torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    assert capture.report(compiled).frames <= 6


def test_what_an_arm_hands_on_is_the_same_tensor() -> None:
    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        y = h = x * 2
        if x.sum() > 0:
            h = h.sin()
        return y, h

    compiled = meta.compile(program, fullgraph=True)
    for x, same in ((torch.ones(4), False), (-torch.ones(4), True)):
        y, h = compiled(x)
        assert (y is h) is same
        torch.testing.assert_close((y, h), program(x))
