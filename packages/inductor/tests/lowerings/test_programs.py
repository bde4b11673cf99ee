"""Whole graphs: the lowered program, run by the interpreter, gives eager's results and strides."""

from __future__ import annotations

from typing import Any

import torch
from inductor_tracing import check


def test_pointwise_views_reductions_and_extern_calls_together() -> None:
    def f(x: Any, w: Any, b: Any) -> Any:
        y = torch.nn.functional.gelu(x @ w + b)
        z = y.view(4, 2, 8).transpose(1, 2).sum(-1)
        return torch.softmax(z, -1), (y - y.mean(-1, keepdim=True)) / y.std(-1, keepdim=True), y.amax(0)

    check(f, torch.randn(8, 16), torch.randn(16, 8), torch.randn(8))
