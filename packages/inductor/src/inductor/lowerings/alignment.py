"""Products of matrices by the library, of sizes and on rows that its fastest kernels take.

Those of tensor cores read 16 bytes at a time: sizes that are no multiples of that are padded, the steps with zeros. What the result
has too much nobody reads.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from inductor.ir.builder import Builder
from inductor.ir.indexing import ZERO, Index
from inductor.ir.program import ExternOp
from inductor.ir.scalar import Scalar, index_value, masked, prim
from inductor.ir.tensor import Cost, TensorValue
from inductor.ir.views import Slice
from inductor.lowerings.registry import VIEWS
from inductor.passes.patterns import is_static
from inductor.traits import TraitsOf

BYTES = 16
DEEP = 256
"""Steps of a product for which copying its factors or its result takes a small part of the time that it saves."""
LARGE = 1 << 28
"""Multiplications of one."""
MANY = 512
"""Rows of one that is worth a kernel of the compiler's own."""
SMALL = 1 << 26
"""Multiplications of one that any kernel has made within microseconds: what it costs is the call. The library takes tens of them on the
host to find a kernel for rows that begin anywhere, a launch takes less than ten."""
FEW = 1 << 22
"""Elements of its factors and its result, of which the same is true."""
PRODUCTS = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
"""Products of two matrices, their last arguments."""
MULTIPLYING = (*PRODUCTS, torch.ops.aten.bmm.default, torch.ops.aten.baddbmm.default)
"""And of several pairs of them."""


def in_aligned_rows(builder: Builder, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> Any:
    """The node's product, of the last two arguments; NotImplemented where the device does not care, or nothing is to be done."""
    node, out = builder.node, builder.meta()
    assert node is not None
    fakes = [given.meta["val"] for given in node.all_input_nodes]
    if out.dim() != 2 or out.dtype not in builder.traits(out.device).aligned_products or not all(map(is_static, fakes)):
        return NotImplemented
    (rows, columns), steps = out.shape, int(args[-1].size[0])
    if steps < DEEP or rows * columns * steps < LARGE:
        return NotImplemented
    unit = BYTES // out.dtype.itemsize
    one, other = (given.meta["val"] for given in node.args[-2:] if isinstance(given, fx.Node))
    by_columns = [_lie_in_columns(fake) for fake in (one, other)]
    padded = _up(rows, unit) if by_columns[0] else rows, _up(columns, unit)
    deep = _up(steps, unit)
    if (*padded, deep) == (rows, columns, steps) and all(_begins_well(fake, unit) for fake in (one, other)):
        return NotImplemented
    factors = (
        _padded(builder, args[-2], (padded[0], deep), by_columns[0], unit),
        _padded(builder, args[-1], (deep, padded[1]), by_columns[1], unit),
    )
    added = []
    for value in args[:-2]:
        size = [int(n) if n == 1 else p for n, p in zip(value.size, padded[2 - len(value.size) :], strict=True)]
        added.append(_padded(builder, value, size, False, 1))
    buffer = builder.new_buffer(out.device, out.dtype, builder.sizes(padded))
    given = builder.extern_args((*added, *factors))
    builder.program.operations.append(
        ExternOp((buffer.name,), node.target, given, builder.extern_args(dict(kwargs or {})), (node,))
    )
    result = builder.in_memory(buffer)
    for dim, size in enumerate(builder.sizes(out.size())):
        if result.size[dim] != size:
            shown = tuple(size if at == dim else n for at, n in enumerate(result.size))
            result = result.view(Slice(shown, dim, ZERO, builder.size(1)))
    return result


class _Product(NamedTuple):
    """A product of two matrices of known sizes, on a device that has kernels for rows that begin anywhere. `unit`: elements, of which
    rows that begin well begin at a multiple."""

    out: torch.Tensor
    factors: list[torch.Tensor]
    rows: int
    steps: int
    columns: int
    unit: int

    @property
    def size(self) -> int:
        """Multiplications."""
        return self.rows * self.steps * self.columns


def _product_of(node: fx.Node, traits: TraitsOf) -> _Product | None:
    """A call as such a product; None if it is none."""
    if node.target not in PRODUCTS:
        return None
    out, factors = node.meta["val"], _factors(node)
    if not all(map(is_static, (out, *factors))):
        return None
    found = traits(out.device)
    if not (found.misaligned_rows and out.dtype in found.aligned_products and out.dtype in found.contractions):
        return None
    rows, columns = out.shape
    return _Product(out, factors, rows, factors[0].shape[1], columns, BYTES // out.dtype.itemsize)


def leaves_misaligned(node: fx.Node, traits: TraitsOf) -> bool:
    """Whether a call is a large product that leaves its graph in rows that begin anywhere, of factors that lie well, on a device that
    has kernels for that."""
    found = _product_of(node, traits)
    return (
        found is not None
        and found.columns % found.unit != 0
        and found.steps % found.unit == 0
        and found.steps >= DEEP
        and found.rows >= MANY
        and found.size >= LARGE
        and all(_begins_well(fake, found.unit) for fake in found.factors)
        and _leaves(node)
    )


def is_small_and_misaligned(node: fx.Node, traits: TraitsOf) -> bool:
    """Whether a call is a small product of rows, or into rows, that begin anywhere, on a device that has kernels for that: calling the
    library takes longer than multiplying."""
    found = _product_of(node, traits)
    return (
        found is not None
        and min(found.rows, found.columns, found.steps) > 1
        and found.size <= SMALL
        and sum(fake.numel() for fake in (found.out, *found.factors)) <= FEW
        and not (found.columns % found.unit == 0 and all(_begins_well(fake, found.unit) for fake in found.factors))
    )


def is_of_one_row(node: fx.Node) -> bool:
    """Whether a call is a product of, or with, one row or column, which is no product to multiply by blocks."""
    if node.target not in MULTIPLYING:
        return False
    *_, one, other = (given.meta["val"].shape for given in node.args if isinstance(given, fx.Node))
    return any(isinstance(size, int) and size == 1 for size in (one[-2], other[-1]))


def _factors(node: fx.Node) -> list[torch.Tensor]:
    return [given.meta["val"] for given in node.args[-2:] if isinstance(given, fx.Node)]


def _leaves(node: fx.Node) -> bool:
    """Whether a call's result leaves its graph, in whatever shape."""
    return any(user.op == "output" or (user.target in VIEWS and _leaves(user)) for user in node.users)


def _padded(builder: Builder, value: TensorValue, size: Sequence[int], by_columns: bool, unit: int) -> TensorValue:
    """The value with zeros behind its end, in rows or columns that begin at multiples of `unit` elements; itself, if it is that."""
    wanted = builder.sizes(size)
    outside = [dim for dim, (n, w) in enumerate(zip(value.size, wanted, strict=True)) if n != w]
    layout = value.layout() if value.source.buffer is not None else None
    if not outside and layout is not None and _begin_well(layout.size, layout.stride, layout.offset, unit):
        return value

    def compute(index: Index) -> Scalar:
        tests = [prim.lt(index_value(index[dim]), int(value.size[dim])) for dim in outside]
        if not tests:
            return value.load(index)
        return masked(functools.reduce(operator.and_, tests), lambda: value.load(index), 0)

    made = builder.pointwise(value.device, value.dtype, wanted, compute, value.cost + Cost(len(outside)))
    if len(wanted) == 2:
        made.source.stride = builder.sizes((1, _up(size[0], unit)) if by_columns else (_up(size[1], unit), 1))
    return builder.realize(made)


def _lie_in_columns(fake: torch.Tensor) -> bool:
    return fake.stride(0) == 1 and fake.stride(1) != 1


def _begins_well(fake: torch.Tensor, unit: int) -> bool:
    return _begin_well(fake.shape, fake.stride(), fake.storage_offset(), unit)


def _begin_well(size: Sequence[Any], stride: Sequence[Any], offset: Any, unit: int) -> bool:
    """Whether rows or columns, of elements side by side, begin at multiples of `unit` elements."""
    if unit == 1:
        return True
    if offset % unit != 0:
        return False
    return any(bool(stride[dim] == 1 and (size[1 - dim] == 1 or stride[1 - dim] % unit == 0)) for dim in (0, 1))


def _up(count: int, unit: int) -> int:
    return -(-count // unit) * unit
