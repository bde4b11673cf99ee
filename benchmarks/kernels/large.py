"""Patterns of a GPU: the loops of transformers and vision models, forward and backward, on tensors that fill one."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.kernels.registry import KernelCase, first_twice, integers, kernel, normal, twice_output

LARGE: dict[str, KernelCase] = {}

pattern = partial(kernel, table=LARGE)
aten = torch.ops.aten

HALF = torch.float16
ROWS, WIDTH = 16384, 1024
"""Tokens of a batch, features of each."""
half = partial(normal, dtype=HALF)
STATES, WIDE, VECTOR = half(ROWS, WIDTH), half(ROWS, 4 * WIDTH), half(WIDTH)
SCORES = half(32, 12, 512, 512)
IMAGES = half(64, 128, 56, 56, channels_last=True)
PLANES = half(64, 128, 56, 56)


# ---- Elementwise


@pattern(STATES, STATES)
def add(x: Tensor, y: Tensor) -> Tensor:
    return x + y


@pattern(WIDE, half(4 * WIDTH))
def bias_gelu(x: Tensor, b: Tensor) -> Tensor:
    return F.gelu(x + b)


@pattern(WIDE, WIDE)
def swiglu(x: Tensor, y: Tensor) -> Tensor:
    return F.silu(x) * y


@pattern(half(ROWS, 8192))
def gated(x: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return a * torch.sigmoid(b)


@pattern(normal(ROWS, WIDTH))
def widely(x: Tensor) -> Tensor:
    return torch.sin(x) * torch.exp(-x * x) + torch.tanh(x)


@pattern(normal(ROWS, WIDTH))
def cast(x: Tensor) -> Tensor:
    return x.half()


@pattern(half(32, 12, 512, 64), normal(512, 64), normal(512, 64))
def rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return (x * cos + torch.cat((-b, a), -1) * sin).half()


# ---- Transposes


@pattern(half(8192, 8192))
def transpose(x: Tensor) -> Tensor:
    return x.t().contiguous()


@pattern(half(32, 512, 12, 64))
def heads(x: Tensor) -> Tensor:
    return x.transpose(1, 2).contiguous()


@pattern(PLANES)
def to_channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


@pattern(half(4096, 4096), half(4096, 4096))
def add_transposed(x: Tensor, y: Tensor) -> Tensor:
    return x + y.t()


@pattern(half(64, 56, 56, 128))
def windows(x: Tensor) -> Tensor:
    return x.view(64, 8, 7, 8, 7, 128).permute(0, 1, 3, 2, 4, 5).contiguous()


@pattern(half(64, 196, 512), half(512), half(512))
def norm_transposed(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, (512,), w, b).transpose(1, 2).contiguous()


# ---- Rows


@pattern(STATES)
def row_sum(x: Tensor) -> Tensor:
    return x.sum(-1)


@pattern(half(64, 1 << 18))
def long_row_sum(x: Tensor) -> Tensor:
    return x.sum(-1)


@pattern(half(ROWS, WIDTH))
def mean_of_all(x: Tensor) -> Tensor:
    return (x.float() * x.float()).mean()


@pattern(STATES, VECTOR, VECTOR)
def layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, (WIDTH,), w, b)


@pattern(STATES, STATES, VECTOR, VECTOR)
def add_layer_norm(x: Tensor, y: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    z = x + y
    return z, F.layer_norm(z, (WIDTH,), w, b)


@pattern(STATES, VECTOR)
def rms_norm(x: Tensor, w: Tensor) -> Tensor:
    y = x.float()
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).half() * w


@pattern(SCORES)
def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x * 0.125, -1)


@pattern(SCORES, half(32, 1, 1, 512))
def masked_softmax(x: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(x * 0.125 + mask, -1)


@pattern(half(4096, 30522), integers(4096, below=30522))
def cross_entropy(x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(x.float(), y)


@pattern(half(4096, 8192))
def log_softmax(x: Tensor) -> Tensor:
    return torch.log_softmax(x, -1)


@pattern(half(4096, 8192))
def argmax(x: Tensor) -> Tensor:
    return x.argmax(-1)


@pattern(normal(4096, 4096))
def variance(x: Tensor) -> tuple[Tensor, ...]:
    return torch.var_mean(x, -1)


@pattern(normal(4096, 4096))
def cumulated(x: Tensor) -> Tensor:
    return x.cumsum(-1)


# ---- Columns


@pattern(STATES)
def column_sum(x: Tensor) -> Tensor:
    return x.sum(0)


@pattern(WIDE, WIDE)
def gelu_backward_with_bias(g: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    d = aten.gelu_backward(g, x)
    return d, d.sum(0)


@pattern(IMAGES)
def channel_sums(x: Tensor) -> Tensor:
    return x.float().sum((0, 2, 3))


@pattern(PLANES)
def plane_sums(x: Tensor) -> Tensor:
    return x.float().sum((0, 2, 3))


@pattern(half(256, 512, 256))
def middle_sum(x: Tensor) -> Tensor:
    return x.sum(1)


@pattern(normal(32, 128, 56, 56), normal(128), normal(128), moved=first_twice)
def batch_norm_training(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.relu(F.batch_norm(x, None, None, w, b, training=True))


@pattern(normal(32, 128, 56, 56, channels_last=True), normal(128), normal(128), moved=first_twice)
def batch_norm_channels_last(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.relu(F.batch_norm(x, None, None, w, b, training=True))


@pattern(STATES, STATES, normal(ROWS, 1), normal(ROWS, 1), VECTOR, VECTOR)
def layer_norm_backward(g: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return aten.native_layer_norm_backward(g, x, (WIDTH,), mean, rstd, w, b, [True, True, True])


@pattern(SCORES, SCORES)
def softmax_backward(g: Tensor, y: Tensor) -> Tensor:
    return aten._softmax_backward_data(g, y, -1, HALF)


@pattern(half(64, 32, 112, 112), normal(32), normal(32))
def group_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.group_norm(x.float(), 8, w, b)


# ---- Places


@pattern(integers(ROWS, below=30522), half(30522, WIDTH), VECTOR, VECTOR, moved=twice_output)
def embedding_norm(i: Tensor, table: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(F.embedding(i, table), (WIDTH,), w, b)


@pattern(normal(ROWS, WIDTH), integers(ROWS, below=30522), moved=None)
def embedding_backward(g: Tensor, i: Tensor) -> Tensor:
    return aten.embedding_dense_backward(g, i, 30522, -1, False)


@pattern(half(32, 12, 512, 64), half(32, 12, 512, 64))
def concatenated(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat((x, y), 2)


@pattern(IMAGES)
def max_pool(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 3, 2, 1)


@pattern(half(16, 64, 64, 64))
def upsampled(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2.0, mode="bilinear")


# ---- Random numbers


@pattern(STATES, random=True)
def dropped(x: Tensor) -> Tensor:
    return F.dropout(x, 0.1)


@pattern(STATES, STATES, VECTOR, VECTOR, random=True)
def dropped_added_normed(x: Tensor, y: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(F.dropout(x, 0.1) + y, (WIDTH,), w, b)


@pattern(WIDE, random=True)
def noisy(x: Tensor) -> Tensor:
    return x + torch.randn_like(x)


# ---- Products, with what is made of them


@pattern(half(4096, 1024), half(4096, 1024), half(4096), moved=None)
def linear_gelu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.gelu(F.linear(x, w, b))


@pattern(half(4096, 1024), half(50257, 1024), moved=None)
def vocabulary(x: Tensor, w: Tensor) -> Tensor:
    return F.linear(x, w)


@pattern(half(1, 4096), half(14336, 4096), half(14336, 4096))
def one_row_gated(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


@pattern(half(1, 14336), half(4096, 14336), half(1, 4096))
def one_row_and_residual(x: Tensor, down: Tensor, residual: Tensor) -> Tensor:
    return residual + F.linear(x, down)


@pattern(half(16, 12, 512, 64), half(16, 12, 512, 64), half(16, 12, 512, 64), half(16, 1, 1, 512), moved=None)
def written_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(-1, -2) * 0.125 + mask, -1) @ v


@pattern(half(16, 12, 512, 64), half(16, 12, 512, 64), half(16, 12, 512, 64), half(16, 1, 1, 512), moved=None)
def masked_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
