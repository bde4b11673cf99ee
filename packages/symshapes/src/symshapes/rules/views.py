"""View ops: results that share the input's storage."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from symshapes.expr.symbols import is_unbacked
from symshapes.facts import complex_dtype, real_dtype
from symshapes.rules.layout import (
    CONJ,
    NEG,
    Size,
    Sizes,
    TensorMeta,
    View,
    contiguous_strides,
    demand,
    demand_repeating,
    fresh,
    given,
    is_contiguous,
    numel,
    same_shape,
    strides_for,
    sure,
    turns_on_one,
    view_of,
    wrap_dim,
    wrap_dims,
)
from symshapes.rules.registry import DataDependentError, rule


def infer_size(shape: Sequence[Size], count: Size) -> Sizes:
    """Replace the one -1 of `shape`. Raises RuntimeError as eager does where the elements do not fit."""
    known: Size = 1
    hole: int | None = None
    for dim, length in enumerate(shape):
        if type(length) is int and length == -1:
            if hole is not None:
                raise RuntimeError("only one dimension can be inferred")
            hole = dim
        elif type(length) is int and length < 0:
            raise RuntimeError(f"invalid shape dimension {length}")
        else:
            known = known * length
    bad = f"shape '{list(shape)}' is invalid for input of size {count}"
    if hole is None:
        doubtful = [dim for dim, length in enumerate(shape) if _may_be_negative(length)]
        if doubtful:
            return _told_or_inferred(shape, count, doubtful, bad)
        demand(known == count, lambda: RuntimeError(bad))
        return tuple(shape)
    demand(
        known != 0,
        lambda: RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension size "
            "-1 can be any value and is ambiguous"
        ),
    )
    demand(count % known == 0, lambda: RuntimeError(bad))
    return (*shape[:hole], count // known, *shape[hole + 1 :])


def _may_be_negative(length: Size) -> bool:
    """Whether only the run can tell that a length is one, and not -1, which stands for what is left."""
    return is_unbacked(length) and not length.node.env.statically_known(length.node.expr >= 0)


def _told_or_inferred(shape: Sequence[Size], count: Size, doubtful: Sequence[int], bad: str) -> Sizes:
    """`shape` with the length in it that may be -1 as what is left by the others: it is one or the other, which is checked."""
    (at, *others), rest = doubtful, numel([length for dim, length in enumerate(shape) if dim not in doubtful])
    told = type(rest) is int or rest.node.env.statically_known(rest.node.expr >= 1)
    if others or not told or (type(rest) is int and rest < 1):
        raise DataDependentError(torch.ops.aten.view.default)
    demand(count % rest == 0, lambda: RuntimeError(bad))
    left = count // rest
    demand((shape[at] == left) | (shape[at] == -1), lambda: RuntimeError(bad))
    return (*shape[:at], left, *shape[at + 1 :])


def view_strides(size: Sizes, stride: Sizes, target: Sizes) -> Sizes | None:
    """Strides that show the elements as `target` without a copy, or None if there are none."""
    count = numel(size)
    if sure(count == 0):
        # With the same sizes the strides stay; otherwise row-major ones.
        return stride if same_shape(size, target) else contiguous_strides(target)
    if is_contiguous(size, stride) and (type(count) is not int or any(map(is_unbacked, target))):
        return contiguous_strides(target)
    if not size:
        return contiguous_strides(target)
    return _strides_by(sure, size, stride, target)


def view_may_be(size: Sizes, stride: Sizes, target: Sizes) -> bool:
    """Where `view_strides` has found none: whether there are at sizes of 1, or at those that only the run can tell."""
    doubts: list[Any] = []

    def ask(condition: Any) -> bool:
        if isinstance(condition, torch.SymBool) and (not condition.node.has_hint() or turns_on_one(condition)):
            known = condition.node.env.statically_known(condition.node.expr)
            if known is None:
                doubts.append(condition)
            return bool(known)
        return bool(condition)

    try:
        return _strides_by(ask, size, stride, target) is not None or bool(doubts)
    except DataDependentError:
        return True


def _strides_by(holds: Callable[[Any], bool], size: Sizes, stride: Sizes, target: Sizes) -> Sizes | None:
    """`view_strides` of elements that there are and that may lie in several chunks, by answers of `holds`."""
    out: list[Size] = [0] * len(target)
    at = len(target) - 1
    base = stride[-1]
    inner: Size = 1  # elements of the current chunk of dimensions that lie one behind the other
    filled: Size = 1
    for dim in range(len(size) - 1, -1, -1):
        inner = inner * size[dim]
        if dim == 0 or not (holds(stride[dim - 1] == inner * base) or holds(size[dim - 1] == 1)):
            while at >= 0 and (_is_short(holds, filled, inner) or holds(target[at] == 1)):
                out[at] = filled * base
                filled = filled * target[at]
                at -= 1
            if not holds(filled == inner):
                if any(map(is_unbacked, (*size, *stride, *target))):
                    # What this would be a view of by one size it might have to copy by another.
                    raise DataDependentError(torch.ops.aten.view.default)
                return None
            if dim > 0:
                base = stride[dim - 1]
                inner = 1
                filled = 1
    return tuple(out) if at == -1 else None


def _is_short(holds: Callable[[Any], bool], filled: Size, inner: Size) -> bool:
    """Whether a chunk of the target has fewer elements than that of the tensor."""
    shorter = filled < inner
    known = not isinstance(shorter, torch.SymBool) or (shorter.node.has_hint() and not turns_on_one(shorter))
    return bool(shorter) if known else not holds(filled == inner)


@rule("view")
def view(self: TensorMeta, size: Sequence[Size]) -> View:
    """The same elements in another shape. Raises RuntimeError where that needs a copy."""
    target = infer_size(size, numel(self.size))
    stride = view_strides(self.size, self.stride, target)
    if stride is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return view_of(self, target, stride)


@rule("_unsafe_view")
def unsafe_view(self: TensorMeta, size: Sequence[Size]) -> View:
    """`view` of a tensor nobody else sees: no alias for autograd, the same storage all the same."""
    return view(self, size)


@rule("reshape")
def reshape(self: TensorMeta, shape: Sequence[Size]) -> View | TensorMeta:
    """A view where possible, else a contiguous copy."""
    target = infer_size(shape, numel(self.size))
    stride = view_strides(self.size, self.stride, target)
    return fresh(target, self) if stride is None else view_of(self, target, stride)


@rule("_reshape_copy")
def reshape_copy(self: TensorMeta, size: Sequence[Size]) -> TensorMeta:
    """Always a contiguous copy."""
    return fresh(infer_size(size, numel(self.size)), self)


@rule("_reshape_alias")
def reshape_alias(self: TensorMeta, size: Sequence[Size], stride: Sequence[Size]) -> View:
    """A view with strides the caller worked out."""
    return view_of(self, size, stride)


@rule("as_strided")
def as_strided(
    self: TensorMeta, size: Sequence[Size], stride: Sequence[Size], storage_offset: Size | None = None
) -> View:
    """A view with any geometry; the offset counts from the storage's start."""
    return view_of(self, size, stride, storage_offset)


@rule("alias", "detach", "lift_fresh", "_lazy_clone", "view_as")
def alias(self: TensorMeta) -> View:
    """The whole tensor again."""
    return view_of(self, self.size, self.stride)


@rule("lift")
def lift(self: TensorMeta) -> View:
    """The whole tensor again."""
    return view_of(self, self.size, self.stride)


@rule("view.dtype")
def view_dtype(self: TensorMeta, dtype: torch.dtype) -> View:
    """Reinterpret the bytes; the last dimension grows or shrinks with the item size."""
    old, new = self.dtype.itemsize, dtype.itemsize
    size, stride, offset = self.size, self.stride, self.offset
    if old > new:
        ratio = old // new
        size = (*size[:-1], size[-1] * ratio)
        stride = (*(step * ratio for step in stride[:-1]), 1)
        offset = offset * ratio
    elif old < new:
        ratio = new // old
        if size[-1] % ratio or offset % ratio or any(step % ratio for step in stride[:-1]):
            raise RuntimeError(f"self cannot be viewed as {dtype}: sizes, strides or offset do not divide by {ratio}")
        size = (*size[:-1], size[-1] // ratio)
        stride = (*(step // ratio for step in stride[:-1]), 1)
        offset = offset // ratio
    return View(size, stride, dtype, self.device, offset, self.flags)


@rule("t")
def t(self: TensorMeta) -> View:
    """Swap the two dimensions of a matrix."""
    if len(self.size) > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {len(self.size)}D")
    return view_of(self, self.size[::-1], self.stride[::-1])


@rule("transpose.int")
def transpose(self: TensorMeta, dim0: int, dim1: int) -> View:
    """Swap two dimensions."""
    rank = len(self.size)
    first, second = wrap_dim(dim0, rank), wrap_dim(dim1, rank)
    order = list(range(rank))
    if rank:
        order[first], order[second] = order[second], order[first]
    return permute(self, order)


@rule("permute")
def permute(self: TensorMeta, dims: Sequence[int]) -> View:
    """Reorder the dimensions."""
    rank = len(self.size)
    if len(dims) != rank:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {len(dims)}"
        )
    order = [wrap_dim(dim, rank) for dim in dims]
    if len(set(order)) != rank:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return view_of(self, [self.size[dim] for dim in order], [self.stride[dim] for dim in order])


@rule("expand")
def expand(self: TensorMeta, size: Sequence[Size], *, implicit: bool = False) -> View:
    """Repeat dimensions of length 1 without copying; -1 keeps a length."""
    lead = len(size) - len(self.size)
    if lead < 0:
        raise RuntimeError(
            f"expand: the number of sizes provided ({len(size)}) must be greater or equal to the number of dimensions "
            f"in the tensor ({len(self.size)})"
        )
    sizes: list[Size] = []
    strides: list[Size] = [0] * len(size)
    if not self.size:
        for dim, wanted in enumerate(size):
            if type(wanted) is int and wanted == -1:
                raise _not_there(wanted, 0)()
            if _may_be_negative(wanted):
                demand(wanted >= 0, _not_there(wanted, dim))
        return view_of(self, size, strides)
    for dim in range(len(size) - 1, -1, -1):
        wanted = size[dim]
        mine = dim - lead
        keep = type(wanted) is int and wanted == -1
        if mine < 0:
            if keep:
                raise _not_there(wanted, dim)()
            if _may_be_negative(wanted):
                demand(wanted >= 0, _not_there(wanted, dim))
            sizes.append(wanted)
            # What eager computes for a dimension that is not there; it shows where the length is 1.
            strides[dim] = 0 if not sure(wanted == 1) else sizes[-2] * strides[dim + 1]
            continue
        have = self.size[mine]
        if is_unbacked(wanted) and not is_unbacked(have):
            # Of 1 element or of as many as there are, the stride is as in eager.
            unlike = _unlike(wanted, have, dim, size, self.size)
            if have != 1:
                kept = _may_be_negative(wanted)
                demand((wanted == have) | (wanted == -1) if kept else wanted == have, unlike)
                wanted = have
            elif _may_be_negative(wanted):
                wanted = _told_or_one(wanted, unlike)
        if keep or have is wanted or sure(have == wanted):
            sizes.append(have)
            strides[dim] = self.stride[mine]
        elif is_unbacked(have) and sure(wanted > 1):
            # Repeated if there is 1, of which the stride is then 0.
            demand_repeating(have, wanted, _unlike(wanted, have, dim, size, self.size))
            sizes.append(wanted)
            strides[dim] = self.stride[mine] * torch.sym_min(1, have - 1)
        elif have == 1:
            sizes.append(wanted)
        else:
            raise _unlike(wanted, have, dim, size, self.size)()
    return view_of(self, sizes[::-1], strides)


def _told_or_one(wanted: Size, error: Callable[[], Exception]) -> Size:
    """The length that one element is repeated to, where it may be -1, which keeps it: its amount, of either."""
    demand(wanted >= -1, error)
    length = abs(wanted)
    given((length == wanted) | (wanted == -1))
    return length


def _not_there(wanted: Size, dim: int) -> Callable[[], Exception]:
    return lambda: RuntimeError(
        f"The expanded size of the tensor ({wanted}) isn't allowed in a leading, non-existing dimension {dim}"
    )


def _unlike(
    wanted: Size, have: Size, dim: int, target: Sequence[Size], size: Sequence[Size]
) -> Callable[[], Exception]:
    return lambda: RuntimeError(
        f"The expanded size of the tensor ({wanted}) must match the existing size ({have}) at non-singleton "
        f"dimension {dim}.  Target sizes: {list(target)}.  Tensor sizes: {list(size)}"
    )


def _without(values: Sizes, dims: Sequence[int]) -> list[Size]:
    return [value for dim, value in enumerate(values) if dim not in dims]


@rule("select.int")
def select(self: TensorMeta, dim: int, index: Size) -> View:
    """One position of a dimension, which goes."""
    if not self.size:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, len(self.size))
    length = self.size[dim]
    for within in (index < length, index >= -length):
        demand(
            within,
            lambda: IndexError(
                f"select(): index {index} out of range for tensor of size {list(self.size)} at dimension {dim}"
            ),
        )
    index = _from_front(index, length)
    offset = self.offset + index * self.stride[dim]
    return view_of(self, _without(self.size, [dim]), _without(self.stride, [dim]), offset)


def _from_front(place: Size, length: Size) -> Size:
    """A place, or one counted from the end if it is negative, counted from the front."""
    if not is_unbacked(place):
        return place + length if place < 0 else place
    return place + length * torch.sym_max(0, torch.sym_min(1, -place))


def clamp_slice(length: Size, start: Size | None, end: Size | None) -> tuple[Size, Size]:
    """Start and end counted from the front and cut to the dimension."""
    start = 0 if start is None else start
    end = length if end is None or (type(end) is int and end >= 2**63 - 1) else end
    if any(map(is_unbacked, (length, start, end))):
        start = torch.sym_min(torch.sym_max(_from_front(start, length), 0), length)
        end = end if end is length else torch.sym_max(torch.sym_min(_from_front(end, length), length), start)
        given(end >= start)
        given(end <= length)
        return start, end
    if start < 0:
        start = start + length
        start = 0 if start < 0 else start
    elif type(start) is not int or start > 0:
        start = length if start > length else start
    if end is not length:
        if end < 0:
            end = end + length
        if end < start:
            end = start
        elif end > length:
            end = length
    return start, end


@rule("slice.Tensor")
def slice_(self: TensorMeta, dim: int = 0, start: Size | None = None, end: Size | None = None, step: Size = 1) -> View:
    """Every `step`-th position of a range of a dimension."""
    if not self.size:
        raise RuntimeError("slice() cannot be applied to a 0-dim tensor.")
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    dim = wrap_dim(dim, len(self.size))
    start, end = clamp_slice(self.size[dim], start, end)
    size, stride = list(self.size), list(self.stride)
    offset = self.offset + start * stride[dim]
    size[dim] = end - start if type(step) is int and step == 1 else (end - start + step - 1) // step
    stride[dim] = stride[dim] * step
    return view_of(self, size, stride, offset)


@rule("narrow")
def narrow(self: TensorMeta, dim: int, start: Size, length: Size) -> View:
    """A range of a dimension."""
    if start < 0:
        start = start + self.size[wrap_dim(dim, len(self.size))]
    return slice_(self, dim, start, start + length)


@rule("squeeze")
def squeeze(self: TensorMeta) -> View:
    """Drop every dimension of length 1."""
    return squeeze_dims(self, range(len(self.size)))


@rule("squeeze.dim")
def squeeze_dim(self: TensorMeta, dim: int) -> View:
    """Drop a dimension if its length is 1."""
    return squeeze_dims(self, [dim])


@rule("squeeze.dims")
def squeeze_dims(self: TensorMeta, dim: Sequence[int]) -> View:
    """Drop those of the dimensions whose length is 1."""
    gone = [d for d in (wrap_dims(list(dim), len(self.size)) if dim else ()) if self.size[d] == 1]
    return view_of(self, _without(self.size, gone), _without(self.stride, gone))


@rule("unsqueeze")
def unsqueeze(self: TensorMeta, dim: int) -> View:
    """A new dimension of length 1."""
    rank = len(self.size)
    dim = wrap_dim(dim, rank + 1)
    step = self.size[dim] * self.stride[dim] if dim < rank else 1
    return view_of(self, (*self.size[:dim], 1, *self.size[dim:]), (*self.stride[:dim], step, *self.stride[dim:]))


@rule("unfold")
def unfold(self: TensorMeta, dimension: int, size: Size, step: Size) -> View:
    """Windows over a dimension, as a new last dimension."""
    rank = len(self.size)
    dim = wrap_dim(dimension, rank)
    length = self.size[dim] if rank else 1
    if size > length:
        raise RuntimeError(f"maximum size for tensor at dimension {dim} is {length} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    sizes, strides = list(self.size), list(self.stride)
    inner = strides[dim] if rank else 1
    if rank:
        sizes[dim] = (length - size) // step + 1
        strides[dim] = step * inner
    return view_of(self, [*sizes, size], [*strides, inner])


@rule("diagonal")
def diagonal(self: TensorMeta, offset: int = 0, dim1: int = 0, dim2: int = 1) -> View:
    """The diagonal of two dimensions, as a new last dimension."""
    rank = len(self.size)
    first, second = wrap_dim(dim1, rank), wrap_dim(dim2, rank)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rows, columns = self.size[first], self.size[second]
    length = min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns)
    length = max(length, 0)
    start = self.offset
    if length != 0:
        start = start + (offset * self.stride[second] if offset >= 0 else -offset * self.stride[first])
    gone = [first, second]
    return view_of(
        self,
        [*_without(self.size, gone), length],
        [*_without(self.stride, gone), self.stride[first] + self.stride[second]],
        start,
    )


@rule("split.Tensor")
def split(self: TensorMeta, split_size: Size, dim: int = 0) -> list[View]:
    """Pieces of equal length; the last may be shorter."""
    dim = wrap_dim(dim, len(self.size))
    length = self.size[dim]
    if split_size == 0:
        if length != 0:
            raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {length}")
        return [view_of(self, self.size, self.stride)]
    # The number of results is a fact of the program: a symbolic count is guarded to its value here.
    pieces = max(int((length + split_size - 1) // split_size), 1)
    return [
        slice_(self, dim, at * split_size, length if at == pieces - 1 else (at + 1) * split_size)
        for at in range(pieces)
    ]


@rule("split_with_sizes")
def split_with_sizes(self: TensorMeta, split_sizes: Sequence[Size], dim: int = 0) -> list[View]:
    """Pieces of the given lengths."""
    dim = wrap_dim(dim, len(self.size))
    for length in split_sizes:
        demand(
            length >= 0,
            lambda: RuntimeError(
                f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={list(split_sizes)}"
            ),
        )
    demand(
        sum(split_sizes) == self.size[dim],
        lambda: RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {self.size[dim]} "
            f"(input tensor's size at dimension {dim}), but got split_sizes={list(split_sizes)}"
        ),
    )
    pieces: list[View] = []
    start: Size = 0
    for length in split_sizes:
        given(start + length <= self.size[dim])
        size = (*self.size[:dim], length, *self.size[dim + 1 :])
        pieces.append(view_of(self, size, self.stride, self.offset + start * self.stride[dim]))
        start = start + length
    return pieces


@rule("chunk")
def chunk(self: TensorMeta, chunks: int, dim: int = 0) -> list[View]:
    """At most `chunks` pieces of equal length."""
    dim = wrap_dim(dim, len(self.size))
    length = self.size[dim]
    each = (length + chunks - 1) // chunks
    if each == 0 and length == 0:
        return split_with_sizes(self, [0] * chunks, dim)
    return split(self, each, dim)


@rule("unbind.int")
def unbind(self: TensorMeta, dim: int = 0) -> list[View]:
    """One view for each position of a dimension (a symbolic length is guarded to its value)."""
    dim = wrap_dim(dim, len(self.size))
    return [select(self, dim, index) for index in range(int(self.size[dim]))]


@rule("resize")
def resize(self: TensorMeta, size: Sequence[Size], *, memory_format: torch.memory_format | None = None) -> View:
    """What `resize_` makes of a tensor: the same storage, row-major unless the size stays."""
    if same_shape(size, self.size) and memory_format is None:
        return view_of(self, self.size, self.stride)
    return view_of(self, size, strides_for(size, memory_format or torch.contiguous_format))


@rule("set.source_Tensor")
def set_source(self: TensorMeta, source: TensorMeta) -> View:
    """What `set_` makes of a tensor: its second argument."""
    return view_of(source, source.size, source.stride, base=1)


@rule("view_as_real")
def view_as_real(self: TensorMeta) -> View:
    """The parts of complex numbers, as a new last dimension of length 2."""
    return View(
        (*self.size, 2),
        (*(step * 2 for step in self.stride), 1),
        real_dtype(self.dtype),
        self.device,
        self.offset * 2,
        self.flags & ~CONJ,
    )


@rule("view_as_complex")
def view_as_complex(self: TensorMeta) -> View:
    """Pairs in the last dimension as complex numbers."""
    if not self.size or self.size[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if self.stride[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(step % 2 != 0 for step in self.stride[:-1]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    if self.offset % 2 != 0:
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    return View(
        self.size[:-1],
        tuple(step // 2 for step in self.stride[:-1]),
        complex_dtype(self.dtype),
        self.device,
        self.offset // 2,
        self.flags,
    )


@rule("_conj")
def conj(self: TensorMeta) -> View:
    """The tensor with its conjugate bit flipped."""
    return View(self.size, self.stride, self.dtype, self.device, self.offset, self.flags ^ CONJ)


@rule("_neg_view")
def neg_view(self: TensorMeta) -> View:
    """The tensor with its negative bit flipped."""
    return View(self.size, self.stride, self.dtype, self.device, self.offset, self.flags ^ NEG)
