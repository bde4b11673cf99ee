"""Forward, backward and step at changing sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.dynamic.contender import Contender
from benchmarks.dynamic.registry import Family, over

row = Family("training")
row("gradient_of_input", lambda x: (x * 2).tanh().sum(), "n m:g")
row("gradient_through_views", lambda x: x.reshape(-1)[1:].view(1, -1) ** 2, "n m:g")
row(
    "gradient_of_cat_and_split", lambda x, y: torch.cat([x, y]).split([x.size(0), y.size(0)])[0].sin(), "n 3:g", "m 3:g"
)
row("gradient_of_softmax", lambda x: x.softmax(0) * x, "n m:g")
row("gradient_of_mean_by_size", lambda x: x.sum() / x.size(0), "n m:g")
row("gradient_of_broadcast", lambda x, y: x * y, "n m:g", "m:g")
row("gradient_of_gather", lambda x, i: x[i] * 2, "4 m:g", "n:i")
row("gradient_of_slices", lambda x: x[1:] * x[:-1], "n m:g")
row("gradient_of_expand", lambda x, y: x.expand(y.size(0), -1) * y, "1 m:g", "n m")
row("gradient_of_pool", lambda x: F.max_pool2d(x, 2), "2 3 n+3 m+3:g")
row("gradient_of_padding", lambda x: F.pad(x, (1, 2)) ** 2, "n m:g")
row("gradient_of_product", lambda x, y: (x @ y).relu(), "n m:g", "m 4:g")
row("gradient_scaled_by_float", lambda x, s: x * s, "n m:g", "=n * 0.1")
row("gradient_of_odd_slice", lambda x: x[:, 1::2] * 2, "n m+2:g")


def trained(
    contender: Contender,
    model: nn.Module,
    batch: Callable[[int], tuple[Any, ...]],
    loss_of: Callable[..., Any],
    sizes: Any = (5, 8, 12, 33),
) -> list[Any]:
    """Steps of SGD over batches of these sizes: losses, parameters and buffers."""
    compiled = contender.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    found: list[Any] = []
    for n in sizes:
        *inputs, target = batch(n)
        optimizer.zero_grad()
        loss = loss_of(compiled(*inputs), target)
        loss.backward()
        optimizer.step()
        found.append(
            (loss.detach(), [p.detach().clone() for p in model.parameters()], [b.clone() for b in model.buffers()])
        )
    return found


@row.program()
def train_mlp(contender: Contender) -> list[Any]:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    return trained(contender, model, lambda n: (torch.randn(n, 4), torch.randint(0, 3, (n,))), F.cross_entropy)


@row.program()
def train_with_batch_norm(contender: Contender) -> list[Any]:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 1))
    return trained(contender, model, lambda n: (torch.randn(n, 4), torch.randn(n, 1)), F.mse_loss)


@row.program()
def train_layer_norm_sequence(contender: Contender) -> list[Any]:
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 4))
    return trained(contender, model, lambda n: (torch.randn(2, n, 4), torch.randn(2, n, 4)), F.mse_loss)


@row.program()
def train_conv(contender: Contender) -> list[Any]:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    )
    return trained(
        contender, model, lambda n: (torch.randn(2, 3, n + 1, n), torch.randint(0, 3, (2,))), F.cross_entropy
    )


@row.program()
def train_embedding_classifier(contender: Contender) -> list[Any]:
    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.Embedding(10, 6), nn.Linear(6, 3)

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            summed = (self.words(ids) * mask[..., None]).sum(1)
            return self.head(summed / mask.sum(1, keepdim=True).clamp(min=1))

    return trained(
        contender,
        Bag(),
        lambda n: (torch.randint(0, 10, (4, n)), torch.ones(4, n), torch.randint(0, 3, (4,))),
        F.cross_entropy,
    )


@row.program()
def train_loss_in_graph(contender: Contender) -> list[Any]:
    model = nn.Linear(4, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loss_of = contender.compile(lambda x, y: F.cross_entropy(model(x), y, label_smoothing=0.1))
    found: list[Any] = []
    for n in (5, 8, 12, 33):
        optimizer.zero_grad()
        loss = loss_of(torch.randn(n, 4), torch.randint(0, 3, (n,)))
        loss.backward()
        optimizer.step()
        found += [loss.detach(), *(p.detach().clone() for p in model.parameters())]
    return found


@row.program()
def gradient_accumulation(contender: Contender) -> list[Any]:
    model = nn.Linear(4, 1)
    compiled, found = contender.compile(model), []
    for n in (5, 8, 12, 6):
        (compiled(torch.randn(n, 4)).sum() / n).backward()
        found += [p.grad.clone() for p in model.parameters()]
    return found


@row.program(automatic=3, dynamic=2, why="two grad modes")
def training_and_evaluation(contender: Contender) -> list[Any]:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    compiled, found = contender.compile(model), []
    for n in (5, 8, 12, 33):
        compiled(torch.randn(n, 4)).sum().backward()
        with torch.no_grad():
            found.append(compiled(torch.randn(n + 1, 4)))
        found += [p.grad.clone() for p in model.parameters()]
    return found


@row.program()
def weighted_loss_by_length(contender: Contender) -> list[Any]:
    weight = torch.randn(4, requires_grad=True)

    def loss(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        mask = torch.arange(x.size(1))[None] < lengths[:, None]
        return ((x @ weight) * mask).sum() / (x.size(0) * x.size(1))

    compiled, found = contender.compile(loss), []
    for n in (5, 8, 12, 33):
        compiled(torch.randn(3, n, 4), torch.tensor([n, n - 1, 2])).backward()
        found.append(weight.grad.clone())
    return found


row(
    "gradient_of_zero_batch",
    lambda x, y: (x @ y).sum(),
    "n 4:g",
    "4 2:g",
    sizes=over((5, 0, 8, 12)),
    automatic=3,
    dynamic=2,
    why="0 is a constant",
)
