"""Elementwise kernels: chains, broadcasts, strides, transposes, copies between layouts, gathered and shifted accesses, dtypes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.kernels.registry import integers, kernel, normal, positive, twice_output

ROWS, COLUMNS = 2048, 1024
FULL = normal(ROWS, COLUMNS)


@kernel(FULL, FULL)
def chain(x: Tensor, y: Tensor) -> Tensor:
    return (x * 2 + y).relu() - x


@kernel(FULL, FULL, normal(COLUMNS))
def broadcast_row(x: Tensor, y: Tensor, row: Tensor) -> Tensor:
    return x * row + y


@kernel(FULL, normal(ROWS, 1))
def broadcast_column(x: Tensor, column: Tensor) -> Tensor:
    return x * column + 1


@kernel(normal(ROWS, 2 * COLUMNS), FULL)
def strided(x: Tensor, y: Tensor) -> Tensor:
    return x[:, ::2] * 2 + y


@kernel(normal(COLUMNS, ROWS), FULL)
def transposed_read(x: Tensor, y: Tensor) -> Tensor:
    return y * 2 + x.t()


@kernel(FULL)
def transposed_write(x: Tensor) -> Tensor:
    return (x * 2 + 1).t().contiguous()


@kernel(normal(8, 64, 56, 56))
def nchw_to_nhwc(x: Tensor) -> Tensor:
    return x.relu().contiguous(memory_format=torch.channels_last)


@kernel(normal(8, 64, 56, 56, channels_last=True))
def nhwc_to_nchw(x: Tensor) -> Tensor:
    return x.relu().contiguous()


@kernel(normal(4, 512, 12 * 64))
def split_heads(x: Tensor) -> Tensor:
    return (x * 0.125).view(4, 512, 12, 64).transpose(1, 2).contiguous()


@kernel(normal(4, 512, 12 * 64))
def transposed_heads(x: Tensor) -> Tensor:
    return (x * 0.125).view(4, 512, 12, 64).permute(0, 2, 3, 1).contiguous()


@kernel(normal(ROWS, 512), normal(ROWS, 512))
def cat(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([x, y], 1).relu()


@kernel(normal(8, 56, 56, 96))
def roll(x: Tensor) -> Tensor:
    return torch.roll(x, (-3, -3), (1, 2))


@kernel(normal(16, 64, 32, 32))
def pad(x: Tensor) -> Tensor:
    return F.pad(x, (1, 1, 1, 1))


@kernel(FULL, integers(ROWS, COLUMNS, below=COLUMNS))
def gather(x: Tensor, index: Tensor) -> Tensor:
    return torch.gather(x, 1, index)


@kernel(integers(16, 256, below=30000), normal(30000, 256), normal(256, 256), moved=twice_output)
def embedding(tokens: Tensor, table: Tensor, positions: Tensor) -> Tensor:
    return F.embedding(tokens, table) + positions


@kernel(FULL, integers(512, below=COLUMNS), moved=twice_output)
def index_select(x: Tensor, index: Tensor) -> Tensor:
    return x.index_select(1, index) * 2


@kernel(FULL, integers(ROWS, COLUMNS, below=2, dtype=torch.bool))
def where(x: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, x * 0.125, float("-inf"))


@kernel(normal(12, 512, 512))
def causal_mask(x: Tensor) -> Tensor:
    mask = torch.ones(512, 512, dtype=torch.bool).tril()
    return (x * 0.125).masked_fill(~mask, float("-inf"))


@kernel(normal(ROWS, 2 * 1024))
def swiglu(x: Tensor) -> Tensor:
    gate, value = x.chunk(2, -1)
    return F.silu(gate) * value


@kernel(normal(4, 12, 512, 64), normal(512, 64), normal(512, 64))
def rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat([-high, low], -1) * sin


@kernel(normal(8, 64, 64, 48))
def window_partition(x: Tensor) -> Tensor:
    return x.view(8, 8, 8, 8, 8, 48).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 64, 48)


@kernel(normal(ROWS, COLUMNS, dtype=torch.bfloat16), normal(ROWS, COLUMNS, dtype=torch.bfloat16))
def chain_bfloat16(x: Tensor, y: Tensor) -> Tensor:
    return (x * 2 + y).relu() - x


@kernel(normal(COLUMNS, ROWS, dtype=torch.bfloat16))
def transposed_bfloat16(x: Tensor) -> Tensor:
    return (x * 2).t().contiguous()


@kernel(positive(ROWS, COLUMNS))
def quantize(x: Tensor) -> Tensor:
    return torch.clamp(torch.round(x * 50) - 3, -128, 127).to(torch.int8)


@kernel(integers(ROWS, COLUMNS, below=255, dtype=torch.uint8))
def dequantize(x: Tensor) -> Tensor:
    return (x.float() - 128) * 0.02


@kernel(integers(8, 224, 224, 3, below=255, dtype=torch.uint8), normal(3), normal(3))
def image_to_tensor(image: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    return ((image / 255.0 - mean) * scale).permute(0, 3, 1, 2).contiguous()


@kernel(FULL, random=True)
def dropout(x: Tensor) -> Tensor:
    return F.dropout(x, 0.1, training=True)


@kernel(FULL, random=True)
def rand_like(x: Tensor) -> Tensor:
    return torch.rand_like(x) + x
