"""Small networks under `dynamic=True`: one compile serves every size, in inference and in training."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import meta


class Normed(nn.Module):
    """Batch norm of a symbolic batch: its unbiased variance takes a quotient of sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Conv2d(4, 2, 3, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(self.second(F.max_pool2d(self.norm(self.first(x)).relu(), 2)), scale_factor=2.0).mean(
            (2, 3)
        )


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, 2, 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(batch, length, width)) / length**0.5


class Recurrent(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 5, **options)

    def forward(self, x: Tensor) -> Tensor:
        y, (hidden, cell) = self.lstm(x)
        return y.sum((0, 1)) + hidden.sum() + cell.sum()


class Stepping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros(x.shape[0], 5)
        for _ in range(3):
            state = self.cell(x, state)
        return state


class Distances(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Parameter(torch.arange(12.0).view(3, 4))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cdist(x, self.points) * float(x.shape[0])


class Chunked(nn.Module):
    """Rows padded to whole chunks: of what is saved for the backward no size tells how many rows there were."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.inside(F.pad(x.cos(), (0, 0, 0, -x.shape[0] % 8))).reshape(-1, 8, 4).square().sum(1)


NETWORKS: list[tuple[Callable[[], nn.Module], list[tuple[int, ...]]]] = [
    (Normed, [(5, 3, 16, 16), (6, 3, 24, 24), (4, 3, 33, 33)]),
    (Attending, [(2, 5, 8), (3, 9, 8), (4, 17, 8)]),
    (lambda: Recurrent(batch_first=True), [(2, 5, 6), (3, 9, 6), (7, 4, 6)]),
    (lambda: Recurrent(num_layers=2, bidirectional=True, bias=False), [(2, 5, 6), (3, 9, 6)]),
    (Stepping, [(2, 6), (7, 6)]),
    (Distances, [(5, 4), (9, 4)]),
    (Chunked, [(9, 4), (17, 4), (24, 4)]),
]


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("network", range(len(NETWORKS)))
def test_one_compile(network: int, train: bool) -> None:
    make, sizes = NETWORKS[network]
    torch.manual_seed(0)
    module = make().train(train)
    eager = copy.deepcopy(module)
    compiles = 0

    def counting(graph: Any, inputs: Any) -> Any:
        nonlocal compiles
        compiles += 1
        return meta.backends.inductor(graph, inputs)

    compiled = meta.compile(module, backend=counting, dynamic=True, fullgraph=True)
    for size in sizes:
        x = torch.randn(size)
        with torch.set_grad_enabled(train):
            got, wanted = compiled(x), eager(x)
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
        if train:
            got.square().mean().backward()
            wanted.square().mean().backward()
            for one, other in zip(module.parameters(), eager.parameters(), strict=True):
                torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-4)
            for one, other in zip(module.buffers(), eager.buffers(), strict=True):
                torch.testing.assert_close(one, other)
    assert compiles == 1
