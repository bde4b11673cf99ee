"""Operators whose results have numbers or sizes that are in the data: what they give where those are symbols.

In: the environment that makes symbols, and the arguments of an op, fakes among them. Out: a rule's answer, as in `rules`. One
tensor that nobody wrote to has the same symbol each time, and so have masks that were made alike.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from symshapes.facts import errors
from symshapes.fake.contents import content_of
from symshapes.fake.tensor import meta_of, told_number
from symshapes.rules.by_operator import aten
from symshapes.rules.indexing import index
from symshapes.rules.layout import Size, TensorMeta, broadcast, fresh, numel, same_shape, strides_in_order, wrap_dim
from symshapes.rules.losses import ctc_tables
from symshapes.rules.registry import DataDependentError

Answer = Callable[..., Any]
DATA: dict[Any, Answer] = {}

_MASKS = (torch.bool, torch.uint8)


class SizesInData:
    """What `torch.library.get_ctx` gives the fake of a user's operator: it makes sizes that are in data."""

    def __init__(self, op: Any, env: Any | None) -> None:
        self._op = op
        self._env = env

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> torch.SymInt:
        """A size that only the run can tell, within `min` to `max`. Raises DataDependentError where no symbols are made."""
        if self._env is None:
            raise DataDependentError(self._op)
        if min < 0:
            raise ValueError(f"ctx.new_dynamic_size(min={min}, ...): a size is not negative")
        size: torch.SymInt = self._env.create_unbacked_int(min, max)
        return size

    create_unbacked_symint = new_dynamic_size


def _data(*names: str) -> Callable[[Answer], Answer]:
    def register(answer: Answer) -> Answer:
        DATA.update((op, answer) for name in names for op in aten(name))
        return answer

    return register


def _count(env: Any, tensor: Any) -> torch.SymInt:
    """How many elements of a tensor are not zero."""
    content = content_of(tensor)
    if content is None:
        return env.create_unbacked_size(numel(tensor.shape))
    known = tensor.fake_mode.counts
    if content not in known:
        known[content] = env.create_unbacked_size(numel(tensor.shape))
    return known[content]


def _number(env: Any, dtype: torch.dtype) -> Any:
    if dtype is torch.bool:
        return env.create_unbacked_bool()
    if dtype.is_floating_point:
        return env.create_unbacked_float()
    if dtype.is_complex:
        raise DataDependentError(torch.ops.aten._local_scalar_dense.default)
    span = torch.iinfo(dtype)
    wide = dtype in (torch.int64, torch.uint64)
    return env.create_unbacked_int(*((0, None) if dtype is torch.uint64 else ()) if wide else (span.min, span.max))


@_data("_local_scalar_dense", "item")
def item(env: Any, self: Any) -> Any:
    """The one element, as a number."""
    if self.numel() != 1:
        raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
    known = told_number(self)
    if known is not None:
        while isinstance(known, list):
            (known,) = known
        return known
    content = content_of(self)
    if content is None:
        return _number(env, self.dtype)
    numbers = self.fake_mode.counts
    if (content, "item") not in numbers:
        numbers[content, "item"] = _number(env, self.dtype)
    return numbers[content, "item"]


@_data("equal")
def equal(env: Any, self: Any, other: Any) -> Any:
    """Whether all elements are equal."""
    return env.create_unbacked_bool()


def _places(env: Any, self: Any) -> TensorMeta:
    """A row of indices for each element that is not zero; they are found dimension by dimension, and lie so."""
    count = _count(env, self)
    return fresh((count, self.dim()), meta_of(self), torch.int64, stride=(1, count))


@_data("nonzero")
def nonzero(env: Any, self: Any) -> TensorMeta:
    """The places of elements that are not zero."""
    return _places(env, self)


@_data("masked_select")
def masked_select(env: Any, self: Any, mask: Any) -> TensorMeta:
    """The elements that the mask picks, one behind the other."""
    if mask.dtype is not torch.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    whole = broadcast(tuple(self.shape), tuple(mask.shape))
    if len(whole) == mask.dim() and same_shape(whole, tuple(mask.shape)):
        count = _count(env, mask)
    else:
        count = env.create_unbacked_size(numel(whole))
    return fresh((count,), meta_of(self))


@_data("index.Tensor", "_unsafe_index.Tensor")
def masked_index(env: Any, self: Any, indices: Sequence[Any]) -> TensorMeta:
    """Advanced indexing where a mask stands for the indices of what it picks."""
    metas: list[TensorMeta | None] = []
    for given in indices:
        if given is None or given.dtype not in _MASKS:
            metas.append(None if given is None else meta_of(given))
            continue
        at = len(metas)
        if not same_shape(tuple(given.shape), tuple(self.shape[at : at + given.dim()])):
            raise errors.unlike_mask(given.shape, 0, self.shape, at)
        places = _places(env, given)
        metas += [fresh((places.size[0],), places, stride=(places.stride[0],)) for _ in range(given.dim())]
    return index(meta_of(self), metas)


@_data("_unique2")
def unique2(
    env: Any, self: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[TensorMeta, ...]:
    """The distinct elements, each element's place among them, and how often each is there."""
    meta, count = meta_of(self), env.create_unbacked_size(numel(self.shape))
    return (
        fresh((count,), meta),
        fresh(meta.size if return_inverse else (0,), meta, torch.int64),
        fresh((count,) if return_counts else (0,), meta, torch.int64),
    )


@_data("unique_consecutive")
def unique_consecutive(
    env: Any, self: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[TensorMeta, ...]:
    """The same of runs of equal elements."""
    if dim is not None:
        return unique_dim(env, self, dim)
    meta, count = meta_of(self), env.create_unbacked_size(numel(self.shape))
    return (
        fresh((count,), meta),
        fresh(meta.size if return_inverse else (0,), meta, torch.int64),
        fresh((count,) if return_counts else (0,), meta, torch.int64),
    )


@_data("unique_dim", "unique_dim_consecutive")
def unique_dim(env: Any, self: Any, dim: int, *args: Any, **kwargs: Any) -> tuple[TensorMeta, ...]:
    """The distinct slices."""
    meta = meta_of(self)
    dim = wrap_dim(dim, len(meta.size))
    length = meta.size[dim]
    count = env.create_unbacked_size(length)
    size = (*meta.size[:dim], count, *meta.size[dim + 1 :])
    outward = [*(d for d in range(len(size) - 1, -1, -1) if d != dim), dim]
    return (
        fresh(size, meta, stride=strides_in_order(size, outward)),
        fresh((length,), meta, torch.int64),
        fresh((count,), meta, torch.int64),
    )


@_data("bincount")
def bincount(env: Any, self: Any, weights: Any = None, minlength: Size = 0) -> TensorMeta:
    """How often each number is there, from 0 to the largest, or what its weights add up to."""
    dtype = torch.int64
    if weights is not None:
        dtype = torch.float32 if weights.dtype is torch.float32 else torch.float64
    return fresh((env.create_unbacked_int(minlength if type(minlength) is int else 0),), meta_of(self), dtype)


@_data("repeat_interleave.Tensor")
def repeat_interleave(env: Any, repeats: Any, *, output_size: Size | None = None) -> TensorMeta:
    """Each index as often as is said."""
    return fresh((env.create_unbacked_size(),), meta_of(repeats))


@_data("_pack_padded_sequence")
def pack_padded_sequence(env: Any, input: Any, lengths: Any, batch_first: bool) -> tuple[TensorMeta, ...]:
    """The rows of sequences of these lengths, and how many each step has: there are as many steps as the longest has."""
    if lengths.dim() != 1 or lengths.dtype is not torch.int64 or lengths.device.type != "cpu":
        kind = f"{lengths.dim()}D {lengths.device} {str(lengths.dtype).removeprefix('torch.')}"
        raise RuntimeError(f"'lengths' argument should be a 1D CPU int64 tensor, but got {kind} tensor")
    meta = meta_of(input)
    length, batch = (meta.size[1], meta.size[0]) if batch_first else meta.size[:2]
    if not same_shape((batch,), tuple(lengths.shape)):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.shape[0]} (batch_size={batch})"
        )
    rows, steps = env.create_unbacked_size(numel((length, batch))), env.create_unbacked_size(length)
    return fresh((rows, *meta.size[2:]), meta), fresh((steps,), meta_of(lengths))


@_data("_ctc_loss.Tensor")
def ctc_loss(
    env: Any, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *_: Any
) -> tuple[TensorMeta, TensorMeta]:
    """As of lengths that are numbers; only the run knows the longest target."""
    return ctc_tables(meta_of(log_probs), env.create_unbacked_size())
