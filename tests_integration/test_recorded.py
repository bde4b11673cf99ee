"""`mode="reduce-overhead"` without a GPU: real graphs, and a recorder whose replays run them again over the memory they were recorded with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import inductor_recording
import pytest
import torch
import torch.nn.functional as F
from inductor_recording import Kept
from torch import nn

import meta
from inductor import backend_for


class Zeroing(Kept):
    """What is recorded runs, here, on what its inputs' copies hold."""

    def aside(self, run: Any) -> Any:
        made = super().aside(run)
        if isinstance(made, list):
            for copied in made:
                copied.zero_()
        return made


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    backend = backend_for(torch.device("cpu"))
    traits = replace(backend.traits, recorder="inductor_recording:recorder_of")
    monkeypatch.setattr(type(backend), "traits", property(lambda _: traits))
    monkeypatch.setattr(inductor_recording, "recorder", Zeroing())
    torch.manual_seed(0)
    yield inductor_recording.recorder
    meta.reset()


class Block(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(8, 16), nn.Linear(16, 8), nn.LayerNorm(8)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.dropout(self.down(F.gelu(self.up(x)))))


def gradients(run: Any, block: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    block.zero_grad()
    run(x).pow(3).sum().backward()
    return [p.grad for p in block.parameters() if p.grad is not None]


def test_training(recorder: Kept) -> None:
    block = nn.Sequential(Block(0.0), Block(0.0))
    run: Any = meta.compile(block, mode="reduce-overhead")
    kept = []
    for x in [torch.randn(4, 8) for _ in range(7)]:
        kept.append((gradients(run, block, x), gradients(block, block, x)))
    for found, expected in kept:
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    assert recorder.replays >= 10
    losses = [run(x).pow(3).sum() for x in [torch.randn(4, 8) for _ in range(3)]]
    del losses


def test_training_with_dropout(recorder: Kept) -> None:
    weight = torch.randn(8, 8, requires_grad=True)
    run: Any = meta.compile(
        lambda x, w: F.dropout(x @ w, 0.5).tanh(), mode="reduce-overhead", options={"random": "kernel"}
    )
    for x in [torch.randn(4, 8) + 2 for _ in range(7)]:
        out = run(x, weight)
        (found,) = torch.autograd.grad(out.sum(), [weight])
        torch.testing.assert_close(found, x.t() @ ((1 - out.square()) * (out != 0) * 2), rtol=1e-3, atol=1e-4)
    assert recorder.replays >= 10


@torch.no_grad()
def test_a_cache_that_is_written_to(recorder: Kept) -> None:
    def step(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        cache.index_copy_(1, at, x)
        return (cache * x).sum(-1)

    run: Any = meta.compile(step, mode="reduce-overhead")
    cache, other = torch.zeros(2, 16, 8), torch.zeros(2, 16, 8)
    for at in range(8):
        x, where = torch.randn(2, 1, 8), torch.tensor([at])
        expected = step(other, where, x)
        found = run(cache, where, x)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(cache, other)
    assert recorder.replays
