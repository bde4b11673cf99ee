"""Ops that copy: clone, casts, copies into arguments, and the `_copy` forms of view ops."""

from collections.abc import Callable
from typing import Any

import torch

from symshapes.facts import NUMBER_DTYPES, errors
from symshapes.rules import views
from symshapes.rules.layout import (
    Same,
    TensorMeta,
    View,
    broadcast,
    contiguous_strides,
    fresh,
    numel,
    preserved_strides,
    same_shape,
    strides_for,
    sure,
)
from symshapes.rules.registry import rule


def like(
    self: TensorMeta,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    memory_format: torch.memory_format | None = None,
) -> TensorMeta:
    """A new tensor of the size of `self`; no memory format means `torch.preserve_format`."""
    if memory_format is None or memory_format is torch.preserve_format:
        stride = preserved_strides(self)
    else:
        stride = strides_for(self.size, memory_format)
    return TensorMeta(self.size, stride, dtype or self.dtype, device or self.device)


def same_geometry(self: TensorMeta) -> TensorMeta:
    """A copy of the whole storage with the same view of it, strides and offset alike; overlaps are spread out."""
    if any(sure(step == 0) and not sure(length == 1) for length, step in zip(self.size, self.stride, strict=True)):
        return like(self)
    return TensorMeta(self.size, self.stride, self.dtype, self.device, self.offset)


@rule("clone")
def clone(self: TensorMeta, *, memory_format: torch.memory_format | None = None) -> TensorMeta:
    """A copy in the memory format asked for."""
    return like(self, memory_format=memory_format)


@rule("contiguous")
def contiguous(self: TensorMeta, *, memory_format: torch.memory_format = torch.contiguous_format) -> Any:
    """The input itself if it is in the format already, else a copy."""
    made = clone(self, memory_format=memory_format)
    return Same() if made.stride == self.stride else made


@rule("lift_fresh_copy", "_conj_physical", "alias_copy", "detach_copy")
def copy_like(self: TensorMeta) -> TensorMeta:
    """A copy that keeps the format."""
    return like(self)


@rule("_to_copy")
def to_copy(
    self: TensorMeta,
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format | None = None,
) -> TensorMeta:
    """A copy with another dtype, device or format; of a number, which the dispatcher hands over as one, a tensor."""
    if type(self) in NUMBER_DTYPES:
        at = torch.device("cpu" if device is None else device)
        return TensorMeta((), (), dtype or NUMBER_DTYPES[type(self)], at)
    return like(self, dtype, None if device is None else torch.device(device), memory_format)


@rule("copy_")
def copy_(self: TensorMeta, src: TensorMeta, non_blocking: bool = False) -> Same:
    """Write `src`, broadcast, into `self`."""
    both = broadcast(self.size, src.size)
    if not same_shape(both, self.size):
        raise errors.unlike_target(self.size, both)
    return Same()


@rule("copy")
def copy(self: TensorMeta, src: TensorMeta, non_blocking: bool = False) -> TensorMeta:
    """`copy_` into a fresh tensor with the strides of `self`."""
    copy_(self, src)
    return same_geometry(self)


@rule("fill.Scalar", "fill.Tensor", "zero")
def fill(self: TensorMeta, value: Any = 0) -> TensorMeta:
    """A tensor of the same size and format, filled."""
    return like(self)


@rule(
    "uniform", "normal_functional", "random", "random.from", "random.to", "bernoulli.Tensor", "exponential", "geometric",
    "log_normal", "cauchy",
)  # fmt: skip
def drawn(self: TensorMeta, *args: Any, **kwargs: Any) -> TensorMeta:
    """Random numbers in a copy of `self`: what aotgrad makes of drawing them in place."""
    return like(self)


@rule(
    "fill_.Scalar",
    "fill_.Tensor",
    "zero_",
    "uniform_",
    "normal_",
    "random_",
    "random_.from",
    "random_.to",
    "bernoulli_.float",
    "bernoulli_.Tensor",
    "exponential_",
    "geometric_",
    "log_normal_",
    "cauchy_",
    "masked_fill_.Scalar",
    "masked_fill_.Tensor",
    "index_fill_.int_Scalar",
    "index_fill_.int_Tensor",
    "masked_scatter_",
    "set_data",
    "fill_diagonal_",
    "tril_",
    "triu_",
    "resize_as_strided_",
    "eye_",
    "put_",
)
def written(self: TensorMeta, *args: Any, **kwargs: Any) -> Same:
    """Writes into its first argument, whose metadata stays."""
    return Same()


@rule("resolve_conj", "resolve_neg")
def resolve(self: TensorMeta) -> Any:
    """The tensor itself if it has no lazy bit, else a copy without one."""
    return like(self) if self.flags else Same()


def _copies(answer: Any) -> Any:
    if isinstance(answer, list):
        return [_copies(item) for item in answer]
    assert isinstance(answer, View)
    return TensorMeta(answer.size, contiguous_strides(answer.size), answer.dtype, answer.device)


def _register_copy(name: str, view: Callable[..., Any]) -> None:
    @rule(name)
    def copied(*args: Any, **kwargs: Any) -> Any:
        return _copies(view(*args, **kwargs))


_VIEWS: dict[str, Callable[..., Any]] = {
    "as_strided_copy": views.as_strided,
    "t_copy": views.t,
    "transpose_copy.int": views.transpose,
    "permute_copy": views.permute,
    "expand_copy": views.expand,
    "select_copy.int": views.select,
    "slice_copy.Tensor": views.slice_,
    "squeeze_copy": views.squeeze,
    "squeeze_copy.dim": views.squeeze_dim,
    "squeeze_copy.dims": views.squeeze_dims,
    "unsqueeze_copy": views.unsqueeze,
    "unfold_copy": views.unfold,
    "diagonal_copy": views.diagonal,
    "split_copy.Tensor": views.split,
    "split_with_sizes_copy": views.split_with_sizes,
    "unbind_copy.int": views.unbind,
}
for _name, _view in _VIEWS.items():
    _register_copy(_name, _view)


@rule("view_copy")
def view_copy(self: TensorMeta, size: Any) -> TensorMeta:
    """The elements in another shape; unlike `view` it always can."""
    return fresh(views.infer_size(size, numel(self.size)), self)


@rule("unsafe_split.Tensor")
def unsafe_split(self: TensorMeta, split_size: Any, dim: int = 0) -> list[View]:
    """`split` that autograd takes for independent tensors."""
    return views.split(self, split_size, dim)


@rule("unsafe_split_with_sizes")
def unsafe_split_with_sizes(self: TensorMeta, split_sizes: Any, dim: int = 0) -> list[View]:
    """`split_with_sizes` that autograd takes for independent tensors."""
    return views.split_with_sizes(self, split_sizes, dim)
