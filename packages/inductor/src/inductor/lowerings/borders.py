"""Images with a border of their own elements: mirrored (`reflection_pad`), or the nearest of the edge (`replication_pad`).

A negative width cuts, as eager has it: what is left is seen as if nothing had been cut, so that a border on the other side may
show elements that were cut away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductor.ir.builder import Builder
from inductor.ir.indexing import ZERO, Index, is_empty
from inductor.ir.operations import Expr
from inductor.ir.scalar import Scalar, index_value, indirect, masked, prim, where
from inductor.ir.tensor import TensorValue
from inductor.lowerings.indexing import like_node
from inductor.lowerings.registry import lowering, realize_if_costly
from inductor.lowerings.windows import end_of
from symshapes import expr_of

CHEAP = 8
"""Operations of an element that is rather computed again for the border than kept in memory."""


def _widths(padding: Sequence[Any]) -> list[tuple[Expr, Expr]]:
    """How much is added before and behind, for each of the last dimensions in their order."""
    pairs = [(expr_of(padding[at]), expr_of(padding[at + 1])) for at in range(0, len(padding), 2)]
    return pairs[::-1]


def _is_along_rows(builder: Builder) -> bool:
    """Whether neighbours in the memory of the node's value are neighbours in the last dimension."""
    return builder.size(builder.meta().stride(-1)) == 1


def _known(size: Expr, widths: tuple[Expr, Expr]) -> bool:
    return bool(size.is_Integer and all(width.is_Integer for width in widths))


def _border(builder: Builder, self: TensorValue, padding: Sequence[Any], mirrors: bool) -> Any:
    widths = _widths(padding)
    rank = len(widths)
    if self.dtype is torch.bool or is_empty(self.size) or is_empty(builder.sizes(builder.meta().size())):
        return NotImplemented
    by_ranges = _is_along_rows(builder)
    if by_ranges and not _known(self.size[-1], widths[-1]):
        return NotImplemented  # ATen copies what lies between the borders as a whole
    cost = self.cost
    if cost.checks or cost.expensive or cost.operations > CHEAP:
        realize_if_costly(builder, self)

    def compute(index: Index) -> Scalar:
        place = list(index)
        for dim, (before, _) in zip(range(-rank, 0), widths, strict=True):
            if not (by_ranges and dim == -1):
                place[dim] = _source(index[dim] - before, self.size[dim], mirrors)
        if not by_ranges:
            return self.load(place)
        return _row(self, place, widths[-1], mirrors)

    return like_node(builder, compute, self, operations=3)


def _source(at: Expr, size: Expr, mirrors: bool) -> Expr:
    """The place in a dimension that position `at`, counted from its start, shows."""
    value, last = index_value(at), end_of(size - 1)
    if mirrors:
        value = last - prim.abs(prim.abs(value) - last)
    else:
        value = prim.minimum(prim.maximum(value, 0), last)
    return indirect(value, size, "certain")


def _row(self: TensorValue, place: list[Expr], widths: tuple[Expr, Expr], mirrors: bool) -> Scalar:
    """An element of a bordered row: which of its three parts a position is in is asked of the position alone, so that a backend
    can make a loop of each."""
    before, after = widths
    at, last = place[-1] - before, self.size[-1] - 1

    def load(column: Expr) -> Callable[[], Scalar]:
        return lambda: self.load([*place[:-1], column])

    first = index_value(at)
    if before <= 0 and after <= 0:
        return load(at)()
    inside: Scalar | None = None
    if before > 0:
        inside = prim.ge(first, 0)
    if after > 0:
        ends = prim.le(first, end_of(last))
        inside = ends if inside is None else inside & ends
    assert inside is not None
    value = masked(inside, load(at), 0)
    if before > 0:
        head = prim.lt(first, 0)
        value = where(head, masked(head, load(-at if mirrors else ZERO), 0), value)
    if after > 0:
        tail = prim.gt(first, end_of(last))
        value = where(tail, masked(tail, load(2 * last - at if mirrors else last), 0), value)
    return value


@lowering("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(builder: Builder, self: TensorValue, padding: Sequence[Any]) -> Any:
    """A border that mirrors the elements next to the edge, the edge itself not repeated."""
    return _border(builder, self, padding, mirrors=True)


@lowering("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(builder: Builder, self: TensorValue, padding: Sequence[Any]) -> Any:
    """A border of the edge's elements."""
    return _border(builder, self, padding, mirrors=False)
