"""Rows of attention that see no key: what a program that writes attention out makes of them, and of their gradients.

In: which rows are blind. Out: queries and a result with which torch's one-kernel attention, which shows these rows all keys, does the same.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


class _Indifferent(torch.autograd.Function):
    """Queries that score zero with every key, though they have the gradient of what they were."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, blind: Tensor) -> Tensor:
        return _zeroed(query, blind)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0], None


class _Felt(torch.autograd.Function):
    """A result, which keys have the gradient of that the queries' zeros would deny them: each weight is one of the number of keys."""

    @staticmethod
    def forward(
        ctx: Any, out: Tensor, query: Tensor, key: Tensor, value: Tensor, blind: Tensor, scale: float
    ) -> Tensor:
        ctx.save_for_backward(query, value, blind)
        ctx.scale = scale
        return out.view_as(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,), (query, value, blind) = gradients, ctx.saved_tensors
        apart = value - value.mean(-2, keepdim=True)
        felt = _zeroed(gradient, blind.logical_not()).transpose(-2, -1) @ query
        return gradient, None, (apart @ felt) * (ctx.scale / value.shape[-2]), None, None, None


def _zeroed(rows: Tensor, where: Tensor) -> Tensor:
    return torch.where(where, torch.zeros((), dtype=rows.dtype, device=rows.device), rows)


def queries(query: Tensor, blind: Tensor, replaced: bool, grad: bool) -> Tensor:
    """Queries of which the blind ones weigh all keys alike. `replaced`: they have no gradient, since their scores were replaced."""
    if replaced or not grad:
        return _zeroed(query, blind)
    felt: Tensor = _Indifferent.apply(query, blind)  # type: ignore[no-untyped-call]
    return felt


def felt(out: Tensor, query: Tensor, key: Tensor, value: Tensor, blind: Tensor, scale: float) -> Tensor:
    """The result, for a mask that was added."""
    made: Tensor = _Felt.apply(out, query, key, value, blind, scale)  # type: ignore[no-untyped-call]
    return made


def undefined(out: Tensor, value: Tensor, blind: Tensor, replaced: bool) -> Tensor:
    """The result where scores of -inf have no softmax: not a number, and whatever has a gradient by it has none that is one."""
    nothing, rest = (
        torch.full((), number, dtype=out.dtype, device=out.device) for number in (math.nan, 0.0 if replaced else 1.0)
    )
    factor = torch.where(blind, nothing, rest)
    return torch.where(blind, value.mean(-2, keepdim=True) * factor, out) if replaced else out * factor
