"""Writes to some places, known or computed: the result starts as a copy of the input, then a loop stores into it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch

from inductor.ir.builder import Builder
from inductor.ir.indexing import Index, contiguous_strides, is_empty, same
from inductor.ir.operations import Expr
from inductor.ir.scalar import Scalar, convert, index_value, lift, masked, prim, where
from inductor.ir.tensor import TensorValue
from inductor.lowerings.indexing import Positions, integer_indices, like_node, position
from inductor.lowerings.registry import broadcast, elementwise, lowering, realize_if_costly
from inductor.lowerings.views import clamped, from_front, reshaped, wrap
from symshapes import HALF_DTYPES, FloorDiv, Mod, ambient

Write = Callable[[Index], tuple[Index, Scalar]]
"""From a point of the loop to the place written and the value."""


def scattered(
    builder: Builder, initial: TensorValue, loop: Sequence[Expr], write: Write, *, mode: str | None = None
) -> TensorValue:
    """`initial` with `write` done at every point of `loop`, or combined by a `mode` with what is there; later points need not win over
    earlier ones. What a device cannot add to in memory is added to as float32."""
    out = builder.meta()
    size = builder.sizes(out.size())
    stride = builder.sizes(out.stride())
    dtype = out.dtype if mode is None else _sums(builder, mode) or out.dtype
    if dtype is not out.dtype:
        narrow = initial
        initial = builder.pointwise(out.device, dtype, size, lambda at: convert(narrow.load(at), dtype), narrow.cost)
    given = builder.destination(initial)
    if given is not None:
        stride = given.stride
    elif not builder.is_dense(size, stride):
        stride = contiguous_strides(size)
    start = builder.strided(initial, stride)
    whole = builder.program.buffers[start.buffer]
    if start.offset != 0 or whole.size != size or whole.stride != stride:
        start = builder.strided(builder.copy(initial, stride), stride)
    buffer = builder.new_buffer(out.device, dtype, size, stride)

    def body(outer: list[Expr], _: list[Expr]) -> None:
        place, value = write(outer)
        builder.store(buffer, place, convert(value, dtype), mode)

    builder.loop(body, writes=(buffer,), outer=loop, initial=((buffer.name, start.buffer),))
    found = builder.in_memory(buffer)
    return found if dtype is out.dtype else like_node(builder, found.load, found)


def _can(builder: Builder, mode: str | None, *values: TensorValue) -> bool:
    out = builder.meta()
    traits = builder.traits(out.device)
    if not traits.orders_writes and ambient().deterministic:
        return False
    return (mode is None or (mode in traits.combines and _sums(builder, mode) is not None)) and all(
        not is_empty(value.size) and value.device == out.device for value in values
    )


def _sums(builder: Builder, mode: str) -> torch.dtype | None:
    """The dtype in which a device combines what is in memory, if it can."""
    out = builder.meta()
    known = builder.traits(out.device).accumulates
    if out.dtype in known:
        dtype: torch.dtype = out.dtype
        return dtype
    return torch.float32 if mode == "add" and out.dtype in HALF_DTYPES and torch.float32 in known else None


def _pays(builder: Builder, mode: str | None, loop: Sequence[Expr]) -> bool:
    """Whether the copies to and from the dtype that sums are made in are worth it: if as much is added as there is."""
    out = builder.meta()
    if mode is None or _sums(builder, mode) is out.dtype:
        return True
    return math.prod(map(builder.hint, loop)) >= math.prod(map(builder.hint, builder.sizes(out.size())))


def _are_alike(self: TensorValue, source: TensorValue) -> bool:
    """Whether what is written has the dtype of where it goes: eager refuses others."""
    return source.dtype is self.dtype


def _along(builder: Builder, self: TensorValue, dim: int, index: TensorValue, src: Any, mode: str | None = None) -> Any:
    if not self.size or not index.size or not _can(builder, mode, self, index):
        return NotImplemented
    if not _pays(builder, mode, index.size) or (isinstance(src, TensorValue) and not _are_alike(self, src)):
        return NotImplemented
    dim = wrap(dim, len(self.size))
    if isinstance(src, TensorValue) and not all(map(same, src.size, index.size)):
        realize_if_costly(builder, src)

    def write(at: Index) -> tuple[Index, Scalar]:
        value = src.load(at) if isinstance(src, TensorValue) else lift(src, self.dtype)
        return [*at[:dim], position(index, at, self.size[dim], "runtime"), *at[dim + 1 :]], convert(value, self.dtype)

    return scattered(builder, self, index.size, write, mode=mode)


@lowering("slice_scatter")
def slice_scatter(
    builder: Builder,
    self: TensorValue,
    src: TensorValue,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: Any = 1,
) -> Any:
    """`self` with `src` in the place of a slice."""
    rank = len(self.size)
    if not rank or is_empty(self.size) or is_empty(src.size) or not isinstance(step, int):
        return NotImplemented
    dim = wrap(dim, rank)
    size = self.size[dim]
    # Where it begins and how many there are says where it ends; what begins at or behind the end has no elements.
    first = clamped(start, size)
    if first is None:
        return NotImplemented
    span = step * src.size[dim]
    src = builder.to_device(src, self.device)
    if builder.destination(self) is not None:

        def write(at: Index) -> tuple[Index, Scalar]:
            return [*at[:dim], first + step * at[dim], *at[dim + 1 :]], convert(src.load(at), self.dtype)

        return scattered(builder, self, src.size, write)

    def compute(index: Index) -> Scalar:
        at = index_value(index[dim])
        inside: Scalar | None = None
        if first != 0:
            inside = prim.ge(at, _bound(first))
        if not (first + span - size).is_nonnegative:
            below = prim.lt(at, _bound(first + span))
            inside = below if inside is None else inside & below
        offset = index[dim] - first
        if step > 1:
            fits = prim.eq(index_value(Mod(offset, sympy.Integer(step))), 0)
            inside = fits if inside is None else inside & fits
            offset = FloorDiv(offset, sympy.Integer(step))

        def element() -> Scalar:
            return convert(src.load([*index[:dim], offset, *index[dim + 1 :]]), self.dtype)

        if inside is None:
            return element()
        return where(inside, masked(inside, element, 0), self.load(index))

    return like_node(builder, compute, self, src, operations=3)


def _bound(place: Expr) -> Any:
    """A place to compare positions with."""
    return int(place) if place.is_Integer else index_value(place)


@lowering("select_scatter")
def select_scatter(builder: Builder, self: TensorValue, src: TensorValue, dim: int, index: Any) -> Any:
    """`self` with `src` at one position of a dimension."""
    rank = len(self.size)
    if is_empty(self.size):
        return NotImplemented
    dim = wrap(dim, rank)
    at = from_front(index, self.size[dim])
    if at is None:
        return NotImplemented
    src = builder.to_device(src, self.device)
    if builder.destination(self) is not None:

        def write(place: Index) -> tuple[Index, Scalar]:
            return [*place[:dim], at, *place[dim:]], convert(src.load(place), self.dtype)

        return scattered(builder, self, src.size, write)

    def compute(place: Index) -> Scalar:
        here = prim.eq(index_value(place[dim]), _bound(at))

        def element() -> Scalar:
            return convert(src.load([*place[:dim], *place[dim + 1 :]]), self.dtype)

        return where(here, masked(here, element, 0), self.load(place))

    return like_node(builder, compute, self, src, operations=2)


@lowering("scatter.src")
def scatter_src(builder: Builder, self: TensorValue, dim: int, index: TensorValue, src: TensorValue) -> Any:
    """`self` with elements of `src` at the places along a dimension that `index` says."""
    return _along(builder, self, dim, index, src)


@lowering("scatter.value")
def scatter_value(builder: Builder, self: TensorValue, dim: int, index: TensorValue, value: Any) -> Any:
    """`self` with one number at the places along a dimension that `index` says."""
    if not isinstance(value, int | float):
        return NotImplemented
    return _along(builder, self, dim, index, value)


@lowering("scatter_add")
def scatter_add(builder: Builder, self: TensorValue, dim: int, index: TensorValue, src: TensorValue) -> Any:
    """`self` with elements of `src` added at the places along a dimension that `index` says."""
    return _along(builder, self, dim, index, src, "add")


_COMBINING = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
"""Of each reduction by its name the mode of stores."""


@lowering("scatter_reduce.two")
def scatter_reduce(
    builder: Builder,
    self: TensorValue,
    dim: int,
    index: TensorValue,
    src: TensorValue,
    reduce: str,
    *,
    include_self: bool = True,
) -> Any:
    """`self` combined with elements of `src` at the places along a dimension that `index` says, without itself unless told."""
    mode = _COMBINING.get(reduce)
    if (
        index.dtype is not torch.int64
        or mode is None
        or not self.size
        or not index.size
        or not _can(builder, mode, self, index)
        or not _pays(builder, mode, index.size)
    ):
        return NotImplemented
    if not include_self:
        realize_if_costly(builder, index)
        self = _along(builder, self, dim, index, _neutral(mode, self.dtype))
    return _along(builder, self, dim, index, src, mode)


@lowering("index_reduce")
def index_reduce(
    builder: Builder,
    self: TensorValue,
    dim: int,
    index: TensorValue,
    source: TensorValue,
    reduce: str,
    *,
    include_self: bool = True,
) -> Any:
    """`self` combined with `source` at positions of a dimension, without itself unless told. Not means."""
    mode = _COMBINING.get(reduce)
    if (
        index.dtype is not torch.int64
        or mode is None
        or not self.size
        or not index.size
        or len(source.size) != len(self.size)
    ):
        return NotImplemented
    if not _are_alike(self, source) or not _can(builder, mode, self, index, source):
        return NotImplemented
    if not _pays(builder, mode, source.size):
        return NotImplemented
    dim = wrap(dim, len(self.size))

    def place(at: Index) -> Index:
        return [*at[:dim], position(index, [at[dim]], self.size[dim], "index"), *at[dim + 1 :]]

    def clear(at: Index) -> tuple[Index, Scalar]:
        return place(at), lift(_neutral(mode, self.dtype), self.dtype)

    def write(at: Index) -> tuple[Index, Scalar]:
        return place(at), convert(source.load(at), self.dtype)

    start = self
    if not include_self:
        realize_if_costly(builder, index)
        start = scattered(builder, self, source.size, clear)
    return scattered(builder, start, source.size, write, mode=mode)


def _neutral(mode: str, dtype: torch.dtype) -> Any:
    """What changes nothing that it is combined with."""
    if mode in ("add", "mul"):
        return 0 if mode == "add" else 1
    if dtype.is_floating_point:
        return -math.inf if mode == "max" else math.inf
    return torch.iinfo(dtype).min if mode == "max" else torch.iinfo(dtype).max


@lowering("index_put", "_unsafe_index_put")
def index_put(
    builder: Builder,
    self: TensorValue,
    indices: Sequence[TensorValue | None],
    values: TensorValue,
    accumulate: bool = False,
) -> Any:
    """`self` with values written or added where advanced indexing would read."""
    if _is_mask(indices) and not values.size and not accumulate:
        return _fill_where(builder, self, indices[0], values)
    if not integer_indices(indices):
        return NotImplemented
    moved = [None if value is None else builder.to_device(value, self.device) for value in indices]
    values = builder.to_device(values, self.device)
    mode = "add" if accumulate else None
    if not _can(builder, mode, self, values, *(value for value in moved if value is not None)):
        return NotImplemented
    positions = Positions(builder, self.size, moved)
    size = positions.result_size
    if not _pays(builder, mode, size):
        return NotImplemented
    if len(values.size) > len(size):
        # Leading dimensions of size 1 beyond the indexed shape do not count.
        values = reshaped(builder, values, values.size[len(values.size) - len(size) :])
    values = broadcast(builder, values, size)

    def write(at: Index) -> tuple[Index, Scalar]:
        return positions.source_index(at), convert(values.load(at), self.dtype)

    return scattered(builder, self, size, write, mode=mode)


def _is_mask(indices: Sequence[TensorValue | None]) -> bool:
    return len(indices) == 1 and indices[0] is not None and indices[0].dtype is torch.bool


def _fill_where(builder: Builder, self: TensorValue, mask: Any, value: TensorValue) -> TensorValue:
    """`x[mask] = number`: nothing computed decides where, only whether."""
    trailing = len(self.size) - len(mask.size)
    if trailing:
        one = sympy.Integer(1)
        mask = reshaped(builder, mask, (*mask.size, *(one,) * trailing))
    operands = {"self": self, "mask": mask, "value": value}
    return elementwise(builder, lambda self, mask, value: where(mask, value, self), operands, own=("mask",))


@lowering("index_add")
def index_add(
    builder: Builder, self: TensorValue, dim: int, index: TensorValue, source: TensorValue, *, alpha: Any = 1
) -> Any:
    """`self` with `alpha source` added at positions of a dimension."""
    if not self.size or not index.size or not source.size or not _are_alike(self, source):
        return NotImplemented
    if not _can(builder, "add", self, index, source) or not _pays(builder, "add", source.size):
        return NotImplemented
    dim = wrap(dim, len(self.size))
    rule = "runtime" if alpha == 1 and len(self.size) > 1 else "index"  # which of eager's kernels runs

    def write(at: Index) -> tuple[Index, Scalar]:
        value = convert(source.load(at), self.dtype)
        place = position(index, [at[dim]], self.size[dim], rule)
        return [*at[:dim], place, *at[dim + 1 :]], value if alpha == 1 else value * alpha

    return scattered(builder, self, source.size, write, mode="add")


@lowering("index_copy")
def index_copy(builder: Builder, self: TensorValue, dim: int, index: TensorValue, source: TensorValue) -> Any:
    """`self` with `source` at positions of a dimension."""
    if not self.size or not index.size or len(source.size) != len(self.size):
        return NotImplemented
    if not _are_alike(self, source) or not _can(builder, None, self, index, source):
        return NotImplemented
    dim = wrap(dim, len(self.size))

    def write(at: Index) -> tuple[Index, Scalar]:
        place = position(index, [at[dim]], self.size[dim], "index")
        return [*at[:dim], place, *at[dim + 1 :]], convert(source.load(at), self.dtype)

    return scattered(builder, self, source.size, write)
