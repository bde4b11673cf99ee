"""Tensors made from sizes."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from benchmarks.dynamic.registry import Family

row = Family("tensors made from sizes")

row("zeros_of_size", lambda x: x + torch.zeros(x.size(0), x.size(1)), "n m")
row("ones_like", lambda x: torch.ones_like(x) + x, "n m")
row("full_with_size", lambda x: torch.full((x.size(0),), 2.5) + x[:, 0], "n m")
row("full_of_size", lambda x: torch.full((2,), x.size(0)), "n m")
row("arange_of_size", lambda x: x + torch.arange(x.size(0))[:, None], "n m")
row("arange_steps", lambda x: torch.arange(0, x.size(0) * 2, 2) * x[:, 0], "n m")
row("arange_float", lambda x: torch.arange(0, x.size(0), dtype=torch.float32), "n m")
row("linspace_of_size", lambda x: torch.linspace(0, 1, x.size(0)) * x[:, 0], "n m")
row("eye_of_size", lambda x: x + torch.eye(x.size(0)), "n n")
row("new_zeros", lambda x: x.new_zeros(x.size(1), x.size(0)) + x.T, "n m")
row("causal_mask", lambda x: x.masked_fill(torch.ones(x.size(0), x.size(0)).triu(1).bool(), -1e9), "n n")
row("tensor_of_size", lambda x: torch.tensor(x.size(0)) + x, "n m")
row("tensor_of_sizes", lambda x: torch.tensor([x.size(0), x.size(1) * 2]), "n m")
row("scalar_tensor", lambda x: x * torch.scalar_tensor(x.size(0)), "n m")
row("empty_then_fill", lambda x: torch.empty(x.size(0), 2).fill_(x.size(1)), "n m")
row("empty_filled_by_parts", lambda x: _by_parts(x), "n m")
row("one_hot", lambda x: F.one_hot(x, 3), "n:i")
row("position_ids", lambda x: torch.arange(x.size(1)).unsqueeze(0).expand(x.size(0), -1), "n m")
row("tril_indices_like_mask", lambda x: torch.tril(torch.ones(x.size(0), x.size(1))) * x, "n m")
row("zeros_of_product", lambda x: torch.zeros(x.size(0) * x.size(1) + 1), "n m")
row("sinusoidal_positions", lambda x: x + _sinusoids(x.size(0), 4), "n 4")
row("new_tensor_of_number", lambda x: x.new_full((x.size(0), 1), x.size(1) / 2) + x, "n m")
row("logspace_of_size", lambda x: torch.logspace(0, 1, x.size(0)), "n m")
row("zeros_from_shape", lambda x: torch.zeros(x.shape) + torch.ones(x.size()), "n m")
row("zeros_from_slice_of_shape", lambda x: torch.zeros(x.shape[:-1]) + x[..., 0], "n m 3")
row("zeros_from_changed_shape", lambda x: torch.zeros((*x.shape[:1], 2, x.shape[1])), "n m")


def _by_parts(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(2 * x.size(0), x.size(1))
    out[: x.size(0)] = x
    out[x.size(0) :] = -x
    return out


def _sinusoids(length: int, width: int) -> torch.Tensor:
    angles = torch.arange(length)[:, None] / 10.0 ** torch.arange(0, width, 2)
    return torch.cat([angles.sin(), angles.cos()], 1)
