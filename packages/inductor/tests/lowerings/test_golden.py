"""Printed programs of a few graphs, which are read back as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from inductor_tracing import check

F = torch.nn.functional
GRAPHS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "bias_gelu": (lambda x, b: F.gelu(x + b), (torch.ones(4, 8), torch.ones(8))),
    "bfloat16_residual": (
        lambda x, y: (x + y).float().pow(2).mean(-1),
        (torch.ones(4, 8, dtype=torch.bfloat16), torch.ones(4, 8, dtype=torch.bfloat16)),
    ),
    "softmax": (lambda x: F.softmax(x, -1), (torch.ones(2, 3, 8),)),
    "heads": (lambda x: x.view(2, 3, 4, 2).transpose(1, 2) * 2, (torch.ones(2, 3, 8),)),
    "flattened_heads": (lambda x: x.transpose(1, 2).reshape(2, 3, 8) + 1, (torch.ones(2, 4, 3, 2),)),
    "cat_pad": (lambda x, y: F.pad(torch.cat([x, y], 1), (1, 0)), (torch.ones(2, 3), torch.ones(2, 4))),
    "embedding": (lambda w, i: F.embedding(i, w) * 2, (torch.ones(10, 4), torch.zeros(2, 3, dtype=torch.int64))),
    "var_mean": (lambda x: torch.var_mean(x, (0, 2, 3)), (torch.ones(2, 3, 4, 5),)),
    "max_positions": (lambda x: x.max(1), (torch.arange(8.0).view(2, 4),)),
    "scatter_add": (
        lambda x, i, s: x.scatter_add(0, i, s),
        (torch.ones(4, 3), torch.zeros(2, 3, dtype=torch.int64), torch.ones(2, 3)),
    ),
    "linear": (lambda x, w, b: F.relu(F.linear(x, w, b)), (torch.ones(2, 3), torch.ones(4, 3), torch.ones(4))),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_printed_program(name: str, golden: Callable[[str, str], None]) -> None:
    function, inputs = GRAPHS[name]
    program = check(function, *inputs)
    golden(name, str(program))
