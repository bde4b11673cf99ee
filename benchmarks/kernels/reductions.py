"""Reductions and what is built of them: sums, means, positions, softmax, norms, scans and sorts."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.kernels.registry import integers, kernel, normal

ROWS, COLUMNS = 2048, 1024
FULL = normal(ROWS, COLUMNS)
IMAGES = (8, 64, 56, 56)


@kernel(FULL)
def row_sum(x: Tensor) -> Tensor:
    return x.sum(-1)


@kernel(FULL)
def column_sum(x: Tensor) -> Tensor:
    return x.sum(0)


@kernel(FULL)
def all_mean(x: Tensor) -> Tensor:
    return (x * x).mean()


@kernel(FULL)
def row_variance(x: Tensor) -> Tensor:
    return torch.var(x, -1)


@kernel(FULL)
def row_amax(x: Tensor) -> Tensor:
    return x.abs().amax(-1)


@kernel(FULL)
def row_argmax(x: Tensor) -> Tensor:
    return x.argmax(-1)


@kernel(FULL)
def column_argmax(x: Tensor) -> Tensor:
    return x.argmax(0)


@kernel(normal(32, 64, 32, 32))
def middle_sum(x: Tensor) -> Tensor:
    return x.sum((0, 2, 3))


@kernel(normal(12, 512, 512))
def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x * 0.125, -1)


@kernel(normal(8, 512, 512))
def softmax_columns(x: Tensor) -> Tensor:
    return torch.softmax(x, 1)


@kernel(normal(128, 32000))
def log_softmax(x: Tensor) -> Tensor:
    return torch.log_softmax(x, -1)


@kernel(normal(128, 32000), integers(128, below=32000))
def cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(x, target)


@kernel(normal(2048, 768), normal(768), normal(768))
def layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, (768,), w, b)


@kernel(normal(2048, 768), normal(2048, 768), normal(768), normal(768))
def add_layer_norm(x: Tensor, y: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x + y, (768,), w, b)


@kernel(normal(2048, 768), normal(768))
def rms_norm(x: Tensor, w: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


@kernel(normal(16, 196, 512), normal(512), normal(512))
def layer_norm_transpose(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, (512,), w, b).transpose(1, 2).contiguous()


@kernel(normal(8, 56, 56, 96), normal(96), normal(96))
def layer_norm_windows(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    x = F.layer_norm(x, (96,), w, b)
    return x.view(8, 8, 7, 8, 7, 96).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 49, 96)


@kernel(normal(8, 96, 56, 56), normal(96), normal(96))
def layer_norm_channels_first(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x.permute(0, 2, 3, 1), (96,), w, b).permute(0, 3, 1, 2)


def _batch_norm(x: Tensor, mean: Tensor, variance: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.batch_norm(x, mean, variance.abs(), w, b).relu()


def _batch_norm_training(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, w, b, training=True).relu()


for layout, last in (("nchw", False), ("nhwc", True)):
    images = normal(*IMAGES, channels_last=last)
    kernel(images, *[normal(64)] * 4, name=f"batch_norm_{layout}")(_batch_norm)
    kernel(images, *[normal(64)] * 2, name=f"batch_norm_training_{layout}")(_batch_norm_training)


@kernel(normal(*IMAGES), normal(64), normal(64))
def group_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.group_norm(x, 32, w, b)


@kernel(normal(2048, 768, dtype=torch.bfloat16), *[normal(768, dtype=torch.bfloat16)] * 2)
def layer_norm_bfloat16(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, (768,), w, b)


@kernel(normal(12, 512, 512, dtype=torch.bfloat16))
def softmax_bfloat16(x: Tensor) -> Tensor:
    return torch.softmax(x * 0.125, -1)


@kernel(FULL)
def cumsum(x: Tensor) -> Tensor:
    return x.cumsum(-1)


@kernel(FULL)
def cumsum_columns(x: Tensor) -> Tensor:
    return x.cumsum(0)


@kernel(normal(256, 1024), moved=None)
def sort(x: Tensor) -> Tensor:
    return x.sort(-1).values


@kernel(normal(128, 8192), moved=None)
def topk(x: Tensor) -> Tensor:
    return x.topk(16, -1).values
