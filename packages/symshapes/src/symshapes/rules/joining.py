"""Ops that join, repeat, mirror or pad tensors."""

from collections.abc import Callable, Sequence

import torch

from symshapes.facts import common_device, result_dtype
from symshapes.rules.copies import like, same_geometry
from symshapes.rules.layout import (
    Size,
    TensorMeta,
    demand,
    fresh,
    numel,
    strides_for,
    suggest_format,
    sure,
    wrap_dim,
    wrap_dims,
)
from symshapes.rules.registry import rule
from symshapes.rules.views import narrow, slice_, unsqueeze, view


def _legacy_empty(meta: TensorMeta) -> bool:
    """1-d tensors without elements join anything."""
    return len(meta.size) == 1 and sure(meta.size[0] == 0)


@rule("cat", "concat", "concatenate")
def cat(tensors: Sequence[TensorMeta], dim: int = 0) -> TensorMeta:
    """Tensors one behind the other; the result keeps a format that all inputs share."""
    if not tensors:
        raise RuntimeError("torch.cat(): expected a non-empty list of Tensors")
    dtype = result_dtype(tensors)
    device = common_device(tensors)
    parts = [meta for meta in tensors if not _legacy_empty(meta)]
    if not parts:
        return TensorMeta((0,), (1,), dtype, device)
    rank = len(parts[0].size)
    if rank == 0:
        raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated")
    dim = wrap_dim(dim, rank)
    size = list(parts[0].size)
    for at, part in enumerate(parts[1:], 1):
        if len(part.size) != rank:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {rank} and {len(part.size)}")
        for axis, length in enumerate(part.size):
            if axis != dim:
                demand(
                    length == size[axis],
                    lambda: RuntimeError(
                        f"Sizes of tensors must match except in dimension {dim}. Expected size {size[axis]} but got size "  # noqa: B023
                        f"{length} for tensor number {at} in the list."  # noqa: B023
                    ),
                )
        size[dim] = size[dim] + part.size[dim]
    formats = {suggest_format(meta) for meta in tensors}
    memory_format = formats.pop() if len(formats) == 1 else torch.contiguous_format
    return TensorMeta(tuple(size), strides_for(size, memory_format), dtype, device)


@rule("stack")
def stack(tensors: Sequence[TensorMeta], dim: int = 0) -> TensorMeta:
    """Tensors of one size side by side, along a new dimension."""
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0]
    dim = wrap_dim(dim, len(first.size) + 1)
    for at, meta in enumerate(tensors[1:], 1):
        for length, wanted in zip(meta.size, first.size, strict=False):
            demand(length == wanted, _unlike_entries(first, meta, at))
        if len(meta.size) != len(first.size):
            raise _unlike_entries(first, meta, at)()
    if dim < len(first.size):
        # Joined along the dimension after the new one, which then splits in two.
        joined = cat(tensors, dim)
        size = (*first.size[:dim], len(tensors), *first.size[dim:])
        return joined._replace(size=size, stride=view(joined, size).stride)
    return cat([TensorMeta(*unsqueeze(meta, -1)[:6]) for meta in tensors], dim)


def _unlike_entries(first: TensorMeta, other: TensorMeta, at: int) -> Callable[[], Exception]:
    return lambda: RuntimeError(
        f"stack expects each tensor to be equal size, but got {list(first.size)} at entry 0 and "
        f"{list(other.size)} at entry {at}"
    )


@rule("repeat")
def repeat(self: TensorMeta, repeats: Sequence[Size]) -> TensorMeta:
    """The tensor over and over, along each dimension."""
    if len(repeats) < len(self.size):
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    padded = (1,) * (len(repeats) - len(self.size)) + tuple(self.size)
    return fresh([length * times for length, times in zip(padded, repeats, strict=True)], self)


@rule("flip")
def flip(self: TensorMeta, dims: Sequence[int]) -> TensorMeta:
    """Dimensions backwards, in the input's format."""
    wrap_dims(list(dims), len(self.size)) if dims else None
    return like(self)


@rule("roll")
def roll(self: TensorMeta, shifts: Sequence[Size], dims: Sequence[int] = ()) -> TensorMeta:
    """Elements shifted around. On the CPU the two parts change places in a `cat`, which may keep channels-last."""
    if sure(numel(self.size) == 0):
        return like(self)
    if len(shifts) != len(dims) and (dims or len(shifts) != 1):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    if dims and not self.size:
        raise IndexError(f"Dimension specified as {dims[0]} but tensor has no dimensions")
    dims = [wrap_dim(dim, len(self.size)) for dim in dims]
    if not dims or self.device.type != "cpu" or len(self.size) < 4:
        return fresh(self.size, self)
    for shift, dim in zip(shifts, dims, strict=True):
        length = self.size[dim]
        start = (length - shift) % length
        parts = slice_(self, dim, start), slice_(self, dim, 0, start)
        self = cat([TensorMeta(*part[:6]) for part in parts], dim)
    return self


@rule("rot90")
def rot90(self: TensorMeta, k: int = 1, dims: Sequence[int] = (0, 1)) -> TensorMeta:
    """Quarter turns of a plane."""
    first, second = wrap_dims(list(dims), len(self.size))
    if k % 4 == 0:
        return fresh(self.size, self)
    if k % 2 == 0:
        return like(self)
    size = list(self.size)
    size[first], size[second] = size[second], size[first]
    stride = list(self.stride)
    stride[first], stride[second] = stride[second], stride[first]
    return like(TensorMeta(tuple(size), tuple(stride), self.dtype, self.device))


@rule("constant_pad_nd")
def constant_pad_nd(self: TensorMeta, pad: Sequence[Size], value: object = 0) -> TensorMeta:
    """Pairs of (before, after) from the last dimension on; negative ones cut."""
    if len(pad) % 2 or len(pad) > 2 * len(self.size):
        raise RuntimeError(f"Length of pad should be even and at most twice the rank, got {len(pad)}")
    size = list(self.size)
    for pair in range(len(pad) // 2):
        dim = len(size) - 1 - pair
        size[dim] = size[dim] + pad[2 * pair] + pad[2 * pair + 1]
        demand(
            size[dim] >= 0,
            lambda: RuntimeError(
                f"The input size {self.size[dim]}, plus negative padding {pad[2 * pair]} and {pad[2 * pair + 1]}, "  # noqa: B023
                "resulted in a negative output size"
            ),
        )
    if all(type(amount) is int and amount <= 0 for amount in pad):
        # A cut is a slice that is cloned.
        return like(TensorMeta(tuple(size), self.stride, self.dtype, self.device))
    return TensorMeta(tuple(size), strides_for(size, suggest_format(self)), self.dtype, self.device)


def _padded(self: TensorMeta, padding: Sequence[Size], spatial: int) -> list[Size]:
    size = list(self.size)
    for pair in range(spatial):
        dim = len(size) - 1 - pair
        size[dim] = size[dim] + padding[2 * pair] + padding[2 * pair + 1]
    return size


def _kept(size: Sequence[Size], like: TensorMeta) -> TensorMeta:
    """Channels-last stays on the CPU; CUDA's kernels write row-major."""
    if like.device.type == "cuda":
        return fresh(size, like)
    return fresh(size, like, stride=strides_for(size, suggest_format(like)))


@rule("reflection_pad1d", "replication_pad1d")
def pad1d(self: TensorMeta, padding: Sequence[Size]) -> TensorMeta:
    """The last dimension grown by its own values."""
    return fresh(_padded(self, padding, 1), self)


@rule("reflection_pad2d", "replication_pad2d")
def pad2d(self: TensorMeta, padding: Sequence[Size]) -> TensorMeta:
    """The last two dimensions grown by their own values."""
    return _kept(_padded(self, padding, 2), self)


@rule("reflection_pad3d", "replication_pad3d")
def pad3d(self: TensorMeta, padding: Sequence[Size]) -> TensorMeta:
    """The last three dimensions grown by their own values."""
    return _kept(_padded(self, padding, 3), self)


@rule(
    "reflection_pad1d_backward",
    "replication_pad1d_backward",
    "reflection_pad2d_backward",
    "replication_pad2d_backward",
    "reflection_pad3d_backward",
    "replication_pad3d_backward",
)
def pad_backward(grad_output: TensorMeta, self: TensorMeta, padding: Sequence[Size]) -> TensorMeta:
    """A gradient of the input's size."""
    return _kept(self.size, self)


@rule("tril", "triu")
def tril(self: TensorMeta, diagonal: Size = 0) -> TensorMeta:
    """One triangle of each matrix."""
    return fresh(self.size, self)


@rule("select_backward")
def select_backward(grad: TensorMeta, input_sizes: Sequence[Size], dim: int, index: Size) -> TensorMeta:
    """Zeros with the gradient at one position."""
    return fresh(tuple(input_sizes), grad)


@rule("slice_backward")
def slice_backward(
    grad: TensorMeta, input_sizes: Sequence[Size], dim: int, start: Size, end: Size, step: Size
) -> TensorMeta:
    """Zeros with the gradient in a range."""
    return fresh(tuple(input_sizes), grad)


@rule("diagonal_backward")
def diagonal_backward(grad: TensorMeta, input_sizes: Sequence[Size], offset: int, dim1: int, dim2: int) -> TensorMeta:
    """Zeros with the gradient on a diagonal."""
    return fresh(tuple(input_sizes), grad)


@rule("unfold_backward")
def unfold_backward(grad_in: TensorMeta, input_sizes: Sequence[Size], dim: int, size: Size, step: Size) -> TensorMeta:
    """The sum of the windows' gradients."""
    return fresh(tuple(input_sizes), grad_in)


@rule("select_scatter")
def select_scatter(self: TensorMeta, src: TensorMeta, dim: int, index: Size) -> TensorMeta:
    """The tensor with one position replaced, in its own strides."""
    return same_geometry(self)


@rule("slice_scatter")
def slice_scatter(
    self: TensorMeta, src: TensorMeta, dim: int = 0, start: Size | None = None, end: Size | None = None, step: Size = 1
) -> TensorMeta:
    """The tensor with a range replaced, in its own strides."""
    return same_geometry(self)


@rule("diagonal_scatter")
def diagonal_scatter(self: TensorMeta, src: TensorMeta, offset: int = 0, dim1: int = 0, dim2: int = 1) -> TensorMeta:
    """The tensor with a diagonal replaced, in its own strides."""
    return same_geometry(self)


@rule("as_strided_scatter")
def as_strided_scatter(
    self: TensorMeta, src: TensorMeta, size: Sequence[Size], stride: Sequence[Size], storage_offset: Size | None = None
) -> TensorMeta:
    """The tensor with a strided part replaced, in its own strides."""
    return same_geometry(self)


@rule("diag_embed")
def diag_embed(self: TensorMeta, offset: int = 0, dim1: int = -2, dim2: int = -1) -> TensorMeta:
    """Zeros with the last dimension on a diagonal of two new ones."""
    rank = len(self.size) + 1
    first, second = wrap_dim(dim1, rank), wrap_dim(dim2, rank)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    size = list(self.size[:-1])
    length = self.size[-1] + abs(offset)
    for dim in sorted((first, second)):
        size.insert(dim, length)
    return fresh(size, self)


@rule("block_diag")
def block_diag(tensors: Sequence[TensorMeta]) -> TensorMeta:
    """Matrices (a vector is a row) along the diagonal of one."""
    rows: Size = 0
    width: Size = 0
    for meta in tensors:
        if len(meta.size) > 2:
            raise RuntimeError("torch.block_diag: Input tensors must have 2 or fewer dimensions.")
        height, length = (1, 1, *meta.size)[-2:]
        rows, width = rows + height, width + length
    return TensorMeta((rows, width), (width, 1), result_dtype(tensors), common_device(tensors))


@rule("narrow_copy")
def narrow_copy(self: TensorMeta, dim: int, start: Size, length: Size) -> TensorMeta:
    """A range of a dimension, copied."""
    return fresh(narrow(self, dim, start, length).size, self)
