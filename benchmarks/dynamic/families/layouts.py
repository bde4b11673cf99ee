"""Layouts: strides and storage offsets that change with the sizes, or alone."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.dynamic.registry import Family, over

row = Family("layouts")


def transposed(at: dict[str, int]) -> torch.Tensor:
    return torch.randn(at["m"], at["n"]).t()


def channels_last(at: dict[str, int]) -> torch.Tensor:
    return torch.randn(2, 3, at["n"], at["m"]).to(memory_format=torch.channels_last)


def expanded(at: dict[str, int]) -> torch.Tensor:
    return torch.randn(1, at["m"]).expand(at["n"], at["m"])


def offset(at: dict[str, int]) -> torch.Tensor:
    return torch.randn(at["n"] + at["m"], 4)[at["m"] :]


def sliced_columns(at: dict[str, int]) -> torch.Tensor:
    return torch.randn(at["n"], at["m"] + 5)[:, : at["m"]]


def every_other(at: dict[str, int]) -> torch.Tensor:
    return torch.randn(2 * at["n"], at["m"])[::2]


def row_stride_alone(at: dict[str, int]) -> torch.Tensor:
    return torch.randn(6, 3 + at["m"])[:, :3]


def turning(at: dict[str, int]) -> torch.Tensor:
    return torch.randn(at["n"], at["m"]) if at["m"] % 2 else torch.randn(at["m"], at["n"]).t()


row("input_transposed", lambda x: x + 1, transposed)
row("input_transposed_product", lambda x: x @ x.t(), transposed)
row("input_channels_last", lambda x: x.relu() * 2, channels_last)
row(
    "conv_channels_last",
    lambda: nn.Conv2d(3, 4, 3, padding=1).to(memory_format=torch.channels_last),
    channels_last,
    made=True,
)
row("input_expanded", lambda x: x * 2 + x.sum(0), expanded)
row("input_with_offset", lambda x: x.sin(), offset)
row("input_sliced_columns", lambda x: x.relu() - x.mean(), sliced_columns)
row("input_every_other", lambda x: x * x.size(0), every_other)
row("stride_changes_alone", lambda x: x + 1, row_stride_alone)
row("layout_turns", lambda x: x.contiguous().view(-1) * 2, turning, automatic=3, dynamic=2, why="two layouts")
row("strides_looked_at", lambda x: x.as_strided((x.size(0),), (x.stride(0),)) + x.storage_offset(), "n m")
row("contiguity_looked_at", lambda x: x + 1 if x.is_contiguous() else x - 1, transposed)
row("view_of_input_returned", lambda x: x[1:].t(), "n m")
row("same_storage_twice", lambda x, y: x.add_(1) + y, "n 4", "n 4", sizes=over((5, 8, 12, 33)))
