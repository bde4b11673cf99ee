"""Sums over columns as totals that a kernel of rows keeps: both read the same memory, which is read once.

Flows in: a group of long sums over columns, cut into parts (`split_reductions`). Flows out: a group that walks through all of its points,
and stores to each place the total of what they have for it. A kernel of rows of which it becomes part walks through the rows of a part one
after the other.
"""

from __future__ import annotations

from dataclasses import replace

from inductor.ir.body import Body
from inductor.ir.operations import Op, Reduce, Ref, Store, Symbol
from inductor.ir.program import LoopOp
from inductor.levels import split
from inductor.schedule.nodes import Group, Member
from inductor.schedule.space import Dim, Index, estimate, number, product
from inductor.schedule.split_reductions import FEWEST_PARTS, LONGEST_ROW

MOST_TOTALS, MOST_EACH = 16384, 8
"""Of a program, and of a column: its threads hold them all."""


def as_totals(group: Group) -> Group | None:
    """A group without inner dims that has the same results; None if there is one that is no sum over all of the inner points."""
    reduces = any(isinstance(op, Reduce) for member in group.members for op in member.loop.body.ops)
    if not reduces or group.totals or group.directions or group.keep_inner_order or group.copied or group.contracts:
        return None
    members = []
    totals: set[str] = set()
    for member in group.members:
        body = _totalled(member.loop.body)
        if body is None:
            return None
        totals |= {op.buffer for op in body.stores() if op.mode == "total"}
        loop = replace(
            member.loop, outer_sizes=(*member.loop.outer_sizes, *member.loop.inner_sizes), inner_sizes=(), body=body
        )
        members.append(Member(member.at, loop, member.remap))
    alone = (index for name, index in group.stores.items() if name not in totals)
    read = {load.buffer for member in group.members for load in member.loop.body.loads()}
    if not read.isdisjoint(totals) or any(_missing(index, group.dims) for index in alone):
        return None
    return replace(
        group,
        members=members,
        outer=group.dims,
        inner=(),
        opaque=group.opaque | totals,
        totals=frozenset(totals),
    )


def _totalled(body: Body) -> Body | None:
    """A body that does at each inner point what its sums need, and stores it as part of a total. None if something else is made of
    a sum, or a store happens once for all inner points."""
    levels = split(body)
    if not any(isinstance(op, Reduce) for op in body.ops):
        inner = all(at in levels.inner for at, op in enumerate(body.ops) if isinstance(op, Store))
        return Body((*body.outer_vars, *body.inner_vars), (), body.ops) if inner or not body.inner_vars else None
    ops: list[Op] = []
    place: dict[int, Ref] = {}
    for at, op in enumerate(body.ops):
        if isinstance(op, Reduce):
            if op.kind != "sum" or op.dtype is not body.ops[op.value.at].dtype:
                return None
            place[at] = place[op.value.at]
            continue
        sums = [ref.at for ref in op.operands if isinstance(body.ops[ref.at], Reduce)]
        moved = op.with_operands(lambda ref: place[ref.at])
        if isinstance(op, Store) and op.mode is None:
            if sums:
                moved = Store(op.buffer, op.index, place[op.value.at], "total")
            elif at not in levels.inner:
                return None
        elif sums or isinstance(op, Store):
            return None
        ops.append(moved)
        place[at] = Ref(len(ops) - 1)
    return Body((*body.outer_vars, *body.inner_vars), (), tuple(ops))


def reduces_rows(group: Group) -> bool:
    """Whether a group has reductions over its inner dims."""
    return bool(group.inner) and any(isinstance(op, Reduce) for member in group.members for op in member.loop.body.ops)


def keeps_totals(group: Group) -> bool:
    """Whether the group's kernel can keep its totals: each has a place for each point of a row, all are over the same outer dims, and the
    others are as many parts as a GPU has processors."""
    if not group.inner:
        return True  # not yet part of a kernel of rows
    row, size = product(d.size for d in group.inner), {d.var: d.size for d in group.dims}
    if (
        group.directions
        or not isinstance(row, int)
        or row > LONGEST_ROW
        or len(group.totals) > min(MOST_EACH, MOST_TOTALS // row)
    ):
        return False
    if any(not _is_linear(group.stores[name], group) for name in group.totals):
        return False
    walked = {_missing(group.stores[name], group.outer) for name in group.totals}
    if len(walked) != 1 or any(_missing(group.stores[name], group.inner) for name in group.totals):
        return False
    (over,) = walked
    parts = product(size[d.var] for d in group.outer if d.var not in over)
    return bool(over) and estimate(parts) >= FEWEST_PARTS


def _is_linear(index: Index, group: Group) -> bool:
    """Whether a group's variables stand in an index by themselves."""
    return isinstance(index.rest, int) or group.variables().isdisjoint(index.rest.free_symbols)


def _missing(index: Index, dims: tuple[Dim, ...]) -> frozenset[Symbol]:
    """Variables of dims that an index does not have."""
    return frozenset(d.var for d in dims if number(d.size) != 1 and index.coefficient(d.var) == 0)


def is_total(loop: LoopOp) -> bool:
    """Whether a loop keeps totals."""
    return any(op.mode == "total" for op in loop.body.stores())
