"""Sizes and numbers that come from tensors' values."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.dynamic.registry import Family

row = Family("data-dependent sizes")
BRANCHES = {"whole": False, "why": "a decision by a value ends a graph, the first one is shared"}


def _counts(at: dict[str, int]) -> torch.Tensor:
    return torch.tensor([at["m"], at["n"]])


def _filled(k: torch.Tensor) -> torch.Tensor:
    size = k.item()
    torch._check(size >= 2)
    return torch.zeros(size) + 1


def _sliced(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    end = k.item()
    torch._check(end >= 0)
    torch._check(end <= x.size(0))
    return x[:end] * 2


def _two_parts(x: torch.Tensor, counts: torch.Tensor) -> Any:
    a, b = counts.tolist()
    torch._check(a >= 0)
    torch._check(b >= 0)
    torch._check(a + b == x.size(0))
    first, second = x.split([a, b])
    return first + 1, second - 1


def _masked_rows(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    return x[m] * 2


def _experts(x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for expert in range(3):
        (at,) = torch.where(chosen == expert)
        out.index_add_(0, at, x[at] * (expert + 1))
    return out


def _nonzero_written(x: torch.Tensor) -> torch.Tensor:
    at = (x > 0).nonzero()
    return x.index_put((at[:, 0], at[:, 1]), torch.tensor(5.0))


def _repeated_by_counts(x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    return x.repeat_interleave(counts, dim=0) + 1


def _branch_on_sum(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


def _range_of_item(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    for i in range(k.item()):
        x = x + i
    return x


def _checked_item(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    n = k.item()
    torch._check(n > 1, lambda: "too small")
    return x * n


def _cumulative(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    ends = torch.cumsum(lengths, 0).tolist()
    return x.sum() * ends[-1] + ends[0]


def _mean_of_selected(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    kept = x[m]
    return kept.sum() / kept.size(0)


row("item_scales", lambda x, k: x * k.item(), "n 3", "=torch.tensor(n)")
row("item_float_scales", lambda x, k: x * k.item() + 1, "n 3", "=torch.tensor(n * 0.5)")
row("item_returned", lambda x, k: (x + 1, k.item()), "n 3", "=torch.tensor(n)")
row("item_as_size", _filled, "=torch.tensor(n)")
row("item_as_slice", _sliced, "40 3", "=torch.tensor(n)")
row("item_of_max", lambda x: torch.zeros(3) + x.max().item(), "n m:i")
row("int_of_tensor", lambda x, k: x + int(k), "n 3", "=torch.tensor(n)")
row("float_of_tensor", lambda x, k: x * float(k), "n 3", "=torch.tensor(n * 0.25)")
row("tolist_splits", _two_parts, "n+m 3", _counts)
row("tolist_sums", _cumulative, "n 3", _counts)
row("nonzero_positions", lambda x: (x > 0).nonzero(), "n m")
row("nonzero_as_tuple", lambda x: (x > 0).nonzero(as_tuple=True)[0] + 1, "n m")
row("nonzero_count", lambda x: (x > 0).nonzero().size(0) + x, "n m")
row("nonzero_written", _nonzero_written, "n m")
row("mask_selects", lambda x: x[x > 0] * 2, "n m")
row("mask_selects_rows", _masked_rows, "n m", "n:b")
row("mask_selected_sum", lambda x, m: x[m].sum(0), "n 3", "n:b")
row("mask_mean", _mean_of_selected, "n 3", lambda at: torch.arange(at["n"]) % 2 == 0)
row("masked_select", lambda x, m: x.masked_select(m) + 1, "n m", "n m:b")
row("where_one_argument", lambda x: torch.where(x > 0)[0].float().sum(), "n m")
row("unique_values", lambda x: x.unique() + 1, "n:i")
row("unique_with_inverse", lambda x: x.unique(return_inverse=True), "n:i")
row("bincount", lambda x: x.bincount() * 2, "n:i")
row("bincount_min_length", lambda x: x.bincount(minlength=3) * 2, "n:i")
row("repeat_interleave_tensor", _repeated_by_counts, "2 3", _counts)
row("experts_loop", _experts, "n 3", "n:i")
row("experts_loop_gradients", _experts, "n 3:g", "n:i")
row("mask_gradients", lambda x, m: (x[m] * 2).sum(), "n 3:g", "n:b")
row("check_of_item", _checked_item, "n 3", "=torch.tensor(n)")
row("arange_of_item", lambda k: torch.arange(k.item()) * 2, "=torch.tensor(n)")
row("tensor_branch", _branch_on_sum, "n m", automatic=6, dynamic=3, **BRANCHES)
row(
    "range_of_item", _range_of_item, "n 3", lambda at: torch.tensor(2 + at["n"] % 2), automatic=6, dynamic=4, **BRANCHES
)
row("argmax_item_selects", lambda x: x[x[:, 0].argmax().item()] + 1, "n m")
row("topk_of_item", lambda x, k: x[: k.item()].sum(), "40 3", "=torch.tensor(n)")
