"""Printed schedules of a few graphs: kernels, memory, frees."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from inductor_schedules import check_schedule

SEED = torch.Generator().manual_seed(0)


def tensor(*size: int) -> torch.Tensor:
    return torch.randn(size, generator=SEED)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = torch.bmm(q, k.transpose(1, 2)) / 2.0
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    return torch.bmm(scores.masked_fill(~mask, float("-inf")).softmax(-1), v)


def mlp(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x + F.gelu(x @ w1) @ w2, (8,))


def batch_norm(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    mean = x.mean((0, 2, 3), keepdim=True)
    variance = ((x - mean) ** 2).mean((0, 2, 3), keepdim=True)
    return F.relu((x - mean) * torch.rsqrt(variance + 1e-5)), mean.reshape(-1), variance.reshape(-1)


def layer_norm_backward(x: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, ...]:
    h = x * torch.rsqrt((x * x).mean(-1, keepdim=True))
    return (g - h * (g * h).mean(-1, keepdim=True)), (g * h).sum(0), g.sum(0)


def adam(p: torch.Tensor, g: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
    m = m * 0.9 + g * 0.1
    v = v * 0.999 + g * g * 0.001
    return p - 1e-3 * m / (v.sqrt() + 1e-8), m, v


GRAPHS = {
    "attention": (attention, (tensor(2, 4, 4), tensor(2, 4, 4), tensor(2, 4, 4))),
    "mlp": (mlp, (tensor(6, 8), tensor(8, 16), tensor(16, 8))),
    "batch_norm": (batch_norm, (tensor(4, 3, 5, 5),)),
    "layer_norm_backward": (layer_norm_backward, (tensor(6, 8), tensor(6, 8))),
    "adam": (adam, (tensor(6, 8), tensor(6, 8), tensor(6, 8), tensor(6, 8).abs())),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_schedule(name: str, golden: Callable[[str, str], None]) -> None:
    function, inputs = GRAPHS[name]
    plan = check_schedule(function, *inputs, rtol=1e-4, atol=1e-5)
    golden(name, str(plan))
