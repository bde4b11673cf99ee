"""Layouts of tensors, compared and described.

What takes tensors adds no guards on symbolic sizes. What takes sizes and strides (ints, `torch.SymInt`s, sympy expressions)
compares them by a function that it is given, which may add guards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import torch

from symshapes.expr.symbols import expr_of, hint_of


def same_size(a: Any, b: Any) -> bool:
    """Whether two sizes are the same number or the same expression; never guards."""
    if type(a) is int and type(b) is int:
        return a == b
    return bool(expr_of(a) == expr_of(b))


def same_sizes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have equal sizes; never guards."""
    return a.dim() == b.dim() and all(same_size(mine, other) for mine, other in zip(a.shape, b.shape, strict=True))


def same_metadata(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have equal dtypes, devices, sizes and strides; never guards."""
    return a.dtype == b.dtype and a.device == b.device and same_sizes(a, b) and same_layout(a, b)


def same_layout(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether `a` and `b`, of equal sizes, have equal strides where a stride matters."""
    if a is b:
        return True
    return all(
        same_size(mine, other)
        for mine, other, size in zip(a.stride(), b.stride(), a.shape, strict=True)
        if not (type(size) is int and size == 1)
    )


Compare = Callable[[Any, Any], bool]
"""Compares two sizes or strides."""


def is_nested(size: Sequence[Any], stride: Sequence[Any], inner_to_outer: Iterable[int], equal: Compare) -> bool:
    """Whether these dimensions, each around those before it, fill a block of memory without gaps or overlap.

    Dimensions of length 1 may have any stride. Compared are lengths with 1, strides with the product of the lengths within.
    """
    step: Any = 1
    for dim in inner_to_outer:
        if equal(size[dim], 1):
            continue
        if not equal(stride[dim], step):
            return False
        step = step * size[dim]
    return True


def lies_in_order(size: Sequence[Any], stride: Sequence[Any]) -> bool:
    """Whether strides are row-major as they are written: each is 1 or the expression that multiplying the lengths within gives.

    Never guards. A tensor of which this holds is contiguous whatever its lengths; of others nothing is said.
    """
    return _in_order(tuple(map(_written, size)), tuple(map(_written, stride)))


def _written(number: Any) -> Any:
    return number if type(number) is int else expr_of(number)


@lru_cache(maxsize=1 << 14)
def _in_order(size: tuple[Any, ...], stride: tuple[Any, ...]) -> bool:
    step: Any = 1
    for length, have in zip(reversed(size), reversed(stride), strict=True):
        if have != step:
            return False
        step = step * length
    return True


def is_block(size: Sequence[Any], stride: Sequence[Any], dims: Iterable[int], *equals: Compare) -> bool:
    """Whether these dimensions, in whatever order, fill a block of memory without gaps or overlap.

    Each next dimension around those found is sought by the first of `equals`, then by the second, and so on.
    """
    return _nesting(size, stride, dims, *equals) is not None


def _nesting(size: Sequence[Any], stride: Sequence[Any], dims: Iterable[int], *equals: Compare) -> list[int] | None:
    """These dimensions from innermost to outermost, if they fill a block of memory."""
    left, nested = list(dims), list[int]()
    step: Any = 1
    while left:
        found = (dim for equal in equals for dim in left if equal(stride[dim], step))
        match = next(found, None)
        if match is None:
            return None
        left.remove(match)
        nested.append(match)
        step = step * size[match]
    return nested


def grows_outward(
    size: Sequence[Any],
    stride: Sequence[Any],
    inner_to_outer: Sequence[int],
    equal: Compare,
    less: Compare,
) -> bool:
    """Whether strides only grow from the channels (dimension 1) outward to the batch (dimension 0).

    That is how eager decides which memory format a tensor suggests; it needs not be dense.
    """
    # Row-major strides do not: of one element they are all 1, which is the other format's.
    if lies_in_order(size, stride) or equal(stride[1], 0):
        return False
    least: Any = 0
    for dim in inner_to_outer:
        if equal(size[dim], 0) or less(stride[dim], least):
            return False
        # With one channel and one row this would be the other format as well: that one has precedence.
        if dim == 0 and equal(least, stride[1]):
            return False
        least = stride[dim] * size[dim]
    return True


def channels_innermost(rank: int) -> tuple[int, ...]:
    """Dimensions from innermost to outermost where the channels are innermost: of NCHW and NCDHW."""
    return (1, *range(rank - 1, 1, -1), 0)


def is_dense(t: torch.Tensor) -> bool:
    """Whether the elements fill one block of memory without gaps or overlap; never guards (unsure is False)."""
    return is_block(t.shape, t.stride(), _long(t), same_size)


def memory_order(like: torch.Tensor) -> list[int]:
    """Dimensions from outermost to innermost in memory: of a dense tensor as its strides are written, whatever their numbers are,
    of another by those numbers, or guesses at them."""
    size, stride = like.shape, like.stride()
    strides = [hint_of(step) for step in stride]
    order = sorted(range(like.dim()), key=lambda dim: -strides[dim])
    if is_nested(size, stride, reversed(order), same_size):
        return order
    # The guess at a length that only the run can tell may be 0, and every stride around it.
    nested = _nesting(size, stride, _long(like), same_size)
    return order if nested is None else [*(dim for dim in range(like.dim()) if dim not in nested), *reversed(nested)]


def _long(t: torch.Tensor) -> list[int]:
    return [dim for dim in range(t.dim()) if not same_size(t.shape[dim], 1)]


def inverse_permutation(order: list[int]) -> list[int]:
    """The permutation that undoes `order`."""
    inverse = [0] * len(order)
    for position, dim in enumerate(order):
        inverse[dim] = position
    return inverse
