"""Indexing: gather, scatter, embedding and advanced indices."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from symshapes.facts import Operand
from symshapes.rules.copies import like
from symshapes.rules.layout import (
    Same,
    Size,
    Sizes,
    TensorMeta,
    broadcast,
    expand_strides,
    fresh,
    numel,
    permutation_by_stride,
    same_shape,
    strides_in_order,
    sure,
    wrap_dim,
)
from symshapes.rules.registry import DataDependentError, rule

_WIDE = (torch.int64, torch.int32)
"""Dtypes of positions that most of eager's kernels take."""
SCATTERS = (
    "scatter.src",
    "scatter.value",
    "scatter.reduce",
    "scatter.value_reduce",
    "scatter_add",
    "scatter_reduce.two",
)
"""Operators that write elements to positions along a dimension."""


@rule("gather")
def gather(self: TensorMeta, dim: int, index: TensorMeta, *, sparse_grad: bool = False) -> TensorMeta:
    """An element for each index."""
    wrap_dim(dim, len(self.size))
    if index.dtype not in _WIDE and not sure(numel(index.size) == 0):
        raise RuntimeError("gather(): Expected dtype int32/int64 for index")
    return fresh(index.size, self)


@rule("index_fill.int_Scalar", "index_fill.int_Tensor", "put")
def put(self: TensorMeta, *args: Any, **kwargs: Any) -> TensorMeta:
    """A copy of the first argument, in its format, with elements replaced."""
    return like(self)


@rule("index_put", "_unsafe_index_put")
def index_put(self: TensorMeta, indices: Any, values: TensorMeta, accumulate: bool = False) -> TensorMeta:
    """A copy of the first argument, in its format, with elements replaced."""
    if values.dtype != self.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, "
            f"got {self.dtype} for the destination and {values.dtype} for the source."
        )
    return like(self)


@rule(*SCATTERS)
def scatter(self: TensorMeta, dim: int, index: TensorMeta, *args: Any, **kwargs: Any) -> TensorMeta:
    """A row-major copy of the first argument with elements replaced."""
    if index.dtype not in _WIDE and not sure(numel(index.size) == 0):
        raise RuntimeError("scatter(): Expected dtype int32/int64 for index")
    return fresh(self.size, self)


@rule("index_copy")
def index_copy(self: TensorMeta, dim: int, index: TensorMeta, source: TensorMeta) -> TensorMeta:
    """A row-major copy of the first argument with slices replaced."""
    if index.dtype != torch.int64:
        raise RuntimeError(f"index_copy_(): Expected a long tensor for index, but got {index.dtype}")
    return fresh(self.size, self)


@rule("index_add", "index_reduce")
def index_add(
    self: TensorMeta, dim: int, index: TensorMeta, source: TensorMeta, *args: Any, **kwargs: Any
) -> TensorMeta:
    """A row-major copy of the first argument with slices added to."""
    if index.dtype not in _WIDE:
        raise RuntimeError(f"index_add_(): Expected dtype int32/int64 for index but got: {index.dtype}")
    return fresh(self.size, self)


def _in_place(check: Callable[..., TensorMeta], *names: str) -> None:
    @rule(*names)
    def written(self: TensorMeta, *args: Any, **kwargs: Any) -> Same:
        """Writes into its first argument, whose metadata stays; refuses what the functional op refuses."""
        check(self, *args, **kwargs)
        return Same()


_in_place(scatter, "scatter_.src", "scatter_.value", "scatter_.reduce", "scatter_.value_reduce")
_in_place(scatter, "scatter_add_", "scatter_reduce_.two")
_in_place(index_copy, "index_copy_")
_in_place(index_add, "index_add_")


@rule("index_put_", "_index_put_impl_")
def index_put_(
    self: TensorMeta, indices: Any, values: TensorMeta, accumulate: bool = False, unsafe: bool = False
) -> Same:
    """Writes into its first argument, whose metadata stays."""
    index_put(self, indices, values)
    return Same()


@rule("masked_scatter_backward")
def masked_scatter_backward(grad_output: TensorMeta, mask: TensorMeta, sizes: Sequence[Size]) -> TensorMeta:
    """Gradients of what was taken, and zeros for the rest of it."""
    return fresh(sizes, grad_output)


@rule("masked_scatter")
def masked_scatter(self: TensorMeta, mask: TensorMeta, source: TensorMeta) -> TensorMeta:
    """A copy, grown to the mask's size, with the masked elements replaced in order."""
    return fresh(broadcast(self.size, mask.size), self)


@rule("index_select")
def index_select(self: TensorMeta, dim: int, index: TensorMeta) -> TensorMeta:
    """The positions of a dimension that the index lists."""
    dim = wrap_dim(dim, len(self.size))
    if len(index.size) > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if index.dtype not in _WIDE:
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    count = index.size[0] if index.size else 1
    size = list(self.size)
    if size:
        size[dim] = count
    return fresh(size, self)


@rule("index_select_backward")
def index_select_backward(grad: TensorMeta, self_sizes: Sequence[Size], dim: int, index: TensorMeta) -> TensorMeta:
    """The gradient of the whole."""
    return fresh(tuple(self_sizes), grad)


@rule("take")
def take(self: TensorMeta, index: TensorMeta) -> TensorMeta:
    """Elements by their place in the flattened tensor."""
    return fresh(index.size, self)


@rule("embedding")
def embedding(
    weight: TensorMeta,
    indices: TensorMeta,
    padding_idx: Size = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> TensorMeta:
    """A row for each index."""
    if len(weight.size) != 2:
        raise RuntimeError("'weight' must be 2-D")
    if indices.dtype not in _WIDE:
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; "
            f"but got {indices.dtype} instead (while checking arguments for embedding)"
        )
    return fresh((*indices.size, weight.size[1]), weight)


@rule("embedding_dense_backward")
def embedding_dense_backward(
    grad_output: TensorMeta, indices: TensorMeta, num_weights: Size, padding_idx: Size, scale_grad_by_freq: bool
) -> TensorMeta:
    """The gradient of all rows."""
    return fresh((num_weights, grad_output.size[-1]), grad_output)


@rule("embedding_renorm_")
def embedding_renorm_(self: TensorMeta, indices: TensorMeta, max_norm: float, norm_type: float) -> Any:
    """Rescales rows in place."""
    return Same()


def _index_op(self: TensorMeta, indices: Sequence[TensorMeta | None]) -> TensorMeta:
    if len(indices) > len(self.size):
        raise IndexError(f"too many indices for tensor of dimension {len(self.size)} (got {len(indices)})")
    for index in indices:
        if index is None:
            continue
        if index.dtype in (torch.bool, torch.uint8):
            # How many elements a mask picks is in its data.
            raise DataDependentError(torch.ops.aten.index.Tensor)
        if index.dtype not in _WIDE:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    given = [index for index in indices if index is not None]
    if not given:
        return like(self)
    rank = len(self.size)
    padded = [*indices, *[None] * (rank - len(indices))]
    indexed = [dim for dim, index in enumerate(padded) if index is not None]
    together = indexed == list(range(indexed[0], indexed[-1] + 1))
    size, stride = self.size, self.stride
    if not together:
        # Indices apart from each other put their dimensions first.
        order = [*indexed, *(dim for dim in range(rank) if dim not in indexed)]
        size = tuple(size[dim] for dim in order)
        stride = tuple(stride[dim] for dim in order)
        indexed = list(range(len(indexed)))
    picked = broadcast(*[index.size for index in given])
    first, last = indexed[0], indexed[-1]
    before, after = size[:first], size[last + 1 :]
    out = (*before, *picked, *after)
    lead, trail = (1,) * len(before), (1,) * len(after)
    # The loop's operands: the tensor with the indexed dimensions at stride 0, and each index.
    source: Sizes = (*stride[:first], *[0] * len(picked), *stride[last + 1 :])
    operands = [source]
    for index in given:
        wide = (*lead, *index.size, *trail) if len(index.size) == len(picked) else None
        at = index
        if wide is None:
            grown = (1,) * (len(picked) - len(index.size)) + tuple(index.size)
            at = TensorMeta(grown, (0,) * (len(picked) - len(index.size)) + tuple(index.stride), *index[2:4])
            wide = (*lead, *grown, *trail)
        shaped = TensorMeta(wide, (*[0] * len(lead), *at.stride, *[0] * len(trail)), *index[2:4])
        operands.append(expand_strides(shaped, out))
    if len(out) < 2:
        return fresh(out, self)
    return TensorMeta(out, strides_in_order(out, permutation_by_stride(out, operands)), self.dtype, self.device)


@rule("index.Tensor", "_unsafe_index.Tensor")
def index(self: TensorMeta, indices: Sequence[TensorMeta | None]) -> TensorMeta:
    """Advanced indexing. Masks raise DataDependentError: the size of the result is in their data."""
    return _index_op(self, indices)


@rule("nonzero_static")
def nonzero_static(self: TensorMeta, *, size: Size, fill_value: int = -1) -> TensorMeta:
    """A fixed number of places of nonzero elements."""
    out = (size, len(self.size))
    # CUDA finds the places dimension by dimension, and shows them transposed.
    return fresh(out, self, torch.int64, stride=(1, size) if self.device.type == "cuda" else None)


@rule("repeat_interleave.Tensor")
def repeat_interleave(repeats: TensorMeta, *, output_size: Size | None = None) -> TensorMeta:
    """Indices that repeat; without `output_size` the length is in the data."""
    if output_size is None:
        raise DataDependentError(torch.ops.aten.repeat_interleave.Tensor)
    return fresh((output_size,), repeats)


@rule("_local_scalar_dense", "item")
def item(self: TensorMeta) -> Any:
    """The one element: data."""
    raise DataDependentError(torch.ops.aten._local_scalar_dense.default)


@rule("equal")
def equal(self: TensorMeta, other: TensorMeta) -> bool:
    """False by sizes alone; otherwise it is in the data."""
    if not is_same_size(self, other):
        return False
    raise DataDependentError(torch.ops.aten.equal.default)


@rule("is_same_size")
def is_same_size(self: TensorMeta, other: TensorMeta) -> bool:
    """Whether the sizes are equal."""
    return len(self.size) == len(other.size) and all(map(operator.eq, self.size, other.size))


@rule("_assert_async", "_assert_async.msg", "_assert_tensor_metadata")
def check_later(*args: Any, **kwargs: Any) -> None:
    """A check of data: nothing comes back."""


@rule("_has_same_storage_numel")
def has_same_storage_numel(self: TensorMeta, other: TensorMeta) -> bool:
    """Whether two tensors' storages are of one length, each taken to end with its tensor's last element: what forward-mode
    differentiation asks before it compares sizes and strides."""
    alike = same_shape((*self.size, *self.stride, self.offset), (*other.size, *other.stride, other.offset))
    return alike or bool(_end(self) == _end(other))


@rule("_new_zeros_with_same_feature_meta")
def zeros_laid_out_like(self: TensorMeta, other: TensorMeta, *, self_num_batch_dims: int = 0) -> TensorMeta:
    """A tangent that lies as `other` does, once for each of the first dimensions of `self`."""
    size, stride, step = list(other.size), list(other.stride), _end(other)
    for length in reversed(self.size[:self_num_batch_dims]):
        size.insert(0, length)
        stride.insert(0, step)
        step = step * length
    return TensorMeta(tuple(size), tuple(stride), self.dtype, self.device, other.offset)


def _end(meta: TensorMeta) -> Size:
    """How many elements the storage has up to the tensor's last."""
    if any(length == 0 for length in meta.size):
        return meta.offset
    return meta.offset + 1 + sum((length - 1) * step for length, step in zip(meta.size, meta.stride, strict=True))


@rule("is_pinned")
def is_pinned(self: TensorMeta, device: Operand = None) -> bool:
    """Fakes have no memory to pin."""
    return False


@rule("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    weight: TensorMeta,
    indices: TensorMeta,
    offsets: TensorMeta,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: TensorMeta | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[TensorMeta, ...]:
    """Sums (mode 0), means (1) or largest (2) of rows, and for the backward: each index's bag, counts, places of the largest.

    What nobody needs is empty, by rules that differ between devices."""
    count, width = indices.size[0], weight.size[1]
    bags = offsets.size[0] - 1 if include_last_offset else offsets.size[0]
    wide = offsets if offsets.dtype == torch.int64 else indices
    if weight.device.type != "cpu":
        places = (bags, width) if mode == 2 else (0,)
        return fresh((bags, width), weight), fresh((count,), wide), fresh(offsets.size, wide), fresh(places, wide)
    plain = padding_idx < 0 and weight.stride[1] == 1 and weight.dtype in (torch.float32, torch.float16, torch.bfloat16)
    if per_sample_weights is not None:
        plain = plain and per_sample_weights.stride[0] == 1
    return (
        fresh((bags, width), weight),
        fresh((0,) if mode == 0 and plain else (count,), wide),
        fresh((bags,), wide),
        fresh((bags, width) if mode == 2 else (bags,), wide),
    )


@rule("_embedding_bag_backward")
def embedding_bag_backward(
    grad: TensorMeta,
    indices: TensorMeta,
    offsets: TensorMeta,
    offset2bag: TensorMeta,
    bag_size: TensorMeta,
    maximum_indices: TensorMeta,
    num_weights: Size,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    *_: Any,
    **__: Any,
) -> Any:
    """The gradient of the rows."""
    return NotImplemented if sparse else fresh((num_weights, grad.size[1]), grad)


@rule("isin.Tensor_Tensor")
def isin(
    elements: TensorMeta, test_elements: TensorMeta, *, assume_unique: bool = False, invert: bool = False
) -> TensorMeta:
    """One bool an element, row-major. Which kernel answers, and so which dtypes are refused, depends on how many elements there are."""
    return fresh(elements.size, elements, torch.bool)
