"""Reductions: a loop over what is kept with an inner loop over what is reduced, realized at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch

from inductor.ir.builder import Builder
from inductor.ir.indexing import is_empty, product
from inductor.ir.operations import Expr
from inductor.ir.scalar import Scalar, convert, lift, prim, reduce, truth, where
from inductor.ir.tensor import TensorValue
from inductor.ir.views import Dims
from inductor.lowerings.registry import lowering
from inductor.lowerings.views import wrap

Formula = Callable[[Callable[[], Scalar]], Sequence[Scalar]]
"""From the element (called once) to the results, by `reduce`."""


def reduced(
    builder: Builder,
    self: TensorValue,
    dims: Any,
    keepdim: bool,
    dtypes: Sequence[torch.dtype],
    formula: Formula,
    *,
    keep_order: bool = False,
) -> tuple[TensorValue, ...]:
    """Results of one loop that reduces `dims` (None or empty: all) of a value, one for each of `dtypes`."""
    rank = len(self.size)
    gone = sorted({wrap(d, rank) for d in _listed(dims)}) if _listed(dims) else list(range(rank))
    gone = [d for d in gone if d < rank]
    kept = [d for d in range(rank) if d not in gone]
    size = tuple(self.size[d] for d in kept)
    strides = _result_strides(builder, kept, keepdim and rank > 0, len(dtypes))
    buffers = [builder.new_buffer(self.device, t, size, s) for t, s in zip(dtypes, strides, strict=True)]

    def body(outer: list[Expr], inner: list[Expr]) -> None:
        index: list[Expr] = [sympy.Integer(0)] * rank
        for dim, position in zip(kept, outer, strict=True):
            index[dim] = position
        for dim, position in zip(gone, inner, strict=True):
            index[dim] = position
        for buffer, value in zip(buffers, formula(lambda: self.load(index)), strict=True):
            builder.store(buffer, outer, value)

    builder.loop(
        body,
        writes=buffers,
        outer=size,
        inner=[self.size[d] for d in gone],
        order=builder.order(buffers[0].stride),
        keep_inner_order=keep_order,
    )
    results = [builder.in_memory(buffer) for buffer in buffers]
    if keepdim:
        source = tuple(kept.index(d) if d in kept else None for d in range(rank))
        full = tuple(sympy.Integer(1) if d in gone else self.size[d] for d in range(rank))
        results = [result.view(Dims(full, source, len(kept))) for result in results]
    return tuple(results)


def _listed(dims: Any) -> list[int]:
    return [] if dims is None else [dims] if isinstance(dims, int) else list(dims)


def _result_strides(builder: Builder, kept: Sequence[int], keepdim: bool, count: int) -> list[tuple[Expr, ...] | None]:
    """Eager's strides for the results, where the node's fake values are the results."""
    out = builder.meta()
    outs = list(out) if isinstance(out, tuple | list) else [out]
    strides: list[tuple[Expr, ...] | None] = []
    for at in range(count):
        one = outs[at] if at < len(outs) else None
        stride = builder.sizes(one.stride()) if isinstance(one, torch.Tensor) else ()
        if keepdim and stride:
            stride = tuple(stride[d] for d in kept if d < len(stride))
        strides.append(stride if len(stride) == len(kept) else None)
    return strides


def _nothing_reduced(self: TensorValue) -> bool:
    return is_empty(self.size)


def count_of(self: TensorValue, dims: Any) -> Expr:
    """How many elements each result combines."""
    rank = len(self.size)
    listed = _listed(dims)
    return product(self.size[wrap(d, rank)] for d in listed) if listed and rank else product(self.size)


@lowering("sum", "sum.dim_IntList", "prod", "prod.dim_int", "mean", "mean.dim")
def sums(
    builder: Builder, self: TensorValue, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Any:
    """Sums, products and means."""
    if _nothing_reduced(self):
        return NotImplemented
    assert builder.node is not None
    name = str(builder.node.target).split(".")[1]
    result = builder.meta().dtype
    count = count_of(self, dim)

    def formula(element: Callable[[], Scalar]) -> Sequence[Scalar]:
        total = reduce("prod" if name == "prod" else "sum", convert(element(), result))
        return [total / lift(number(count), total.dtype) if name == "mean" else total]

    return reduced(builder, self, dim, keepdim, [result], formula)[0]


def number(expr: Expr) -> Any:
    """A size as a Python int where it is one."""
    return int(expr) if expr.is_Integer else expr


@lowering("amax", "amin", "max", "min")
def extremes(builder: Builder, self: TensorValue, dim: Any = (), keepdim: bool = False) -> Any:
    """The largest or smallest of all dimensions or some; NaN if one is."""
    if _nothing_reduced(self):
        return NotImplemented
    kind = _extreme(builder)
    return reduced(builder, self, dim, keepdim, [self.dtype], lambda element: [reduce(kind, element())])[0]


def _extreme(builder: Builder) -> str:
    assert builder.node is not None
    return "max" if "max" in str(builder.node.target) else "min"


@lowering("max.dim", "min.dim")
def extremes_with_positions(builder: Builder, self: TensorValue, dim: int, keepdim: bool = False) -> Any:
    """The largest or smallest along a dimension, and the first place that has it."""
    if _nothing_reduced(self):
        return NotImplemented
    kind = _extreme(builder)

    def formula(element: Callable[[], Scalar]) -> Sequence[Scalar]:
        value = element()
        return [reduce(kind, value), reduce(f"arg{kind}", value)]

    return reduced(builder, self, dim, keepdim, [self.dtype, torch.int64], formula, keep_order=True)


@lowering("argmax", "argmin")
def positions(builder: Builder, self: TensorValue, dim: int | None = None, keepdim: bool = False) -> Any:
    """The first place of the largest or smallest."""
    if _nothing_reduced(self):
        return NotImplemented
    kind = f"arg{_extreme(builder)}"
    return reduced(
        builder, self, dim, keepdim, [torch.int64], lambda element: [reduce(kind, element())], keep_order=True
    )[0]


@lowering("any", "any.dim", "any.dims", "all", "all.dim", "all.dims")
def quantifiers(builder: Builder, self: TensorValue, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether any, or all, are true."""
    out = builder.meta()
    if _nothing_reduced(self) or (isinstance(dim, tuple | list) and not dim):
        return NotImplemented
    assert builder.node is not None
    kind = str(builder.node.target).split(".")[1]

    def formula(element: Callable[[], Scalar]) -> Sequence[Scalar]:
        return [convert(reduce(kind, truth(element())), out.dtype)]

    return reduced(builder, self, dim, keepdim, [out.dtype], formula)[0]


@lowering("logsumexp")
def logsumexp(builder: Builder, self: TensorValue, dim: Any, keepdim: bool = False) -> Any:
    """log Σ eˣ, x less its maximum where that is finite."""
    if _nothing_reduced(self):
        return NotImplemented
    out = builder.meta().dtype

    def formula(element: Callable[[], Scalar]) -> Sequence[Scalar]:
        value = convert(element(), out)
        high = reduce("max", value)
        # An infinite maximum would make infinity - infinity.
        safe = where(prim.isinf(high), 0.0, high)
        return [prim.log(reduce("sum", prim.exp(value - safe))) + safe]

    return reduced(builder, self, dim, keepdim, [out], formula)[0]
