"""Ops over lists of tensors (what optimizers call) become one op a tensor, which fuse as they come.

In: `_foreach_*` calls. Out: lists of results of the op that they are named after.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from aotgrad.decompositions.registry import decomposition

aten = torch.ops.aten

UNARY = [
    "abs",
    "acos",
    "asin",
    "atan",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "floor",
    "frac",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "neg",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]
BINARY = {
    "add": aten.add.Tensor,
    "sub": aten.sub.Tensor,
    "mul": aten.mul.Tensor,
    "div": aten.div.Tensor,
}
LIMITS = {"maximum": aten.maximum.default, "minimum": aten.minimum.default}
CLAMPS = {"maximum": aten.clamp_min.default, "minimum": aten.clamp_max.default}


def _each_unary(op: Any) -> Callable[[list[Tensor]], list[Tensor]]:
    return lambda tensors: [op(t) for t in tensors]


def _each_pair(op: Any) -> Callable[..., list[Tensor]]:
    def run(tensors: list[Tensor], others: list[Any], **options: Any) -> list[Tensor]:
        return [op(t, other, **options) for t, other in zip(tensors, others, strict=True)]

    return run


def _each_with_one(op: Any) -> Callable[..., list[Tensor]]:
    def run(tensors: list[Tensor], other: Any, **options: Any) -> list[Tensor]:
        return [op(t, other, **options) for t in tensors]

    return run


def _each_triple(op: Any) -> Callable[..., list[Tensor]]:
    """`op` of each, with one factor."""

    def run(x: list[Tensor], first: list[Tensor], second: list[Tensor], value: Any = 1) -> list[Tensor]:
        return [op(*each, value=value) for each in zip(x, first, second, strict=True)]

    return run


def _each_triple_scaled(op: Any) -> Callable[..., list[Tensor]]:
    """`op` of each, with a factor each."""

    def run(x: list[Tensor], first: list[Tensor], second: list[Tensor], scalars: Any) -> list[Tensor]:
        return [op(*each, value=value) for *each, value in zip(x, first, second, scalars, strict=True)]

    return run


for _name in UNARY:
    decomposition(getattr(aten, f"_foreach_{_name}").default)(_each_unary(getattr(aten, _name).default))

for _name, _op in BINARY.items():
    _packet = getattr(aten, f"_foreach_{_name}")
    decomposition(_packet.List, _packet.ScalarList)(_each_pair(_op))
    decomposition(_packet.Scalar)(_each_with_one(_op))
    if _name != "sub":
        decomposition(_packet.Tensor)(_each_with_one(_op))

for _name, _op in LIMITS.items():
    _packet, _scalar = getattr(aten, f"_foreach_{_name}"), CLAMPS[_name]
    _clamp = getattr(aten, "_foreach_clamp_min" if _name == "maximum" else "_foreach_clamp_max")
    for _family in (_packet, _clamp):
        decomposition(_family.List)(_each_pair(_op))
        decomposition(_family.ScalarList)(_each_pair(_scalar))
        decomposition(_family.Scalar)(_each_with_one(_scalar))

decomposition(aten._foreach_pow.Scalar)(_each_with_one(aten.pow.Tensor_Scalar))
decomposition(aten._foreach_pow.ScalarList)(_each_pair(aten.pow.Tensor_Scalar))
decomposition(aten._foreach_pow.List)(_each_pair(aten.pow.Tensor_Tensor))


for _name in ("addcmul", "addcdiv"):
    _packet, _op = getattr(aten, f"_foreach_{_name}"), getattr(aten, _name).default
    decomposition(_packet.Scalar)(_each_triple(_op))
    decomposition(_packet.ScalarList)(_each_triple_scaled(_op))


@decomposition(aten._foreach_lerp.Scalar)
def foreach_lerp(x: list[Tensor], ends: list[Tensor], weight: Any) -> list[Tensor]:
    """`lerp` of each, with one weight."""
    return [aten.lerp.Scalar(start, end, weight) for start, end in zip(x, ends, strict=True)]


@decomposition(aten._foreach_lerp.List)
def foreach_lerp_list(x: list[Tensor], ends: list[Tensor], weights: list[Tensor]) -> list[Tensor]:
    """`lerp` of each, with a tensor of weights each."""
    return [aten.lerp.Tensor(*each) for each in zip(x, ends, weights, strict=True)]


@decomposition(aten._foreach_copy.default)
def foreach_copy(x: list[Tensor], sources: list[Tensor], non_blocking: bool = False) -> list[Tensor]:
    """`copy` of each."""
    return [aten.copy.default(t, source) for t, source in zip(x, sources, strict=True)]


@decomposition(aten._foreach_zero.default)
def foreach_zero(x: list[Tensor]) -> list[Tensor]:
    """Zeros like each."""
    return [aten.full_like.default(t, 0) for t in x]
