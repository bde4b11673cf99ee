"""Special sizes: 0 and 1, equal ones, divisible ones, across 16."""

from __future__ import annotations

import torch.nn.functional as F
from torch import nn

from benchmarks.dynamic.registry import Family, over

row = Family("special sizes")
ONE = {"automatic": 3, "dynamic": 2, "why": "1 is a constant"}
ZERO = {"automatic": 3, "dynamic": 2, "why": "0 is a constant"}
BOTH = {"automatic": 4, "dynamic": 3, "why": "0 and 1 are constants"}

row("batch_of_one_later", lambda x: x * 2 + 1, "n 4", sizes=over((5, 8, 1, 12, 1)), **ONE)
row("batch_of_one_first", lambda x: x * 2 + 1, "n 4", sizes=over((1, 8, 5, 12, 1)), **ONE)
row("empty_batch_later", lambda x: x.relu().sum(0), "n 4", sizes=over((5, 8, 0, 12, 0)), **ZERO)
row("empty_batch_first", lambda x: x.relu().sum(0), "n 4", sizes=over((0, 8, 5, 12, 0)), **ZERO)
row("zero_one_and_many", lambda x: x.sum() + x, "n 4", sizes=over((5, 1, 0, 8, 12)), **BOTH)
row("linear_zero_one_many", lambda: nn.Linear(4, 3), "n 4", made=True, sizes=over((5, 1, 0, 8, 12)), **BOTH)
row(
    "broadcast_that_may_be_one",
    lambda x, y: x + y,
    "n 4",
    "m 4",
    sizes=over((5, 8, 5, 1, 12), (5, 8, 1, 6, 12)),
    automatic=4,
    dynamic=3,
    why="either may be 1",
)
row(
    "equal_sizes_part",
    lambda x: x @ x.T,
    "n m",
    sizes=over((5, 5, 8, 12, 9), (5, 8, 8, 9, 12)),
    automatic=3,
    dynamic=2,
    why="alike at first, then not",
)
row(
    "equal_batches_part",
    lambda x, y: (x.sum(), y.sum()),
    "n 4",
    "m 4",
    sizes=over((5, 5, 8, 12), (5, 8, 8, 9)),
    automatic=3,
    dynamic=2,
    why="alike at first, then not",
)
row(
    "square_then_not",
    lambda x: x.T + 1,
    "n m",
    sizes=over((6, 8, 5, 9), (6, 8, 9, 5)),
    automatic=3,
    dynamic=2,
    why="alike at first, then not",
)
row("equal_by_need", lambda x, y: x + y, "n 4", "n 4")
row("divisible_heads", lambda x: x.view(x.size(0) // 4, 4, -1).sum(1), "n m", sizes=over((8, 12, 4 * 5, 32)))
row("divisible_by_view", lambda x: x.view(-1, 4), "n", sizes=over((8, 12, 20, 32)))
row("pairs_by_reshape", lambda x: x.reshape(x.size(0) // 2, 2, 3).mean(1), "n 3", sizes=over((8, 12, 20, 6)))
row("windows_of_four", lambda x: x.view(2, x.size(1) // 4, 4, 3).transpose(1, 2), "2 n 3", sizes=over((8, 12, 20, 32)))
row("across_sixteen", lambda x: x * 2, "n 4", sizes=over((15, 16, 17, 32, 48, 31)))
row("across_sixteen_products", lambda: nn.Linear(16, 16), "n 16", made=True, sizes=over((15, 16, 17, 32, 48, 31)))
row("from_multiples_of_sixteen", lambda x: x.softmax(-1), "n m", sizes=over((16, 32, 17, 48, 9), (32, 64, 33, 16, 8)))
row(
    "sizes_same_as_weights",
    lambda: nn.Linear(4, 4),
    "n 4",
    made=True,
    sizes=over((4, 8, 5, 4, 12)),
    automatic=3,
    dynamic=2,
    why="alike with a weight's at first",
)
row("long_then_short", lambda x: F.softmax(x, 0).cumsum(0), "n", sizes=over((1000, 3, 70, 7, 2000)))
