"""Products of matrices by the library, on rows that begin where its fastest kernels can read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from inductor.ir.builder import Builder
from inductor.ir.tensor import TensorValue
from inductor.passes.patterns import is_static

BYTES = 16
DEEP = 256
"""Steps of a product for which copying its factors or its result takes a small part of the time that it saves."""
LARGE = 1 << 26
"""Multiplications of one."""


def in_aligned_rows(builder: Builder, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> Any:
    """The node's product, of the last two arguments; NotImplemented where the device does not care, or nothing is to be done."""
    node, out = builder.node, builder.meta()
    assert node is not None
    if out.dim() != 2 or out.dtype not in builder.traits(out.device).aligned_products:
        return NotImplemented
    sizes = [*builder.sizes(out.size()), args[-1].size[0]]
    known = all(size.is_Integer for size in sizes) and all(
        is_static(given.meta["val"]) for given in node.all_input_nodes
    )
    if not known or sizes[2] < DEEP or sizes[0] * sizes[1] * sizes[2] < LARGE:
        return NotImplemented
    unit = BYTES // out.dtype.itemsize
    padded = _up(int(sizes[1]), unit)
    fakes = [given.meta["val"] for given in node.args[-2:] if isinstance(given, fx.Node)]
    if padded == sizes[1] and all(
        _begins_well(fake.size(), fake.stride(), fake.storage_offset(), unit) for fake in fakes
    ):
        return NotImplemented
    factors = [_aligned(builder, value, fake, unit) for value, fake in zip(args[-2:], fakes, strict=True)]
    stride = builder.sizes((padded, 1))
    return builder.extern(node.target, (*args[:-2], *factors), dict(kwargs or {}), out, stride=stride)


def _aligned(builder: Builder, value: TensorValue, fake: torch.Tensor, unit: int) -> TensorValue:
    """The matrix, or a copy of it whose rows (columns, if those lie together) begin at multiples of `unit` elements."""
    layout = value.layout() if value.source.buffer is not None else None
    stride = builder.sizes(fake.stride()) if layout is None else layout.stride
    offset = builder.size(fake.storage_offset()) if layout is None else layout.offset
    if _begins_well(value.size, stride, offset, unit):
        return value
    by_columns = stride[0] == 1 and value.size[0] != 1
    padded = _up(int(value.size[0 if by_columns else 1]), unit)
    return builder.realize(builder.copy(value, builder.sizes((1, padded) if by_columns else (padded, 1))))


def _begins_well(size: Sequence[Any], stride: Sequence[Any], offset: Any, unit: int) -> bool:
    if offset % unit != 0:
        return False
    return any(bool(stride[dim] == 1 and (size[1 - dim] == 1 or stride[1 - dim] % unit == 0)) for dim in (0, 1))


def _up(count: int, unit: int) -> int:
    return -(-count // unit) * unit
