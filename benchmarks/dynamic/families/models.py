"""Models in small, called with changing batches, lengths, images and graphs."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.dynamic.contender import Contender
from benchmarks.dynamic.registry import Family, over

row = Family("models")


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.norm(self.conv(x)) + x)


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.body, self.head = nn.Conv2d(3, 4, 3, stride=2, padding=1), Residual(4), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(F.relu(self.stem(x))).mean((2, 3)))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.up, self.out = nn.Conv2d(8, 4, 3, padding=1), nn.Conv2d(4, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = F.relu(self.down(x))
        b = F.relu(self.middle(F.max_pool2d(a, 2)))
        b = F.interpolate(b, size=a.shape[-2:], mode="nearest")
        return self.out(F.relu(self.up(torch.cat([a, b], 1))))


class UNetPadded(UNet):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = F.relu(self.down(x))
        b = F.interpolate(F.relu(self.middle(F.max_pool2d(a, 2))), scale_factor=2)
        b = F.pad(b, (0, a.size(3) - b.size(3), 0, a.size(2) - b.size(2)))
        return self.out(F.relu(self.up(torch.cat([a, b], 1))))


class Tagger(nn.Module):
    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU], **options: Any) -> None:
        super().__init__()
        self.words, self.run, self.head = nn.Embedding(3, 4), kind(4, 5, batch_first=True, **options), nn.Linear(5, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.run(self.words(ids))[0])


class CellLoop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.new_zeros(x.size(0), 4)
        for t in range(3):
            h = self.cell(x[:, t], h)
        return h


class Block(nn.Module):
    def __init__(self, width: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor, past: Any = None) -> Any:
        b, t, c = x.shape
        q, k, v = self.qkv(self.first(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        before = k.size(2) - t
        mask = torch.ones(t, t + before, dtype=torch.bool).tril(before)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.second(x)), (k, v)


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(11, 8), nn.Embedding(64, 8)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 11)

    def forward(self, ids: torch.Tensor, past: Any = None) -> Any:
        before = 0 if past is None else past[0][0].size(2)
        x = self.words(ids) + self.places(torch.arange(before, before + ids.size(1)))
        kept = []
        for i, block in enumerate(self.blocks):
            x, here = block(x, None if past is None else past[i])
            kept.append(here)
        return self.head(x), kept


class GraphNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.message, self.update = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        sent = self.message(torch.cat([x[edges[0]], x[edges[1]]], 1)).relu()
        got = torch.zeros_like(x).index_add_(0, edges[1], sent)
        degree = torch.zeros(x.size(0)).index_add_(0, edges[1], torch.ones(edges.size(1)))
        return self.update(torch.cat([x, got / degree.clamp(min=1)[:, None]], 1))


def detections(boxes: torch.Tensor, scores: torch.Tensor) -> Any:
    """Boxes above a threshold, the best of them, their areas."""
    kept = (scores > 0).nonzero().squeeze(1)
    boxes, scores = boxes[kept], scores[kept]
    order = scores.argsort(descending=True)
    boxes = boxes[order]
    return boxes, scores[order], (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def best_boxes(boxes: torch.Tensor, scores: torch.Tensor) -> Any:
    top, at = scores.topk(3)
    return boxes[at], top, at


row("model_mlp", lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)), made=True)
row("model_conv_net", lambda: ConvNet(), "n 3 8 8", made=True)
row("model_conv_net_images", lambda: ConvNet().eval(), "2 3 n+3 m+3", made=True)
row("model_unet", lambda: UNet(), "2 3 n+3 m+3", made=True)
row("model_unet_padded", lambda: UNetPadded(), "2 3 n+3 m+3", made=True)
row("model_lstm", lambda: Tagger(nn.LSTM).eval(), "n m:i", made=True)
row("model_gru", lambda: Tagger(nn.GRU).eval(), "n m:i", made=True)
row("model_gru_cell", lambda: CellLoop(), "n 3 3", made=True)
row("model_transformer_block", lambda: Block(), "n m 8", made=True)
row("model_encoder_layer", lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), "n m 8", made=True)
row("model_graph_net", lambda: GraphNet(), "n 4", "2 m:i", made=True)
row("model_graph_net_batches", lambda: GraphNet(), "n+3 4", "2 3*m:i", made=True, sizes=over((5, 9, 14, 20)))
row("model_detections", detections, "n 4", "n")
row("model_best_boxes", best_boxes, "n 4", "n")


@row.program(
    automatic=5,
    dynamic=3,
    why="a prompt, a step over its cache's layout, a step over a step's; the first two at one length first",
)
def model_gpt_growing_cache(contender: Contender) -> list[Any]:
    torch.manual_seed(1)
    model = Gpt().eval()
    compiled, found = contender.compile(model), []
    with torch.no_grad():
        for prompt in (5, 7):
            logits, past = compiled(torch.randint(0, 11, (2, prompt)))
            for _ in range(5):
                ids = logits[:, -1:].argmax(-1)
                logits, past = compiled(ids, past)
                found.append((ids, logits))
    return found


@row.program()
def model_gpt_training(contender: Contender) -> list[Any]:
    torch.manual_seed(1)
    model = Gpt()
    compiled, found = contender.compile(model), []
    for length in (5, 8, 12, 9):
        ids = torch.randint(0, 11, (3, length))
        logits, _ = compiled(ids)
        F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).backward()
        found.append(model.head.weight.grad.clone())
    return found
