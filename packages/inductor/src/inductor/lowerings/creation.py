"""Tensors from nothing (full, arange, eye), and copies: casts, clones, fills."""

from __future__ import annotations

from typing import Any

import torch

from inductor.ir.builder import MEMORY_DTYPES, Builder
from inductor.ir.indexing import Index
from inductor.ir.operations import Expr
from inductor.ir.scalar import Scalar, convert, index_value, lift, prim, rounded, settled
from inductor.ir.tensor import TensorValue
from inductor.lowerings.registry import elementwise, lowering


def like_meta(builder: Builder, value: Any) -> TensorValue:
    """A tensor like the node's fake value, every element the same number."""
    out = builder.meta()
    dtype = out.dtype
    return builder.pointwise(out.device, dtype, builder.sizes(out.size()), lambda index: lift_exactly(value, dtype))


def lift_exactly(value: Any, dtype: torch.dtype) -> Scalar:
    """A number as memory of `dtype` holds it."""
    if isinstance(value, bool | int | float):
        value = torch.tensor(value, dtype=dtype).item()
    return convert(lift(value, dtype), dtype)


@lowering("full", "full_like", "fill.Scalar")
def full(builder: Builder, *args: Any, fill_value: Any = None, value: Any = None, **options: Any) -> Any:
    """One number everywhere. Not a complex one."""
    number = args[1] if len(args) > 1 else (fill_value if fill_value is not None else value)
    return NotImplemented if isinstance(number, complex) else like_meta(builder, number)


@lowering("fill.Tensor")
def fill_tensor(builder: Builder, self: TensorValue, value: TensorValue) -> TensorValue:
    """The value of a tensor of no dimensions everywhere."""
    return elementwise(builder, lambda value: value, {"value": value})


@lowering("empty.memory_format", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted")
def empty(builder: Builder, *args: Any, **options: Any) -> TensorValue:
    """Memory that nothing is written to."""
    out = builder.meta()
    return builder.uninitialised(out.device, out.dtype, builder.sizes(out.size()), builder.sizes(out.stride()))


def _is_number(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, Expr) and bool(value.is_integer))


@lowering("arange.start_step")
def arange(builder: Builder, start: Any, end: Any, step: Any = 1, **options: Any) -> Any:
    """start + step i. Not where those are no numbers yet."""
    out = builder.meta()
    dtype = out.dtype
    if not all(map(_is_number, (start, step))):
        return NotImplemented
    return builder.pointwise(
        out.device,
        dtype,
        builder.sizes(out.size()),
        lambda index: convert(index_value(index[0] * step + start), dtype),
    )


@lowering("eye", "eye.m")
def eye(builder: Builder, *args: Any, **options: Any) -> TensorValue:
    """1 on the diagonal, else 0."""
    out = builder.meta()

    def compute(index: Index) -> Scalar:
        return convert(prim.eq(index_value(index[0]), index_value(index[1])), out.dtype)

    return builder.pointwise(out.device, out.dtype, builder.sizes(out.size()), compute)


def cast(builder: Builder, self: TensorValue, dtype: torch.dtype) -> TensorValue:
    """A pending conversion; between float16/bfloat16 and others it rounds where eager does."""
    source = self.dtype

    def compute(index: Index) -> Scalar:
        value = rounded(self.load(index), source)
        return rounded(convert(value, dtype), dtype) if dtype is not source else value

    return builder.pointwise(self.device, dtype, self.size, compute, self.cost)


@lowering("_to_copy")
def to_copy(builder: Builder, self: TensorValue, **options: Any) -> Any:
    """Another dtype. Not another device, which ATen copies to."""
    out = builder.meta()
    if self.device != out.device or self.dtype not in MEMORY_DTYPES or out.dtype not in MEMORY_DTYPES:
        return NotImplemented
    return cast(builder, self, out.dtype)


@lowering("clone", "lift_fresh_copy", "contiguous")
def clone(builder: Builder, self: TensorValue, **options: Any) -> Any:
    """A copy with memory of its own."""
    return NotImplemented if self.dtype not in MEMORY_DTYPES else builder.copy(self)


@lowering("copy")
def copy(builder: Builder, self: TensorValue, src: TensorValue, non_blocking: bool = False) -> Any:
    """The value of `src`, broadcast, in the dtype of `self`. Not from another device."""
    if src.device != self.device:
        return NotImplemented
    # The value of `src` in the dtype and size of `self`.
    return elementwise(builder, settled, {"src": src}, own=("src",))
