"""Windows over the last dimensions of images: which elements a window reads, and which windows read an element."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import sympy

from inductor.ir.builder import Builder
from inductor.ir.indexing import Index
from inductor.ir.operations import Expr
from inductor.ir.scalar import Scalar, index_value, prim
from symshapes import FloorDiv


def each(value: Any, rank: int, default: Sequence[int] = (0,)) -> tuple[int, ...]:
    """An option of a pooling operator for each of the `rank` dimensions: given once, for each, or not at all."""
    values = [value] if isinstance(value, int) else list(value) or list(default)
    return tuple(values * rank if len(values) == 1 else values)


def end_of(size: Expr) -> Any:
    """A size to compare positions with."""
    return int(size) if size.is_Integer else index_value(size)


def channels_last(builder: Builder, rank: int) -> bool:
    """Whether neighbours in the memory of the node's value are channels."""
    out = builder.meta()
    return out.dim() > rank + 1 and builder.size(out.stride(-rank - 1)) == 1 and builder.size(out.size(-rank - 1)) != 1


class Window:
    """The places a pooling window reads, for an output element at `index`."""

    def __init__(
        self,
        self_size: Sequence[Expr],
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        ceil_mode: bool,
    ) -> None:
        self.rank = len(kernel)
        self.size = self_size[-self.rank :]
        self.kernel, self.stride, self.padding, self.dilation = kernel, stride, padding, dilation
        self.checked = tuple(ceil_mode or pad > 0 for pad in padding)
        """Along which dimensions places may be outside the input."""

    def places(self, index: Index) -> Iterator[tuple[list[Expr], Scalar | None]]:
        """The index of each element, the last dimension's nearest together, and whether it is inside the input (None: always)."""
        for taps in itertools.product(*map(range, self.kernel)):
            place = list(index[: -self.rank])
            inside: Scalar | None = None
            for dim, tap in enumerate(taps):
                at = index[dim - self.rank] * self.stride[dim] - self.padding[dim] + tap * self.dilation[dim]
                place.append(at)
                if self.checked[dim]:
                    value = index_value(at)
                    test = prim.ge(value, 0) & prim.lt(value, end_of(self.size[dim]))
                    inside = test if inside is None else inside & test
            yield place, inside


class Covering:
    """The windows that read an element of the input: at most a few of the result's elements, unless windows are dilated."""

    def __init__(
        self, result_size: Sequence[Expr], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
    ) -> None:
        self.rank = len(kernel)
        self.size = result_size[-self.rank :]
        self.kernel, self.stride, self.padding = kernel, stride, padding

    @property
    def count(self) -> int:
        """How many windows at most read one element."""
        return math.prod(-(-k // s) for k, s in zip(self.kernel, self.stride, strict=True))

    def places(self, index: Index) -> Iterator[tuple[list[Expr], Scalar]]:
        """Each window's index in the result, and whether there is such a window that reads the element."""
        along = [list(self._along(dim, index[dim - self.rank])) for dim in range(self.rank)]
        for chosen in itertools.product(*along):
            _, exists = chosen[0]
            for _, also in chosen[1:]:
                exists = exists & also
            yield [*index[: -self.rank], *(window for window, _ in chosen)], exists

    def _along(self, dim: int, at: Expr) -> Iterator[tuple[Expr, Scalar]]:
        kernel, step = self.kernel[dim], self.stride[dim]
        padded = at + self.padding[dim]
        for back in range(-(-kernel // step)):
            window = FloorDiv(padded, sympy.Integer(step)) - back
            place = index_value(window)
            exists = prim.lt(place, end_of(self.size[dim]))
            if back:
                exists = exists & prim.ge(place, 0)
            if (back + 1) * step > kernel:  # the window may end before the element
                exists = exists & prim.lt(index_value(padded - window * step), kernel)
            yield window, exists
