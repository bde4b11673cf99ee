"""Writes that no functional op of the same name stands for, and what a written value must be turned into.

In: the arguments of a writing op, as tensors under the tracer. Out: the new value of the tensor it writes to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from aotgrad import rng
from aotgrad.errors import Unsupported
from aotgrad.strides import same_sizes

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
    for back in range(1, min(len(size), len(given)) + 1):
        a, b = size[-back], given[-back]
        if type(a) is int and type(b) is int and b not in (1, a):
            raise RuntimeError(
                f"The size of tensor a ({a}) must match the size of tensor b ({b}) "
                f"at non-singleton dimension {len(size) - back}"
            )


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
    if not same_sizes(target, value):
        if is_out:
            raise Unsupported(f"{func} would resize its out= argument")
        raise RuntimeError(
            f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(value.shape)}"
        )
    if value.dtype == target.dtype:
        return value
    if not torch.can_cast(value.dtype, target.dtype):
        names = [_scalar_name(t.dtype) for t in (value, target)]
        raise RuntimeError(f"result type {names[0]} can't be cast to the desired output type {names[1]}")
    return aten._to_copy.default(value, dtype=target.dtype)


def _scalar_name(dtype: torch.dtype) -> str:
    name = str(dtype).removeprefix("torch.")
    return _EAGER_NAMES.get(name, name)


_EAGER_NAMES = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "bool": "Bool"}
_EAGER_NAMES |= {"int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte"}
_EAGER_NAMES |= {"complex64": "ComplexFloat", "complex128": "ComplexDouble"}
"""What eager calls dtypes in its messages."""
