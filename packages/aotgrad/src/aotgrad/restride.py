"""`as_strided` as slices, selections and permutations, where it is made of some: those fuse and scatter, it does not.

In: the layout of a whole storage's tensor and of a view into it. Out: view ops that make the view, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from symshapes import dataclass

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes, strides and offset, in elements."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


def layout_of(size: Sequence[Any], stride: Sequence[Any], offset: Any) -> Layout | None:
    """The layout, if all its numbers are known."""
    if any(type(number) is not int for number in (*size, *stride, offset)):
        return None
    return Layout(tuple(size), tuple(stride), offset)


def view_of(base: Layout, view: Layout) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """A function that makes `view` of a tensor laid out as `base`; strides of dimensions of length 1 are not kept."""
    if 0 in base.size or 0 in view.size:
        return None
    if base.size == view.size and base.offset == view.offset and _same_strides(base, view):
        return aten.alias.default
    if base.offset == view.offset and _contiguous(base) and _contiguous(view) and _count(base) == _count(view):
        return lambda tensor: aten.view.default(tensor, list(view.size))
    starts = _starts(base, view.offset - base.offset)
    if starts is None:
        return None
    taken: dict[int, tuple[int, int]] = {}  # dimension of the base: dimension of the view, step
    for dim, (size, stride) in enumerate(zip(view.size, view.stride, strict=True)):
        if size == 1:
            continue
        source = _source(base, starts, taken, size, stride)
        if source is None:
            return None
        taken[source] = dim, stride // base.stride[source]
    return lambda tensor: _make(tensor, base, view, starts, taken)


def _same_strides(base: Layout, view: Layout) -> bool:
    return all(a == b or n == 1 for a, b, n in zip(base.stride, view.stride, base.size, strict=True))


def _contiguous(layout: Layout) -> bool:
    expected = 1
    for size, stride in zip(reversed(layout.size), reversed(layout.stride), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _count(layout: Layout) -> int:
    count = 1
    for size in layout.size:
        count *= size
    return count


def _starts(base: Layout, distance: int) -> list[int] | None:
    """The index in `base` of the element that lies `distance` after its first; None if its dimensions overlap."""
    if distance < 0:
        return None
    starts = [0] * len(base.size)
    extent = None
    for dim in sorted(range(len(base.size)), key=lambda dim: -base.stride[dim]):
        size, stride = base.size[dim], base.stride[dim]
        if size == 1:
            continue
        if stride <= 0 or (extent is not None and stride * size > extent):
            return None
        extent = stride
        starts[dim] = distance // stride
        if starts[dim] >= size:
            return None
        distance -= starts[dim] * stride
    return starts if distance == 0 else None


def _source(base: Layout, starts: list[int], taken: dict[int, Any], size: int, stride: int) -> int | None:
    """The dimension of the base that a dimension of the view runs along."""
    for dim in sorted(range(len(base.size)), key=lambda dim: -base.stride[dim]):
        step = base.stride[dim]
        if dim in taken or base.size[dim] == 1 or stride <= 0 or stride % step:
            continue
        if starts[dim] + (size - 1) * (stride // step) < base.size[dim]:
            return dim
    return None


def _make(
    tensor: torch.Tensor, base: Layout, view: Layout, starts: list[int], taken: dict[int, tuple[int, int]]
) -> torch.Tensor:
    for dim in reversed(range(len(base.size))):
        if dim not in taken:
            tensor = aten.select.int(tensor, dim, starts[dim])
            continue
        target, step = taken[dim]
        end = starts[dim] + (view.size[target] - 1) * step + 1
        if (starts[dim], end, step) != (0, base.size[dim], 1):
            tensor = aten.slice.Tensor(tensor, dim, starts[dim], end, step)
    order = sorted(range(len(taken)), key=lambda position: taken[sorted(taken)[position]][0])
    if order != sorted(order):
        tensor = aten.permute.default(tensor, order)
    for dim, size in enumerate(view.size):
        if size == 1:
            tensor = aten.unsqueeze.default(tensor, dim)
    return tensor
