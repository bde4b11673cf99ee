"""Writes that no functional op of the same name stands for, and what a written value must be turned into.

In: the arguments of a writing op, as tensors under the tracer. Out: the new value of the tensor it writes to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from aotgrad import rng
from aotgrad.errors import Unsupported
from symshapes import same_sizes, uncastable, unlike_sizes, unlike_target

aten = torch.ops.aten

Mutation = Callable[..., torch.Tensor]

MUTATIONS: dict[Any, Mutation] = dict(rng.WRITES)
"""A writing op with one target, and the function with its arguments that gives the target's new value."""


def _mutation(*ops: Any) -> Callable[[Mutation], Mutation]:
    def register(function: Mutation) -> Mutation:
        MUTATIONS.update(dict.fromkeys(ops, function))
        return function

    return register


@_mutation(aten.copy_.default)
def _copy(self: torch.Tensor, src: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    value = src
    if src.dtype != self.dtype or src.device != self.device:
        value = aten._to_copy.default(src, dtype=self.dtype, device=self.device, non_blocking=non_blocking)
    if not same_sizes(self, value):
        _refuse_unlike(self.shape, value.shape)
        value = aten.expand.default(value, self.shape)
    return value


def _refuse_unlike(size: torch.Size, given: torch.Size) -> None:
    """Raise eager's error if `given` does not broadcast to `size` (symbolic sizes are left to `expand`)."""
    extra = given[: max(len(given) - len(size), 0)]
    grown = [*size]
    fits = not extra
    for back in range(1, min(len(size), len(given)) + 1):
        a, b = size[-back], given[-back]
        if type(a) is int and type(b) is int and b not in (1, a):
            if a != 1:
                raise unlike_sizes(a, b, max(len(size), len(given)) - back)
            grown[-back] = b
            fits = False
    if not fits:
        raise unlike_target(size, [*extra, *grown])


@_mutation(aten.fill_.Scalar)
def _fill(self: torch.Tensor, value: Any) -> torch.Tensor:
    return aten.full_like.default(self, value)


@_mutation(aten.fill_.Tensor)
def _fill_tensor(self: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return _copy(self, value)


@_mutation(aten.zero_.default)
def _zero(self: torch.Tensor) -> torch.Tensor:
    return aten.full_like.default(self, 0)


def assignable(func: Any, target: torch.Tensor, value: torch.Tensor, is_out: bool) -> torch.Tensor:
    """`value` in the dtype of `target`.

    Raises RuntimeError, with eager's message, if eager would refuse to write it; Unsupported if eager would resize.
    """
    if target.dim() != value.dim() or any(mine != other for mine, other in zip(target.shape, value.shape, strict=True)):
        if is_out:
            raise Unsupported(f"{func} would resize its out= argument")
        raise unlike_target(target.shape, value.shape)
    if value.dtype == target.dtype:
        return value
    if not torch.can_cast(value.dtype, target.dtype):
        raise uncastable(value.dtype, target.dtype)
    return aten._to_copy.default(value, dtype=target.dtype)
