"""Convolutions of channels, each by itself, as users write them: against eager, whatever the sizes and layouts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import meta

IMAGE = (2, 24, 9, 10)
CASES: list[tuple[tuple[int, ...], tuple[int, int], dict[str, Any]]] = [
    (IMAGE, (3, 3), {"padding": 1}),
    (IMAGE, (3, 3), {"padding": "same"}),
    (IMAGE, (3, 3), {"stride": 2, "padding": 1}),
    (IMAGE, (3, 3), {"stride": 3, "padding": 1}),
    (IMAGE, (5, 5), {"stride": 3, "padding": 5}),
    (IMAGE, (4, 2), {"padding": (1, 0)}),
    (IMAGE, (3, 3), {"padding": 2, "dilation": 2}),
    (IMAGE, (3, 3), {"padding": 9, "dilation": 4}),
    (IMAGE, (7, 7), {"padding": 3}),
    ((1, 40, 1, 1), (3, 3), {"padding": 1}),
    ((1, 40, 2, 1), (3, 3), {"padding": 1}),
    ((0, 24, 9, 10), (3, 3), {"padding": 1}),
    ((1, 1, 9, 10), (3, 3), {"padding": 1}),
]


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels last"])
@pytest.mark.parametrize("size, taps, options", CASES)
def test_values(size: tuple[int, ...], taps: tuple[int, int], options: dict[str, Any], last: bool) -> None:
    torch.manual_seed(0)
    channels = size[1]
    x, weight, bias = torch.randn(size), torch.randn(channels, 1, *taps), torch.randn(channels)
    if last:
        x = x.to(memory_format=torch.channels_last)

    def model(x: torch.Tensor) -> torch.Tensor:
        return F.hardswish(F.conv2d(x, weight, bias, groups=channels, **options)) + 1

    got, wanted = meta.compile(model)(x), model(x)
    torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-5)
    if size[2:] != (1, 1):
        assert got.stride() == wanted.stride()


class Block(nn.Module):
    """Expansion, convolution of channels, projection, and what it started from."""

    def __init__(self, multiplier: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(8, 32, 1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU6(),
            nn.Conv2d(32, 32 * multiplier, 3, padding=1, groups=32, bias=False),
            nn.BatchNorm2d(32 * multiplier),
            nn.ReLU6(),
            nn.Conv2d(32 * multiplier, 8, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


@pytest.mark.parametrize("multiplier", [1, 2])
def test_a_block_and_its_gradients(multiplier: int) -> None:
    torch.manual_seed(0)
    block, x = Block(multiplier), torch.randn(2, 8, 11, 9)
    compiled = meta.compile(block)
    with torch.no_grad():
        block.eval()
        torch.testing.assert_close(compiled(x), block(x), atol=1e-5, rtol=1e-5)
    block.train()
    gradients = []
    for call in (block, compiled):
        block.zero_grad()
        call(x).square().sum().backward()
        gradients.append([p.grad.clone() for p in block.parameters() if p.grad is not None])
    for wanted, got in zip(*gradients, strict=True):
        torch.testing.assert_close(got, wanted, atol=1e-3, rtol=1e-4)
