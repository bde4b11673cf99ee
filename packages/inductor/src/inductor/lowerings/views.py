"""Views: the same elements seen under another size; nothing is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy

from inductor.ir.builder import Builder
from inductor.ir.indexing import is_empty
from inductor.ir.operations import Expr
from inductor.ir.tensor import TensorValue
from inductor.ir.views import AsStrided, Diagonal, Dims, Reshape, Select, Slice, Unfold
from inductor.lowerings.registry import broadcast, view


def wrap(dim: int, rank: int) -> int:
    """A dimension counted from the end made positive; rank 0 counts as 1."""
    return dim + max(rank, 1) if dim < 0 else dim


def out_size(builder: Builder) -> tuple[Expr, ...]:
    """The size of the node's fake value."""
    return builder.sizes(builder.meta().size())


@view("alias", "detach", "lift", "lift_fresh", "_conj", "resolve_conj")
def identity(builder: Builder, self: TensorValue) -> Any:
    """The tensor itself; of complex numbers, where conjugation is a flag of the view, ATen's call."""
    return self if not self.dtype.is_complex else NotImplemented


@view("view", "_unsafe_view", "reshape", "flatten.using_ints")
def reshape(builder: Builder, self: TensorValue, *args: Any, **kwargs: Any) -> TensorValue:
    """The same elements in row-major order, in the node's size."""
    return reshaped(builder, self, out_size(builder))


def reshaped(builder: Builder, self: TensorValue, size: tuple[Expr, ...]) -> TensorValue:
    """The same elements in row-major order, in another size."""
    if size == self.size:
        return self
    if is_empty(size):
        # Index arithmetic has no meaning without elements.
        return builder.uninitialised(self.device, self.dtype, size, (sympy.Integer(1),) * len(size))
    return self.view(Reshape(size, self.size))


@view("permute")
def permute(builder: Builder, self: TensorValue, dims: Sequence[int]) -> TensorValue:
    """Dimensions in another order."""
    order = tuple(wrap(d, len(dims)) for d in dims)
    return permuted(self, order)


def permuted(self: TensorValue, order: tuple[int, ...]) -> TensorValue:
    """Dimensions in another order, given from the front."""
    return self.view(Dims(tuple(self.size[d] for d in order), order, len(order)))


@view("numpy_T", "mT")
def transpose_last(builder: Builder, self: TensorValue) -> TensorValue:
    """The last two dimensions swapped."""
    order = [*range(len(self.size))]
    return permuted(self, (*order[:-2], *reversed(order[-2:])))


@view("expand")
def expand(builder: Builder, self: TensorValue, size: Sequence[Any], *, implicit: bool = False) -> TensorValue:
    """Dimensions of size 1 repeated."""
    return broadcast(builder, self, out_size(builder))


@view("unsqueeze")
def unsqueeze(builder: Builder, self: TensorValue, dim: int) -> TensorValue:
    """A new dimension of size 1."""
    return unsqueezed(self, wrap(dim, len(self.size) + 1))


def unsqueezed(self: TensorValue, dim: int) -> TensorValue:
    """A new dimension of size 1 at a place counted from the front."""
    rank = len(self.size)
    source: list[int | None] = list(range(rank))
    source.insert(dim, None)
    size = (*self.size[:dim], sympy.Integer(1), *self.size[dim:])
    return self.view(Dims(size, tuple(source), rank))


@view("squeeze", "squeeze.dim", "squeeze.dims")
def squeeze(builder: Builder, self: TensorValue, dim: int | Sequence[int] | None = None) -> TensorValue:
    """Without dimensions of size 1, all or the given ones."""
    rank = len(self.size)
    dims = range(rank) if dim is None else [dim] if isinstance(dim, int) else dim
    dropped = {d for d in (wrap(d, rank) for d in dims) if d < rank and self.size[d] == 1}
    kept = tuple(d for d in range(rank) if d not in dropped)
    return self.view(Dims(tuple(self.size[d] for d in kept), kept, rank))


@view("slice.Tensor")
def slice_(
    builder: Builder,
    self: TensorValue,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: Any = 1,
) -> Any:
    """Part of a dimension. Not where it is not known now whether its start counts from the front."""
    dim = wrap(dim, len(self.size))
    first = clamped(start, self.size[dim])
    return NotImplemented if first is None else sliced(self, dim, first, out_size(builder)[dim], step)


def clamped(start: Any, size: Expr) -> Expr | None:
    """A slice's start as torch clamps it to [0, size]; None where its sign is not known now.

    One that is perhaps behind the end stays as it is: then nothing is sliced, so nothing is read there.
    """
    start = sympy.sympify(0 if start is None else start)
    if start.is_negative:  # from the end, and perhaps from before the front
        return sympy.Max(0, sympy.expand(start + size))
    if not start.is_nonnegative:
        return None
    return size if sympy.expand(size - start).is_negative else start


def from_front(position: Any, size: Expr) -> Expr | None:
    """A position counted from the end made one from the front; None where its sign is not known now."""
    position = sympy.sympify(position)
    if position.is_nonnegative:
        return position
    return sympy.expand(position + size) if position.is_negative else None


def sliced(self: TensorValue, dim: int, start: Any, length: Expr, step: Any = 1) -> TensorValue:
    """`length` positions of a dimension from `start`, a place counted from the front."""
    start, step = sympy.sympify(start), sympy.sympify(step)
    if start == 0 and step == 1 and length == self.size[dim]:
        return self
    size = (*self.size[:dim], length, *self.size[dim + 1 :])
    return self.view(Slice(size, dim, start, step))


@view("select.int")
def select(builder: Builder, self: TensorValue, dim: int, index: Any) -> Any:
    """One position of a dimension. Not where its sign is not known now."""
    dim = wrap(dim, len(self.size))
    at = from_front(index, self.size[dim])
    return NotImplemented if at is None else selected(self, dim, at)


def selected(self: TensorValue, dim: int, at: Expr) -> TensorValue:
    """One position of a dimension, counted from the front."""
    return self.view(Select((*self.size[:dim], *self.size[dim + 1 :]), dim, at))


@view("unbind.int")
def unbind(builder: Builder, self: TensorValue, dim: int = 0) -> tuple[TensorValue, ...]:
    """One view for each position of a dimension."""
    dim = wrap(dim, len(self.size))
    return tuple(selected(self, dim, sympy.Integer(at)) for at in range(len(builder.meta())))


@view("split.Tensor", "split.sizes", "chunk", "unsafe_split.Tensor", "unsafe_split_with_sizes")
def split(builder: Builder, self: TensorValue, sizes: Any = None, dim: int = 0, **_: Any) -> tuple[TensorValue, ...]:
    """Slices of a dimension, as long as those of the node's fake value."""
    dim = wrap(dim, len(self.size))
    parts = []
    start: Expr = sympy.Integer(0)
    for piece in builder.meta():
        length = builder.size(piece.size(dim))
        parts.append(sliced(self, dim, start, length))
        start = start + length
    return tuple(parts)


@view("diagonal")
def diagonal(builder: Builder, self: TensorValue, offset: int = 0, dim1: int = 0, dim2: int = 1) -> TensorValue:
    """The diagonal of two dimensions as the last one."""
    rank = len(self.size)
    shift = (sympy.Integer(max(-offset, 0)), sympy.Integer(max(offset, 0)))
    return self.view(Diagonal(out_size(builder), wrap(dim1, rank), wrap(dim2, rank), shift))


@view("unfold")
def unfold(builder: Builder, self: TensorValue, dimension: int, size: int, step: int) -> Any:
    """Windows over a dimension as the last one."""
    if not self.size:
        return NotImplemented
    return self.view(Unfold(out_size(builder), wrap(dimension, len(self.size)), sympy.sympify(step)))


@view("as_strided")
def as_strided(builder: Builder, self: TensorValue, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    """A window of the value's memory."""
    out = builder.meta()
    if is_empty(self.size) and not is_empty(builder.sizes(out.size())):
        return NotImplemented  # a tensor without elements tells no address, whatever lies in its storage
    return strided_like(builder, self, out)


def strided_like(builder: Builder, self: TensorValue, out: Any) -> TensorValue:
    """The window of the value's memory that the fake tensor `out`, a view of it in eager, describes.

    The source gets eager's strides when realized, so its buffer is laid out as eager's storage from its own offset on."""
    builder.realize(self)
    offset = builder.size(out.storage_offset()) - sympy.sympify(self.source.storage_offset)
    return self.view(AsStrided(builder.sizes(out.size()), builder.sizes(out.stride()), offset))
