"""Indexing, gathering and scattering."""

from __future__ import annotations

import torch

from benchmarks.dynamic.registry import Family

row = Family("indexing")


def _accumulated(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return torch.zeros(3, x.size(1)).index_add_(0, at, x)


def _written(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[at] = 0.0
    y[0] += 1
    return y


row("take_rows", lambda x, i: x[i], "4 m", "n:i")
row("take_rows_and_columns", lambda x, i, j: x[i, j], "4 6", "n:i", "n:i")
row("take_grid", lambda x, i, j: x[i[:, None], j], "4 6", "n:i", "m:i")
row("take_columns", lambda x, i: x[:, i], "n 4", "m:i")
row("index_select", lambda x, i: x.index_select(0, i), "n+9 m", "m+1:i")
row("gather_columns", lambda x, i: x.gather(1, i), "n 4", "n m:i")
row("take_along_dim", lambda x, i: torch.take_along_dim(x, i, dim=1), "n 4", "n m:i")
row("sorted_back", lambda x: torch.take_along_dim(x, x.argsort(1), dim=1), "n m")
row("scatter_constant", lambda x, i: x.scatter(1, i, 2.0), "n 4", "n 1:i")
row("scatter_add", lambda x, i: torch.zeros(x.size(0), 4).scatter_add(1, i, x), "n m", "n m:i")
row("scatter_reduce", lambda x, i: torch.zeros(3).scatter_reduce(0, i, x, "amax"), "n", "n:i")
row("index_add", _accumulated, "n m", "n:i")
row("index_put", _written, "n+9 m", "m+1:i")
row("index_put_accumulate", lambda x, i, v: x.index_put((i,), v, accumulate=True), "n 4", "m:i", "m 4")
row("index_copy_and_fill", lambda x, i: x.index_fill(0, i, -1.0), "n m", "2:i")
row("last_of_each", lambda x, i: x[torch.arange(x.size(0)), i], "n 4", "n:i")
row("computed_columns", lambda x: x[:, torch.arange(x.size(1) - 1, -1, -1)], "n m")
row("computed_index_pairs", lambda x: x[torch.arange(x.size(0)), torch.arange(x.size(0)) % x.size(1)], "n m")
row("several_computed_columns", lambda x: x[:, [0, x.size(1) // 2, x.size(1) - 1]], "n m")
row("last_row_by_size", lambda x: x[x.size(0) - 1] + x[-1], "n m")
row("middle_element", lambda x: x[x.size(0) // 2, x.size(1) // 3], "n m")
row("where_with_index", lambda x: torch.where(torch.arange(x.size(0)) < x.size(0) // 2, 1.0, 0.0) * x[:, 0], "n m")
row("masked_fill", lambda x, m: x.masked_fill(m, 0.5), "n m", "n m:b")
row("masked_write", lambda x, m: _masked(x, m), "n m", "n m:b")
row("none_and_ellipsis", lambda x: x[..., None, 1:] + x[:, None, :, :-1].sum(), "n m 3")
row("searchsorted", lambda x, y: torch.searchsorted(x.sort().values, y), "n", "m")
row("bucketize", lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), "n m")
row("top_rows_gathered", lambda x: x.gather(0, x.topk(2, dim=0).indices), "n m")
row("cumulative_positions", lambda m: (m.cumsum(1) - 1).clamp(min=0) * m, "n m:i")


def _masked(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[m] = 0.0
    return y
