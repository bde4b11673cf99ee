"""Vector math: one elementary function of each floating dtype at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.kernels.registry import kernel, positive


def _exp(x: Tensor) -> Tensor:
    return torch.exp(x)


def _log(x: Tensor) -> Tensor:
    return torch.log(x)


def _sin(x: Tensor) -> Tensor:
    return torch.sin(x)


def _tanh(x: Tensor) -> Tensor:
    return torch.tanh(x)


def _gelu(x: Tensor) -> Tensor:
    return F.gelu(x)


def _pow(x: Tensor) -> Tensor:
    return torch.pow(x, 1.7)


def _rsqrt(x: Tensor) -> Tensor:
    return torch.rsqrt(x)


def _sigmoid(x: Tensor) -> Tensor:
    return torch.sigmoid(x)


FUNCTIONS: tuple[Callable[[Tensor], Tensor], ...] = (_exp, _log, _sin, _tanh, _gelu, _pow, _rsqrt, _sigmoid)
for function in FUNCTIONS:
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        name = f"{function.__name__[1:]}/{str(dtype).removeprefix('torch.')}"
        kernel(positive(512, 1024, dtype=dtype), moved=None, name=name)(function)
