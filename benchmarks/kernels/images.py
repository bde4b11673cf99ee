"""Kernels of images: pooling, upsampling, depthwise convolution; and small matrix products."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.kernels.registry import kernel, normal

IMAGES = (8, 64, 56, 56)


@kernel(normal(*IMAGES))
def max_pool(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 3, 2, 1)


@kernel(normal(*IMAGES, channels_last=True))
def max_pool_nhwc(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 3, 2, 1)


@kernel(normal(*IMAGES))
def avg_pool(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, 2)


@kernel(normal(*IMAGES))
def global_pool(x: Tensor) -> Tensor:
    return F.adaptive_avg_pool2d(x.relu(), 1)


@kernel(normal(*IMAGES, channels_last=True))
def global_pool_nhwc(x: Tensor) -> Tensor:
    return F.adaptive_avg_pool2d(x.relu(), 1)


@kernel(normal(8, 64, 28, 28))
def upsample_nearest(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2.0, mode="nearest")


@kernel(normal(8, 64, 28, 28))
def upsample_bilinear(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)


@kernel(normal(*IMAGES), normal(64, 1, 3, 3), moved=None)
def depthwise(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(x, w, None, 1, 1, 1, 64).relu()


@kernel(normal(*IMAGES, channels_last=True), normal(64, 1, 3, 3), moved=None)
def depthwise_nhwc(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(x, w, None, 1, 1, 1, 64).relu()


@kernel(normal(96, 64), normal(64, 80), normal(80), moved=None)
def small_matmul(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.relu(x @ w + b)


@kernel(normal(256, 49, 32), normal(256, 32, 49), moved=None)
def batched_matmul(x: Tensor, y: Tensor) -> Tensor:
    return torch.bmm(x, y) * 0.125


@kernel(normal(1, 2048), normal(2048, 2048))
def row_times_matrix(x: Tensor, w: Tensor) -> Tensor:
    return F.linear(x, w).relu()
