"""Attention as two products of matrices with a softmax between them, where all weights stay in a cache on the way."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import torch

from inductor.ir.builder import Builder
from inductor.ir.indexing import product
from inductor.ir.operations import Expr
from inductor.ir.scalar import Scalar, index_value, prim, reduce, where
from inductor.ir.tensor import TensorValue
from inductor.lowerings.contractions import filled, gains, strided
from inductor.lowerings.registry import broadcast, lowering

MOST_WEIGHTS = 1 << 20
"""Of all heads together: more of them would go to memory and back, where ATen's kernel keeps a block of them at a time."""


@lowering("_scaled_dot_product_flash_attention_for_cpu", reads_memory=True)
def _attention(
    builder: Builder,
    query: TensorValue,
    key: TensorValue,
    value: TensorValue,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: TensorValue | None = None,
    scale: float | None = None,
) -> Any:
    """softmax(scale query keyᵀ + mask) value, of (batch, heads, length, width). What backward wants is left to ATen's kernel."""
    *heads, rows, depth = query.size
    keys = key.size[-2]
    size = (*heads, rows, keys)
    # For all sizes: this many are in memory at a time.
    few = product(size).is_Integer and product(size) <= MOST_WEIGHTS
    # Several heads of queries may share one of keys.
    own_keys = all(list(other.size[:-2]) == heads for other in (key, value))
    # Eager hides what lies ahead before it scales.
    hides_first = is_causal and scale is not None and not 0 < scale < math.inf
    if (
        dropout_p
        or _is_read(builder, 1)
        or query.dtype is not torch.float32
        or query.dtype not in builder.traits(query.device).convolutions
        or not few
        or not own_keys
        or hides_first
        or not gains(builder, query, rows, depth, keys)
        or not gains(builder, query, rows, keys, value.size[-1])
        or (attn_mask is not None and attn_mask.dtype is not query.dtype)
    ):
        return NotImplemented
    factor = 1 / math.sqrt(int(depth)) if scale is None and depth.is_Integer else scale
    if factor is None:
        return NotImplemented
    query, key, value = (strided(builder, one) for one in (query, key, value))
    added = None if attn_mask is None else builder.realize(broadcast(builder, attn_mask, size))
    made = functools.partial(filled, builder, query.device, query.dtype)

    def score(outer: list[Expr], inner: list[Expr]) -> Scalar:
        *head, row, column = outer
        found = reduce("sum", query.load([*head, row, *inner]) * key.load([*head, column, *inner])) * factor
        if added is not None:
            found = found + added.load(outer)
        return where(prim.le(index_value(column), index_value(row)), found, -math.inf) if is_causal else found

    scores = made(size, None, (depth,), score)
    largest = made((*heads, rows), None, (keys,), lambda row, at: reduce("max", scores.load([*row, *at])))

    def power(outer: list[Expr], _: list[Expr]) -> Scalar:
        peak = largest.load(outer[:-1])
        # A row that sees no key, or whose scores overflow: its sum is zero then, and so is its result.
        return prim.exp(scores.load(outer) - where(prim.eq(peak, -math.inf), 0.0, peak))

    powers = made(size, None, (), power)

    def total(row: list[Expr], at: list[Expr]) -> Scalar:
        found = reduce("sum", powers.load([*row, *at]))
        return where(prim.eq(found, 0.0), 1.0, found)

    totals = made((*heads, rows), None, (keys,), total)

    def mean(outer: list[Expr], inner: list[Expr]) -> Scalar:
        *head, row, column = outer
        found = reduce("sum", powers.load([*head, row, *inner]) * value.load([*head, *inner, column]))
        return found / totals.load([*head, row])

    out = builder.meta()[0]
    result = made(builder.sizes(out.size()), builder.sizes(out.stride()), (keys,), mean)
    return result, totals  # nobody reads the second


def _is_read(builder: Builder, result: int) -> bool:
    """Whether anything reads this one of the node's results."""
    assert builder.node is not None
    return any(user.target is not operator.getitem or user.args[1] == result for user in builder.node.users)
