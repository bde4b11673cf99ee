"""Random numbers drawn within loops: each element's from a seed and its place in the tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import sympy
import torch

from inductor.draws import DIGITS, FLIPPED, INTEGERS, NORMAL, POSITIVE, UNIFORM
from inductor.ir.builder import Builder
from inductor.ir.indexing import ZERO, Index, contiguous_strides, linear_index
from inductor.ir.scalar import Scalar, convert, index_value, prim
from inductor.ir.tensor import TensorValue
from inductor.lowerings.registry import lowering, measured

_LARGEST = (1 << 63) - 1


def _drawn(
    builder: Builder, seeds: TensorValue, which: int, compute: Callable[[Scalar, Scalar], Scalar]
) -> TensorValue:
    """A tensor like the node's, each element made by `compute` of the seed and the element's position."""
    out = builder.meta()
    size, dtype = builder.sizes(out.size()), out.dtype
    strides = contiguous_strides(size)
    builder.realize(seeds)

    def element(index: Index) -> Scalar:
        seed = seeds.load((sympy.Integer(which),))
        return convert(compute(seed, index_value(linear_index(index, strides))), dtype)

    cost = measured(builder, lambda: element((ZERO,) * len(size)), lambda _: seeds.dtype)
    return builder.pointwise(out.device, dtype, size, element, cost + seeds.cost)


def _pair(position: Scalar) -> tuple[Scalar, Scalar]:
    """Of an element the number of its pair, and which of both it is. Most of what both draw is the same: where a thread has both,
    compilers see that it is."""
    return prim.rshift(position, 1), prim.bitwise_and(position, 1)


def _fraction(bits: Scalar, digits: int, dtype: torch.dtype) -> Scalar:
    """The lowest bits as a number of [0, 1), exact."""
    return _whole(prim.bitwise_and(bits, (1 << digits) - 1), digits, dtype) * 2.0**-digits


def _whole(bits: Scalar, digits: int, dtype: torch.dtype) -> Scalar:
    # Few bits by way of int32, which devices convert several times faster.
    return convert(convert(bits, torch.int32) if digits < 32 else bits, dtype)


@lowering(UNIFORM)
def uniform(builder: Builder, seeds: TensorValue, which: int, size: Any, *, dtype: torch.dtype) -> TensorValue:
    """Random bits, as many as the dtype holds; of 64 two elements beside each other have a half each."""

    def compute(seed: Scalar, position: Scalar) -> Scalar:
        if DIGITS[dtype] > 32:
            return _fraction(prim.random_bits(seed, position), DIGITS[dtype], dtype)
        pair, odd = _pair(position)
        return _fraction(prim.rshift(prim.random_bits(seed, pair), odd * 32), DIGITS[dtype], dtype)

    return _drawn(builder, seeds, which, compute)


@lowering(NORMAL)
def normal(builder: Builder, seeds: TensorValue, which: int, size: Any, *, dtype: torch.dtype) -> TensorValue:
    """By the method of Box and Muller: the distance from 31 bits, the angle from 24 others, a quarter of a turn away for the second of
    two elements beside each other; in float64 53 bits each, for each element."""

    def compute(seed: Scalar, position: Scalar) -> Scalar:
        if dtype is torch.float64:
            bits = prim.random_bits(seed, position)
            first = _whole(prim.bitwise_and(bits, (1 << 53) - 1), 53, dtype) + 1
            angle = _fraction(prim.random_bits(prim.bitwise_xor(seed, FLIPPED), position), 53, dtype)
            return prim.sqrt(prim.log(first * 2.0**-53) * -2) * prim.cos(angle * (2 * math.pi))
        pair, odd = _pair(position)
        bits = prim.random_bits(seed, pair)
        first = _whole(prim.bitwise_and(bits, POSITIVE), 31, torch.float32) + 1
        angle = _fraction(prim.rshift(bits, 40), 24, torch.float32) - (_whole(odd, 1, torch.float32) + 2) * 0.25
        return prim.sqrt(prim.short_log(first * 2.0**-31) * -2) * prim.short_cos(angle * (2 * math.pi))

    return _drawn(builder, seeds, which, compute)


@lowering(INTEGERS)
def integers(
    builder: Builder, seeds: TensorValue, which: int, size: Any, low: int, high: int, *, dtype: torch.dtype
) -> TensorValue:
    """63 random bits modulo the range."""

    def compute(seed: Scalar, position: Scalar) -> Scalar:
        positive = prim.bitwise_and(prim.random_bits(seed, position), _LARGEST)
        return (positive if high - low > _LARGEST else prim.remainder(positive, high - low)) + low

    return _drawn(builder, seeds, which, compute)
