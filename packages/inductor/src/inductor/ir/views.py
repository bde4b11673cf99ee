"""Views as data: each maps an index of the view to an index of what is viewed, and strides to strides if it can.

Flows in: view lowerings. Flows out: `TensorValue.views`, folded into a `Layout` over realized memory as far as strides go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Protocol

import sympy

from inductor.ir.indexing import ONE, ZERO, Index, contiguous_strides, groups, linear_index, reshape_index, same, times
from inductor.ir.operations import Expr
from inductor.ops import ops
from symshapes import dataclass


@dataclass(frozen=True)
class Layout:
    """A strided window, in elements from the start of a buffer."""

    size: tuple[Expr, ...]
    stride: tuple[Expr, ...]
    offset: Expr = ZERO

    def linear(self, index: Index) -> Expr:
        """The place of an index in the buffer, in elements."""
        return linear_index(index, self.stride, self.offset)


class View(Protocol):
    """One view step."""

    @property
    def size(self) -> tuple[Expr, ...]:
        """Size of the view."""
        ...

    def reindex(self, index: Index) -> Index:
        """Where the element at `index` of the view is in what is viewed."""
        ...

    def layout(self, of: Layout) -> Layout | None:
        """The view's layout over memory with layout `of`; None if it is not strided."""
        ...


@dataclass(frozen=True)
class Dims:
    """Permuted, dropped (size 1) and new (size 1) dimensions: view dimension d is dimension `source[d]`, None if new."""

    size: tuple[Expr, ...]
    source: tuple[int | None, ...]
    rank: int
    """Number of dimensions of what is viewed."""

    def reindex(self, index: Index) -> Index:
        result = [ZERO] * self.rank
        for position, dim in zip(index, self.source, strict=True):
            if dim is not None:
                result[dim] = position
        return result

    def layout(self, of: Layout) -> Layout | None:
        return Layout(self.size, tuple(ONE if d is None else of.stride[d] for d in self.source), of.offset)


@dataclass(frozen=True)
class Expand:
    """Broadcast: new leading dimensions, and dimensions of size 1 to `size`.

    One whose size only the run tells is 1 or as long as the new one: its places and strides count where it is more than 1.
    """

    size: tuple[Expr, ...]
    old: tuple[Expr, ...]

    def reindex(self, index: Index) -> Index:
        tail = index[len(self.size) - len(self.old) :]
        sizes = self.size[len(self.size) - len(self.old) :]
        return [_unless_repeated(p, old, size) for p, old, size in zip(tail, self.old, sizes, strict=True)]

    def layout(self, of: Layout) -> Layout | None:
        new = len(self.size) - len(self.old)
        strides = [
            stride if size == 1 else _unless_repeated(stride, old, size)
            for old, size, stride in zip(self.old, self.size[new:], of.stride, strict=True)
        ]
        return Layout(self.size, (ZERO,) * new + tuple(strides), of.offset)


def _unless_repeated(number: Expr, old: Expr, size: Expr) -> Expr:
    """A place or stride in a dimension, 0 where that is repeated."""
    if old == 1:
        return ZERO
    if old.is_Integer or same(old, size):
        return number
    return times(number, sympy.Min(ONE, old - ONE))


@dataclass(frozen=True)
class Slice:
    """Elements start, start + step, ... of one dimension."""

    size: tuple[Expr, ...]
    dim: int
    start: Expr
    step: Expr

    def reindex(self, index: Index) -> Index:
        result = list(index)
        result[self.dim] = index[self.dim] * self.step + self.start
        return result

    def layout(self, of: Layout) -> Layout | None:
        stride = list(of.stride)
        stride[self.dim] = stride[self.dim] * self.step
        return Layout(self.size, tuple(stride), of.offset + self.start * of.stride[self.dim])


@dataclass(frozen=True)
class Select:
    """One position of one dimension, which goes away."""

    size: tuple[Expr, ...]
    dim: int
    at: Expr

    def reindex(self, index: Index) -> Index:
        return [*index[: self.dim], self.at, *index[self.dim :]]

    def layout(self, of: Layout) -> Layout | None:
        stride = of.stride[: self.dim] + of.stride[self.dim + 1 :]
        return Layout(self.size, stride, of.offset + self.at * of.stride[self.dim])


@dataclass(frozen=True)
class Reshape:
    """The same elements in row-major order under another size."""

    size: tuple[Expr, ...]
    old: tuple[Expr, ...]

    def reindex(self, index: Index) -> Index:
        return reshape_index(index, self.old, self.size, ops.ranges)

    def layout(self, of: Layout) -> Layout | None:
        strides: list[Expr] = [ONE] * len(self.size)
        for olds, news in groups(self.old, self.size):
            if not olds or not news:
                continue
            real = [d for d in olds if self.old[d] != 1]
            for a, b in pairwise(real):
                if of.stride[a] != times(of.stride[b], self.old[b]):
                    return None
            step = of.stride[real[-1]]
            for dim, stride in zip(news, contiguous_strides([self.size[d] for d in news]), strict=True):
                strides[dim] = times(stride, step)
        return Layout(self.size, tuple(strides), of.offset)


@dataclass(frozen=True)
class Diagonal:
    """The diagonal of dimensions `first` and `second`, as a new last dimension."""

    size: tuple[Expr, ...]
    first: int
    second: int
    shift: tuple[Expr, Expr]
    """Where the diagonal starts in the two dimensions."""

    def reindex(self, index: Index) -> Index:
        rest, along = list(index[:-1]), index[-1]
        low, high = sorted([(self.first, self.shift[0]), (self.second, self.shift[1])])
        for dim, shift in (low, high):
            rest.insert(dim, along + shift)
        return rest

    def layout(self, of: Layout) -> Layout | None:
        kept = [s for d, s in enumerate(of.stride) if d not in (self.first, self.second)]
        a, b = of.stride[self.first], of.stride[self.second]
        return Layout(self.size, (*kept, a + b), of.offset + a * self.shift[0] + b * self.shift[1])


@dataclass(frozen=True)
class Unfold:
    """Windows along one dimension: position p and place w in the window (a new last dimension) read p * step + w."""

    size: tuple[Expr, ...]
    dim: int
    step: Expr

    def reindex(self, index: Index) -> Index:
        rest = list(index[:-1])
        rest[self.dim] = rest[self.dim] * self.step + index[-1]
        return rest

    def layout(self, of: Layout) -> Layout | None:
        stride = list(of.stride)
        stride[self.dim] = stride[self.dim] * self.step
        return Layout(self.size, (*stride, of.stride[self.dim]), of.offset)


@dataclass(frozen=True)
class AsStrided:
    """Any strided window of the buffer beneath, whatever was viewed: only of realized memory."""

    size: tuple[Expr, ...]
    stride: tuple[Expr, ...]
    offset: Expr

    def reindex(self, index: Index) -> Index:
        raise AssertionError("as_strided has no index without memory: realize first")

    def layout(self, of: Layout) -> Layout | None:
        return Layout(self.size, self.stride, self.offset)


@dataclass(frozen=True, eq=False)
class Reindex:
    """Any rearrangement that strides cannot express: flip, roll, repeat."""

    size: tuple[Expr, ...]
    function: Callable[[Sequence[Expr]], Sequence[Expr]]

    def reindex(self, index: Index) -> Index:
        return self.function(index)

    def layout(self, of: Layout) -> Layout | None:
        return None
