"""Models written out in torch, where no library of models is needed: a U-Net, a recommender, graphs, a tagger, a translator."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import nn

from tests_integration.zoo import Inputs


class UNet(nn.Module):
    """Four levels each way, two convolutions and batch norms a level; up by interpolation."""

    def __init__(self, width: int = 16, classes: int = 4) -> None:
        super().__init__()
        sizes = [3, *(width * 2**i for i in range(5))]
        self.down = nn.ModuleList(self.level(a, b) for a, b in itertools.pairwise(sizes))
        self.up = nn.ModuleList(self.level(a + b, b) for a, b in zip(sizes[:1:-1], sizes[-2:0:-1], strict=True))
        self.out = nn.Conv2d(width, classes, 1)

    @staticmethod
    def level(before: int, after: int) -> nn.Module:
        def one(channels: int) -> list[nn.Module]:
            return [nn.Conv2d(channels, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]

        return nn.Sequential(*one(before), *one(after))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips: list[torch.Tensor] = []
        for level in self.down[:-1]:
            skips.append(level(x))
            x = F.max_pool2d(skips[-1], 2)
        x = self.down[-1](x)
        for level in self.up:
            x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
            x = level(torch.cat([x, skips.pop()], 1))
        return self.out(x)


class Recommender(nn.Module):
    """After DLRM: an MLP of the dense features, a bag of each sparse one, the products of all pairs, an MLP on top."""

    TABLES, ROWS, WIDTH, BAG, DENSE, PER_BATCH = 16, 5000, 64, 8, 13, 128

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(self.ROWS, self.WIDTH, mode="sum") for _ in range(self.TABLES))
        self.bottom = nn.Sequential(
            nn.Linear(self.DENSE, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, self.WIDTH), nn.ReLU()
        )
        pairs = self.TABLES * (self.TABLES + 1) // 2
        self.top = nn.Sequential(
            nn.Linear(self.WIDTH + pairs, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1)
        )
        i, j = torch.tril_indices(self.TABLES + 1, self.TABLES + 1, -1)
        self.register_buffer("pairs", i * (self.TABLES + 1) + j)

    def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
        low = self.bottom(dense)
        bags = [bag(ids) for bag, ids in zip(self.bags, sparse.unbind(1), strict=True)]
        features = torch.stack([low, *bags], 1)
        products = (features @ features.transpose(1, 2)).flatten(1)[:, self.pairs]
        return self.top(torch.cat([low, products], 1)).sigmoid().squeeze(-1)

    @classmethod
    def inputs(cls, batch: int, dtype: torch.dtype) -> Inputs:
        """`PER_BATCH` users for each of the batch: fewer is no load."""
        users = batch * cls.PER_BATCH
        sparse = torch.randint(0, cls.ROWS, (users, cls.TABLES, cls.BAG))
        return (torch.randn(users, cls.DENSE, dtype=dtype), sparse), {}


class GraphConvolutions(nn.Module):
    """Three rounds: what arrives along edges is averaged with `index_add`, and joined with what was; then a mean a graph."""

    NODES, EDGES, WIDTH = 512, 4096, 64

    def __init__(self) -> None:
        super().__init__()
        self.rounds = nn.ModuleList(nn.Linear(2 * self.WIDTH, self.WIDTH) for _ in range(3))
        self.head = nn.Linear(self.WIDTH, 8)

    def around(self, update: nn.Module, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        got = torch.zeros_like(x).index_add(0, target, x[source])
        count = x.new_zeros(x.size(0)).index_add(0, target, x.new_ones(target.size(0)))
        return F.relu(update(torch.cat([x, got / count.clamp(min=1)[:, None]], -1)))

    def forward(self, x: torch.Tensor, edges: torch.Tensor, graph: torch.Tensor, graphs: int) -> torch.Tensor:
        for update in self.rounds:
            x = self.around(update, x, edges[0], edges[1])
        pooled = x.new_zeros(graphs, x.size(1)).index_add(0, graph, x)
        return self.head(pooled / self.NODES)

    @classmethod
    def inputs(cls, batch: int, dtype: torch.dtype) -> Inputs:
        """So many graphs in one, each with edges of its own."""
        edges = torch.cat([i * cls.NODES + torch.randint(0, cls.NODES, (2, cls.EDGES)) for i in range(batch)], 1)
        graph = torch.arange(batch).repeat_interleave(cls.NODES)
        return (torch.randn(batch * cls.NODES, cls.WIDTH, dtype=dtype), edges, graph, batch), {}


class GraphAttention(GraphConvolutions):
    """What arrives at a node is weighed by a softmax over its edges, in four heads."""

    HEADS = 4

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Linear(2 * self.WIDTH, self.HEADS)

    def around(self, update: nn.Module, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        weight = F.leaky_relu(self.weights(torch.cat([x[source], x[target]], -1)), 0.2)
        where = target[:, None].expand_as(weight)
        most = weight.new_full((x.size(0), self.HEADS), -1e4).scatter_reduce(0, where, weight, "amax")
        weight = (weight - most[target]).exp()
        total = torch.zeros_like(most).scatter_add(0, where, weight)
        sent = x[source].unflatten(1, (self.HEADS, -1)) * (weight / total[target])[..., None]
        got = torch.zeros_like(x).index_add(0, target, sent.flatten(1))
        return F.elu(update(torch.cat([x, got], -1)))


class Tagger(nn.Module):
    """A bidirectional LSTM of two layers gives each word a tag."""

    WORDS, LENGTH = 8000, 40

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(self.WORDS, 128)
        self.run = nn.LSTM(128, 128, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(256, 20)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.run(self.words(ids))[0]).log_softmax(-1)

    @classmethod
    def inputs(cls, batch: int, dtype: torch.dtype) -> Inputs:
        return (torch.randint(0, cls.WORDS, (batch, cls.LENGTH)),), {}


class Translator(nn.Module):
    """`nn.Transformer` between an embedding and a head; the target's mask is causal."""

    WORDS, SOURCE, TARGET = 8000, 64, 48

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(self.WORDS, 256)
        self.both = nn.Transformer(256, 8, 3, 3, 1024, dropout=0.0, batch_first=True)
        self.head = nn.Linear(256, self.WORDS)

    def forward(self, ids: torch.Tensor, told: torch.Tensor) -> torch.Tensor:
        target = self.words(told)
        causal = nn.Transformer.generate_square_subsequent_mask(told.size(1), dtype=target.dtype)
        return self.head(self.both(self.words(ids), target, tgt_mask=causal, tgt_is_causal=True))

    @classmethod
    def inputs(cls, batch: int, dtype: torch.dtype) -> Inputs:
        rows = (torch.randint(0, cls.WORDS, (batch, length)) for length in (cls.SOURCE, cls.TARGET))
        return tuple(rows), {}
