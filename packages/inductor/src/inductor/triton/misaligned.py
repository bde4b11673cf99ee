"""Results of products whose rows begin anywhere in memory, not where a vector does (a vocabulary of 50257): by themselves they would be
written an element at a time, which takes a fourth of the whole.

Flows in: a kernel and the `Product` that it is. Flows out: every how many rows begin alike. A block made of such rows, whose columns begin
as much before a multiple of its width as they lie behind a vector's start, writes whole vectors.
"""

from __future__ import annotations

from inductor.device import Kernel
from inductor.ir.operations import Store
from inductor.schedule.space import index_of
from inductor.triton.blocks import WORD
from inductor.triton.product import Product

LEAST_FULL = 0.9
"""Part of the blocks' rows that there are: rows that begin alike are few, and a block of them may be mostly empty."""


def rows_apart(kernel: Kernel, product: Product, height: int) -> int:
    """Every how many rows begin alike; 1 where all do, or where it does not pay.

    Args:
        height: rows of a block.
    """
    unit, step = _unit(kernel), _step(kernel, product)
    rows = product.sizes(kernel)[0]
    if step is None or step % unit == 0 or not rows.is_Integer:
        return 1
    alike = -(-int(rows) // unit)
    blocks = unit * -(-alike // height)
    return unit if rows >= LEAST_FULL * blocks * height else 1


def _unit(kernel: Kernel) -> int:
    """Elements of a vector of the narrowest result."""
    return WORD // min(arg.dtype.itemsize for arg in kernel.args if arg.role in ("out", "inout"))


def _step(kernel: Kernel, product: Product) -> int | None:
    """How far the rows of all results lie from each other; None if that differs, or columns do not lie side by side."""
    row, column = kernel.body.outer_vars[product.rows], kernel.body.outer_vars[product.columns]
    steps = set()
    for op in kernel.body.ops:
        if isinstance(op, Store):
            found = dict(index_of(op.index, frozenset(kernel.body.outer_vars)).coefficients)
            steps.add(found.get(row) if op.mode is None and found.get(column) == 1 else None)
    step = steps.pop() if len(steps) == 1 else None
    return step if isinstance(step, int) else None
