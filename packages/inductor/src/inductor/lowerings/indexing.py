"""Reads at computed places (embedding, gather, index), and rearrangements: cat, pad, flip, roll."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch

from inductor.ir.body import checks_positions
from inductor.ir.builder import Builder
from inductor.ir.indexing import ZERO, Index, is_empty, product
from inductor.ir.loops import outer_symbol
from inductor.ir.operations import Expr
from inductor.ir.program import Buffer
from inductor.ir.scalar import Scalar, checked, convert, index_value, indirect, masked, prim, where
from inductor.ir.tensor import Cost, TensorValue
from inductor.ir.views import Reindex
from inductor.lowerings.creation import lift_exactly
from inductor.lowerings.registry import broadcast, is_wanted_in_memory, lowering, realize_if_costly
from inductor.lowerings.views import wrap
from inductor.ops import install
from symshapes import Mod

MANY_PARTS = 4
"""Beyond so many parts a cat is written part by part: each element would ask for its part."""
ASKING = 9
"""Operations of finding out whether an element is a part's, and of reading it."""
MUCH_TO_ASK = 160
"""Operations, for as many ranges as there are parts, beyond which a backend no longer cuts the loop into ranges where only one part is
asked: beyond so many each part is written by itself, too."""
MANY_KERNELS = 8
"""A cat whose parts would take more kernels than this is ATen's: one call copies them all."""
PARTS_AT_ONCE = 24
"""Of a cat, written by one kernel: each is a buffer that it reads."""
FEW_READ = 8
"""A value of which one element in so many is read, or fewer, is not put in memory for that."""
CHEAP_TO_READ = 24
"""Operations of an element that is computed where it is read."""


def like_node(
    builder: Builder,
    compute: Callable[[Index], Scalar],
    *read: TensorValue,
    operations: int = 1,
    looks_up: bool = False,
) -> TensorValue:
    """A pending tensor like the node's fake value, whose elements read `read`; `looks_up`: at positions read from data."""
    out = builder.meta()
    size = builder.sizes(out.size())
    cost = sum((value.cost for value in read), start=Cost(operations))
    if looks_up and not is_empty(size) and _checks(builder, compute, size):
        cost += Cost(checks=True)
    return builder.pointwise(
        out.device,
        out.dtype,
        size,
        lambda index: convert(compute(index), out.dtype),
        cost,
    )


def _checks(builder: Builder, compute: Callable[[Index], Scalar], size: Sequence[Expr]) -> bool:
    """Whether an element's position has to be checked, as a trial tells: a range of numbers may be known to fit."""
    index = [outer_symbol(at) for at in range(len(size))]
    recorder = builder.recorder(dict(zip(index, size, strict=True)))
    with install(recorder):
        compute(index)
    return checks_positions(recorder.recorded)


def position(value: TensorValue, index: Index, size: Expr, rule: str) -> Expr:
    """The element of an index tensor as a place in a dimension of `size`; `rule` names an `ops.IndexRule`."""
    return indirect(convert(value.load(index), torch.int64), size, rule)


# Reads at computed places


@lowering("embedding")
def embedding(builder: Builder, weight: TensorValue, indices: TensorValue, *_: Any, **__: Any) -> Any:
    """Rows of the weight, by index; (..., columns)."""
    if is_empty(weight.size):
        return NotImplemented  # ATen raises eager's error for it
    realize_if_costly(builder, weight)
    realize_if_costly(builder, indices)

    def compute(index: Index) -> Scalar:
        place = position(indices, index[:-1], weight.size[0], "index")
        return checked(weight.load([place, index[-1]]), place)

    return like_node(builder, compute, weight, indices, looks_up=True)


def _realize_unless_few(builder: Builder, value: TensorValue) -> None:
    """Before some elements are read: put in memory what is costly, but for a small part of the elements, which are computed where
    they are read (of a softmax over a vocabulary the one of each target)."""
    few = builder.hint(product(builder.sizes(builder.meta().size()))) * FEW_READ <= builder.hint(product(value.size))
    if not few or value.cost.checks or value.cost.operations > CHEAP_TO_READ:
        realize_if_costly(builder, value)


@lowering("index_select")
def index_select(builder: Builder, self: TensorValue, dim: int, index: TensorValue) -> Any:
    """Positions of one dimension, by a vector of indices."""
    if not self.size:
        return NotImplemented
    dim = wrap(dim, len(self.size))
    _realize_unless_few(builder, self)
    realize_if_costly(builder, index)
    rule = "runtime" if dim == 1 else "index"  # eager has a kernel of its own for dimension 1

    def compute(at: Index) -> Scalar:
        place = position(index, [at[dim]] if index.size else [], self.size[dim], rule)
        return checked(self.load([*at[:dim], place, *at[dim + 1 :]]), place)

    return like_node(builder, compute, self, index, looks_up=True)


@lowering("gather")
def gather(builder: Builder, self: TensorValue, dim: int, index: TensorValue, *, sparse_grad: bool = False) -> Any:
    """For each element of `index` the one at that place of a dimension."""
    if not self.size or not index.size:
        return NotImplemented
    dim = wrap(dim, len(self.size))
    _realize_unless_few(builder, self)

    def compute(at: Index) -> Scalar:
        place = position(index, at, self.size[dim], "runtime")
        return checked(self.load([*at[:dim], place, *at[dim + 1 :]]), place)

    return like_node(builder, compute, self, index, looks_up=True)


class Positions:
    """Advanced indexing: which dimensions of a tensor the index tensors address and where the result has theirs."""

    def __init__(self, builder: Builder, size: Sequence[Expr], indices: Sequence[TensorValue | None]) -> None:
        self.size = size
        self.dims = [d for d, value in enumerate(indices) if value is not None]
        given = [value for value in indices if value is not None]
        rank = max(len(value.size) for value in given)
        shape: list[Expr] = []
        for back in range(rank, 0, -1):
            sizes = [value.size[-back] for value in given if len(value.size) >= back]
            shape.append(next((s for s in sizes if s != 1), sizes[0]))
        self.shape = tuple(shape)
        self.values = [broadcast(builder, value, self.shape) for value in given]
        adjacent = self.dims == list(range(self.dims[0], self.dims[-1] + 1))
        self.first = self.dims[0] if adjacent else 0
        """Where the dimensions of the index tensors are in the result."""

    @property
    def kept(self) -> list[int]:
        """The dimensions that are not addressed."""
        return [d for d in range(len(self.size)) if d not in self.dims]

    @property
    def result_size(self) -> tuple[Expr, ...]:
        """The size of what is read: `shape` in the place of the addressed dimensions."""
        rest = [self.size[d] for d in self.kept]
        return (*rest[: self.first], *self.shape, *rest[self.first :])

    def source_index(self, index: Index) -> list[Expr]:
        """The place in the indexed tensor of the result's element at `index`."""
        rank = len(self.shape)
        along = index[self.first : self.first + rank]
        rest = [*index[: self.first], *index[self.first + rank :]]
        result: list[Expr] = [ZERO] * len(self.size)
        for dim, place in zip(self.kept, rest, strict=True):
            result[dim] = place
        for dim, value in zip(self.dims, self.values, strict=True):
            result[dim] = position(value, along, self.size[dim], "wrap")
        return result


def integer_indices(indices: Sequence[Any]) -> bool:
    """Whether loops can take the index tensors: integers, on one device with what they index."""
    given = [value for value in indices if value is not None]
    return bool(given) and all(value.dtype in (torch.int32, torch.int64) for value in given)


@lowering("index.Tensor", "_unsafe_index.Tensor")
def index_tensor(builder: Builder, self: TensorValue, indices: Sequence[TensorValue | None]) -> Any:
    """Advanced indexing by integers, which may count from the end. Not by masks."""
    if not integer_indices(indices) or is_empty(self.size):
        return NotImplemented
    moved = [None if value is None else builder.to_device(value, self.device) for value in indices]
    _realize_unless_few(builder, self)
    for value in moved:
        if value is not None:
            realize_if_costly(builder, value)
    positions = Positions(builder, self.size, moved)

    def compute(index: Index) -> Scalar:
        places = positions.source_index(index)
        value = self.load(places)
        for dim in positions.dims:
            value = checked(value, places[dim])
        return value

    return like_node(builder, compute, self, *positions.values, looks_up=True)


# Joining and cutting


@lowering("cat")
def cat(builder: Builder, tensors: Sequence[TensorValue], dim: int = 0) -> Any:
    """Tensors joined along a dimension."""
    out = builder.meta()
    dim = wrap(dim, out.dim())
    parts = [part for part in tensors if not is_empty(part.size)]
    if not parts or any(part.device != out.device for part in parts):
        return NotImplemented
    if len(parts) > 1 and (len(parts) > MANY_PARTS or _asks_much(parts) or _is_made_at_once(builder, parts)):
        return _cat_by_parts(builder, parts, dim)
    ends: list[Expr] = []
    total: Expr = ZERO
    for part in parts:
        total = total + part.size[dim]
        ends.append(total)

    def compute(index: Index) -> Scalar:
        at = index_value(index[dim])
        result: Scalar | None = None
        for number in reversed(range(len(parts))):
            part, start = parts[number], ends[number - 1] if number else ZERO
            place = [*index[:dim], index[dim] - start, *index[dim + 1 :]]

            def element(part: TensorValue = part, place: Index = place) -> Scalar:
                return convert(part.load(place), out.dtype)

            if len(parts) == 1:
                return element()
            before = prim.lt(at, _end(ends[number]))
            after = prim.ge(at, _end(start))
            inside = after if number == len(parts) - 1 else before if number == 0 else before & after
            value = masked(inside, element, 0)
            result = value if result is None else where(before, value, result)
        assert result is not None
        return result

    return like_node(builder, compute, *parts, operations=2 * len(parts))


def _is_made_at_once(builder: Builder, parts: Sequence[TensorValue]) -> bool:
    """Whether one kernel makes all parts, of one size, and nobody is to make them again: what they share is made once."""
    assert builder.node is not None
    return len({part.size for part in parts}) == 1 and is_wanted_in_memory(builder.node)


def _asks_much(parts: Sequence[TensorValue]) -> bool:
    return len(parts) * sum(part.cost.operations + ASKING for part in parts) > MUCH_TO_ASK


def _cat_by_parts(builder: Builder, parts: Sequence[TensorValue], dim: int) -> Any:
    """Each part written where it belongs: parts of one size by one kernel, which is also the one that makes them."""
    out = builder.meta()
    alike: dict[tuple[Expr, ...], list[tuple[TensorValue, Expr]]] = {}
    start: Expr = ZERO
    for part in parts:
        alike.setdefault(part.size, []).append((part, start))
        start = start + part.size[dim]
    kernels = [group[at : at + PARTS_AT_ONCE] for group in alike.values() for at in range(0, len(group), PARTS_AT_ONCE)]
    if len(kernels) > MANY_KERNELS:
        return NotImplemented
    result = builder.uninitialised(out.device, out.dtype, builder.sizes(out.size()), builder.sizes(out.stride()))
    for kernel in kernels:
        earlier = result.source.buffer
        assert earlier is not None
        buffer = builder.new_buffer(out.device, out.dtype, earlier.size, earlier.stride)

        def write(index: list[Expr], _: list[Expr], kernel: Any = kernel, buffer: Buffer = buffer) -> None:
            for part, start in kernel:
                place = [*index[:dim], index[dim] + start, *index[dim + 1 :]]
                builder.store(buffer, place, convert(part.load(index), out.dtype))

        builder.loop(
            write,
            writes=(buffer,),
            outer=kernel[0][0].size,
            order=builder.order(buffer.stride),
            initial=((buffer.name, earlier.name),),
        )
        result = builder.in_memory(buffer)
    return result


def _end(expr: Expr) -> Any:
    return int(expr) if expr.is_Integer else index_value(expr)


@lowering("constant_pad_nd")
def constant_pad_nd(builder: Builder, self: TensorValue, pad: Sequence[Any], value: Any = 0) -> Any:
    """A border of one number around the last dimensions; negative widths cut."""
    if not isinstance(value, int | float):
        return NotImplemented
    rank = len(self.size)
    before: list[Expr] = [ZERO] * rank
    after: list[Expr] = [ZERO] * rank
    for k in range(len(pad) // 2):
        before[rank - 1 - k] = sympy.sympify(pad[2 * k])
        after[rank - 1 - k] = sympy.sympify(pad[2 * k + 1])
    if any(not p.is_nonnegative for p in (*before, *after)):
        realize_if_costly(builder, self)
    if is_empty(self.size):
        return like_node(builder, lambda index: lift_exactly(value, self.dtype), operations=0)

    def compute(index: Index) -> Scalar:
        place = [i - b for i, b in zip(index, before, strict=True)]
        inside: Scalar | None = None
        for dim in range(rank):
            # A negative pad cuts: nothing outside can be asked for on that side.
            for pads, test, bound in ((before, prim.ge, ZERO), (after, prim.lt, self.size[dim])):
                if pads[dim] == 0 or (pads[dim].is_Integer and pads[dim] < 0):
                    continue
                condition = test(index_value(place[dim]), _end(bound))
                inside = condition if inside is None else inside & condition
        if inside is None:
            return self.load(place)
        return masked(inside, lambda: self.load(place), value)

    return like_node(builder, compute, self, operations=2)


# Rearrangements


@lowering("flip")
def flip(builder: Builder, self: TensorValue, dims: Sequence[int]) -> TensorValue:
    """Dimensions read backwards."""
    turned = {wrap(d, len(self.size)) for d in dims}

    def source(index: Sequence[Expr]) -> Sequence[Expr]:
        return [self.size[d] - 1 - i if d in turned else i for d, i in enumerate(index)]

    return builder.copy(self.view(Reindex(self.size, source)))


@lowering("roll")
def roll(builder: Builder, self: TensorValue, shifts: Any, dims: Any = ()) -> Any:
    """Dimensions shifted, what leaves at one end coming in at the other."""
    shifts = [shifts] if not isinstance(shifts, tuple | list) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims)
    if not dims or not self.size or is_empty(self.size):
        return NotImplemented
    realize_if_costly(builder, self)
    moved: dict[int, Any] = {}
    for shift, dim in zip(shifts, dims, strict=True):
        dim = wrap(dim, len(self.size))
        moved[dim] = moved.get(dim, 0) + shift

    def source(index: Sequence[Expr]) -> Sequence[Expr]:
        result = list(index)
        for dim, shift in moved.items():
            size = self.size[dim]
            # Shifted forward by the whole size, so that the dividend is never negative.
            back = Mod(-sympy.sympify(shift), size)
            result[dim] = Mod(index[dim] + back, size)
        return result

    return builder.copy(self.view(Reindex(self.size, source)))
