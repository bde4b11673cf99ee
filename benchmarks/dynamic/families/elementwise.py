"""Elementwise operations and reductions of tensors whose sizes change."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from benchmarks.dynamic.registry import Family

row = Family("elementwise and reductions")

row("add_scalar", lambda x: x + 1)
row("relu_of_product", lambda x: (x * 2).relu() - x)
row("gelu_tanh", lambda x: F.gelu(x).tanh())
row("add_two", lambda x, y: x + y, "n m", "n m")
row("broadcast_row", lambda x, y: x * y, "n m", "m")
row("broadcast_column", lambda x, y: x - y, "n m", "n 1")
row("outer_broadcast", lambda x, y: x[:, None] + y[None, :], "n", "m")
row("where_positive", lambda x, y: torch.where(x > 0, x, y), "n m", "n m")
row("clamp_by_tensor", lambda x, y: x.clamp(min=y), "n m", "n m")
row("sum_all", lambda x: x.sum(), "n m")
row("mean_rows", lambda x: x.mean(0), "n m")
row("mean_columns_kept", lambda x: x - x.mean(1, keepdim=True), "n m")
row("var_and_std", lambda x: (x.var(0), x.std(1)), "n m")
row("softmax_last", lambda x: x.softmax(-1), "n m")
row("log_softmax_first", lambda x: F.log_softmax(x, 0), "n m")
row("argmax_and_max", lambda x: (x.argmax(1), x.max(0).values), "n m")
row("cumsum_rows", lambda x: x.cumsum(0), "n m")
row("logsumexp_norm", lambda x: (x.logsumexp(1), x.norm(dim=0)), "n m")
row("any_all_of_masks", lambda x: ((x > 0).any(1), (x > -9).all()), "n m")
row("in_place_updates", lambda x: x.mul_(2).add_(1), "n m")
row("normalised_by_size", lambda x: x.sum() / x.size(0) + x.numel(), "n m")
row("prod_and_amin", lambda x: (x.prod(1), x.amin(), x.amax(0)), "n 4")
row("doubles_mixed", lambda x, y: x + y.double(), "n:d", "n")
row("sort_and_topk", lambda x: (x.sort(0).values, x.topk(3, 1).values), "n m")
