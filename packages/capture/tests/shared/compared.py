"""What became of a program of ``programs``, and whether two of these are alike."""

from __future__ import annotations

from typing import Any

import torch


def same(a: Any, b: Any, depth: int = 0) -> bool:
    """Deep equality with types, tensors by value and metadata."""
    if depth > 20:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride() and torch.equal(a, b)
    if isinstance(a, dict):
        return list(map(repr, a)) == list(map(repr, b)) and all(
            same(x, y, depth + 1) for x, y in zip(a.values(), b.values(), strict=True)
        )
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y, depth + 1) for x, y in zip(a, b, strict=True))
    if callable(a) and not isinstance(a, type):
        return True
    return bool(a == b)


def run(fn: Any, x: torch.Tensor) -> tuple[Any, ...]:
    torch.manual_seed(0)
    arg = x.clone()
    try:
        result: Any = fn(arg)
    except Exception as error:
        result = (type(error), str(error))
    return result, arg, torch.is_grad_enabled()
