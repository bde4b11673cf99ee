"""Totals that a kernel of rows keeps: which of its variables they are over, and what is the same for all of these.

Flows in: a `Kernel`, or its body. Flows out: positions of outer variables, and of operations.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from inductor.device import Kernel
from inductor.ir.body import Body
from inductor.ir.operations import Indirect, Load, Op, Reduce, Scan, Store, Symbol
from inductor.levels import dependencies, live_ops


def is_total(op: Op) -> bool:
    """Whether it is a store of what is part of a total."""
    return isinstance(op, Store) and op.mode == "total"


def walked(kernel: Kernel) -> tuple[int, ...]:
    """The outer variables that the kernel's totals are over, which are the same for all; none if it keeps none."""
    body = kernel.body
    for op in body.ops:
        if isinstance(op, Store) and is_total(op):
            return tuple(at for at, var in enumerate(body.outer_vars) if not op.index.has(var))
    return ()


def fixed(body: Body, walked: Sequence[Symbol], inner: Collection[int]) -> frozenset[int]:
    """Operations that are the same at all values of these variables. Not what reads memory that the kernel writes, or but one element for
    each program.

    Args:
        inner: those that have a value at each point of a row.
    """
    needs, live = dependencies(body), live_ops(body)
    written = {op.buffer for op in body.stores()}
    found = set[int]()
    for at, op in enumerate(body.ops):
        moves = isinstance(op, Store | Reduce | Scan | Indirect) or not op.symbols().isdisjoint(walked)
        if isinstance(op, Load):
            moves |= op.buffer in written or op.mask is not None or at not in inner
        if live[at] and not moves and found.issuperset(needs[at]):
            found.add(at)
    return frozenset(found)
