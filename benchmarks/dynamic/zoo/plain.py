"""Models written out in torch: recurrent, graphs, detections, images, recommenders, masked rows, a sampler of its own."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.dynamic.contender import Contender
from benchmarks.dynamic.families.models import Gpt
from benchmarks.dynamic.zoo.model import batch, image, length, model, padding, program, words


class CharLstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(31, 6)
        self.run = nn.LSTM(6, 8, num_layers=2, batch_first=True)
        self.head = nn.Linear(8, 31)

    def forward(self, ids: torch.Tensor, state: Any = None) -> Any:
        found, state = self.run(self.words(ids), state)
        return self.head(found), state


class Seq2Seq(nn.Module):
    """A bidirectional GRU reads, a GRU with attention writes."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(31, 6), nn.Embedding(31, 6)
        self.reader = nn.GRU(6, 4, batch_first=True, bidirectional=True)
        self.writer = nn.GRU(6, 8, batch_first=True)
        self.head = nn.Linear(16, 31)

    def forward(self, ids: torch.Tensor, told: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        read, last = self.reader(self.source(ids))
        state = torch.cat([last[0], last[1]], -1)[None]
        written, _ = self.writer(self.target(told), state)
        scores = (written @ read.transpose(1, 2)).masked_fill(mask[:, None] == 0, -1e4)
        return self.head(torch.cat([written, scores.softmax(-1) @ read], -1))


def seq2seq_arguments(draws: random.Random) -> dict[str, Any]:
    rows, columns = batch(draws), length(draws)
    source, mask = words(draws, rows, columns), padding(draws, rows, columns)
    return {"ids": source, "told": words(draws, rows, length(draws)), "mask": mask}


class GraphAttention(nn.Module):
    """Two rounds of messages: weights by softmax over what arrives at a node, means by `index_add`."""

    def __init__(self) -> None:
        super().__init__()
        self.value, self.weight = nn.Linear(8, 8), nn.Linear(16, 1)
        self.update = nn.Linear(16, 8)
        self.head = nn.Linear(8, 3)

    def around(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        weight = self.weight(torch.cat([x[source], x[target]], -1)).squeeze(-1)
        most = torch.full_like(x[:, 0], -1e9).scatter_reduce(0, target, weight, "amax")
        weight = (weight - most[target]).exp()
        total = torch.zeros_like(x[:, 0]).index_add(0, target, weight)
        sent = self.value(x[source]) * (weight / total[target])[:, None]
        got = torch.zeros_like(x).index_add(0, target, sent)
        return F.relu(self.update(torch.cat([x, got], -1)))

    def forward(self, x: torch.Tensor, edges: torch.Tensor, graph: torch.Tensor, graphs: int) -> torch.Tensor:
        for _ in range(2):
            x = self.around(x, edges[0], edges[1])
        pooled = x.new_zeros(graphs, x.size(1)).index_add(0, graph, x)
        count = x.new_zeros(graphs).index_add(0, graph, torch.ones_like(graph, dtype=x.dtype))
        return self.head(pooled / count[:, None])


def graph_arguments(draws: random.Random) -> dict[str, Any]:
    graphs = draws.randint(1, 5)
    nodes = graphs + draws.randint(0, 20)
    edges = torch.randint(0, nodes, (2, draws.randint(1, 50)))
    graph = torch.cat([torch.arange(graphs), torch.randint(0, graphs, (nodes - graphs,))])
    return {"x": torch.randn(nodes, 8), "edges": edges, "graph": graph, "graphs": graphs}


def overlaps(boxes: torch.Tensor) -> torch.Tensor:
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    both = (high - low).clamp(min=0).prod(-1)
    return both / (area[:, None] + area[None] - both)


class Detections(nn.Module):
    """Scores above a threshold, the best of them by class, overlaps dropped (by rounds of `where`), the classes that are left."""

    def forward(self, boxes: torch.Tensor, logits: torch.Tensor) -> Any:
        scores, labels = logits.softmax(-1).max(-1)
        kept = (scores > 0.4).nonzero().squeeze(1)
        boxes, scores, labels = boxes[kept], scores[kept], labels[kept]
        order = scores.argsort(descending=True, stable=True)
        boxes, scores, labels = boxes[order], scores[order], labels[order]
        earlier = (overlaps(boxes) > 0.5).tril(-1) & (labels[:, None] == labels[None])
        alive = torch.ones_like(scores, dtype=torch.bool)
        for _ in range(4):
            alive = ~(earlier & alive[None]).any(1)
        found, count = labels[alive].unique(return_counts=True)
        return boxes[alive], scores[alive], found, count


class BestBoxes(nn.Module):
    def forward(self, boxes: torch.Tensor, logits: torch.Tensor) -> Any:
        scores, labels = logits.softmax(-1)[:, 1:].max(-1)
        best, at = scores.topk(min(5, scores.size(0)))
        return best, labels[at], boxes[at]


def boxes(draws: random.Random) -> dict[str, Any]:
    count = draws.randint(1, 40)
    low = torch.rand(count, 2)
    return {"boxes": torch.cat([low, low + torch.rand(count, 2) + 0.1], 1), "logits": 2 * torch.randn(count, 4)}


class UNet(nn.Module):
    """Three levels, each way with a norm; going up by interpolation to the size that was."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([self.level(3, 4), self.level(4, 6), self.level(6, 8)])
        self.up = nn.ModuleList([self.level(14, 6), self.level(10, 4)])
        self.out = nn.Conv2d(4, 2, 1)

    @staticmethod
    def level(before: int, after: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(2, after), nn.SiLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = []
        for level in self.down[:-1]:
            x = level(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.down[-1](x)
        for level, skip in zip(self.up, reversed(skips), strict=True):
            x = F.interpolate(x, size=skip.shape[-2:], mode="bilinear", align_corners=False)
            x = level(torch.cat([x, skip], 1))
        return self.out(x)


class Recommender(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.users, self.seen = nn.Embedding(20, 8), nn.EmbeddingBag(50, 8, mode="mean")
        self.deep = nn.Sequential(nn.Linear(19, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(
        self, user: torch.Tensor, items: torch.Tensor, offsets: torch.Tensor, dense: torch.Tensor
    ) -> torch.Tensor:
        user, seen = self.users(user), self.seen(items, offsets)
        crossed = (user * seen).sum(-1, keepdim=True)
        both = torch.cat([user, seen, dense], -1)
        return self.deep(both).squeeze(-1) + crossed.squeeze(-1)


def recommender_arguments(draws: random.Random) -> dict[str, Any]:
    rows = batch(draws)
    lengths = [draws.randint(0, 5) for _ in range(rows)]
    offsets = torch.tensor([sum(lengths[:i]) for i in range(rows)])
    items = torch.randint(0, 50, (sum(lengths) + 1,))
    return {"user": torch.randint(0, 20, (rows,)), "items": items, "offsets": offsets, "dense": torch.randn(rows, 3)}


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.words = nn.Embedding(31, 16)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 4)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.layers(self.words(ids), src_key_padding_mask=mask == 0)
        return self.head((x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))


class Translator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(31, 16)
        self.both = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 31)

    def forward(self, ids: torch.Tensor, told: torch.Tensor) -> torch.Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(told.size(1))
        return self.head(self.both(self.words(ids), self.words(told), tgt_mask=causal, tgt_is_causal=True))


def masked(draws: random.Random) -> dict[str, Any]:
    rows, columns = batch(draws), length(draws)
    return {"ids": words(draws, rows, columns), "mask": padding(draws, rows, columns)}


def two_texts(draws: random.Random) -> dict[str, Any]:
    rows = batch(draws)
    return {"ids": words(draws, rows, length(draws)), "told": words(draws, rows, length(draws))}


class MaskedRows(nn.Module):
    """An MLP over the rows that a mask keeps; the others stay as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.LayerNorm(12), nn.Linear(12, 6))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        out = x.clone()
        out[mask] = self.mlp(x[mask])
        return out


def masked_rows(draws: random.Random) -> dict[str, Any]:
    rows, columns = batch(draws), length(draws)
    return {"x": torch.randn(rows, columns, 6), "mask": torch.rand(rows, columns) > 0.4}


def samples(contender: Contender) -> list[Any]:
    """A small transformer draws tokens, its cache growing by one each step, after prompts of all lengths."""
    torch.manual_seed(1)
    made, draws = Gpt().eval(), random.Random("samples")
    compiled, found = contender.compile(made), []
    with torch.no_grad():
        for _ in range(20):
            logits, past = compiled(words(draws, batch(draws), length(draws), 11))
            for _ in range(3):
                ids = torch.multinomial(logits[:, -1].softmax(-1), 1)
                logits, past = compiled(ids, past)
                found.append((ids, logits))
    return found


model("zoo_char_lstm", CharLstm, lambda draws: {"ids": words(draws, batch(draws), length(draws))})
model("zoo_gru_seq2seq", Seq2Seq, seq2seq_arguments)
model("zoo_graph_attention", GraphAttention, graph_arguments)
model("zoo_detections", Detections, boxes, trains=False)
model("zoo_best_boxes", BestBoxes, boxes, trains=False)
model("zoo_unet", UNet, lambda draws: {"x": image(draws, 1, (4, 20))})
model("zoo_recommender", Recommender, recommender_arguments)
model("zoo_encoder_padded", Encoder, masked)
model("zoo_transformer", Translator, two_texts)
model("zoo_masked_rows", MaskedRows, masked_rows)
WHY = "prompts and steps are programs of their own, each compiled for its first call and then for all"
program("zoo_sampler", samples, compiles=4, why=WHY)
