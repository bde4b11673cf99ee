"""One body out of a group's members.

Flows in: a `Group`. Flows out: a `Body` over the group's variables in which values that a member stores are handed to the
later members that load them, equal operations happen once, and what nobody needs is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import sympy
import torch

from inductor.ir.body import Body, kept
from inductor.ir.operations import Constant, Expr, Indirect, Load, Op, Ref, Round, Store, Symbol, Where
from inductor.levels import live_ops
from inductor.ops import compute_dtype
from inductor.schedule.nodes import Group, Member
from inductor.schedule.space import Number, index_of, remap_index
from symshapes import HALF_DTYPES


def merge(group: Group, dtype_of: Callable[[str], torch.dtype], dropped: Collection[str] = ()) -> Body:
    """The members' bodies as one, in program order.

    A value that is handed on in place of a load of bfloat16 or float16 memory is rounded as the memory would have
    rounded it, so that fusing changes no result.

    Args:
        dtype_of: memory dtype of a buffer.
        dropped: buffers that no one else reads, which are not stored.
    """
    if len(group.members) == 1:
        return without_dead(group.members[0].loop.body, dropped)  # over its own variables, as the group is
    merger = _Merger(group, dtype_of)
    for member in group.members:
        merger.add(member)
    body = Body(tuple(d.var for d in group.outer), tuple(d.var for d in group.inner), tuple(merger.ops))
    return without_dead(body, dropped)


def without_dead(body: Body, dropped: Collection[str] = ()) -> Body:
    """The body without the stores to `dropped` buffers and without operations that no store needs."""
    live = live_ops(body, dropped=dropped)
    if all(live):
        return body
    ops, _ = kept(body.ops, {at for at, needed in enumerate(live) if needed})
    return Body(body.outer_vars, body.inner_vars, ops)


class _Merger:
    def __init__(self, group: Group, dtype_of: Callable[[str], torch.dtype]) -> None:
        self.ops: list[Op] = []
        self._dtype_of = dtype_of
        self._variables = group.variables()
        self._sizes: dict[Symbol, Number] = {d.var: d.size for d in group.dims}
        self._known: dict[Op, Ref] = {}
        self._stored: dict[str, Ref] = {}
        self._indirects: dict[Any, tuple[Symbol, Ref]] = {}

    def add(self, member: Member) -> None:
        old_vars = frozenset(member.remap)
        same = all(len(new) == 1 and new[0] == (old, 1) for old, new in member.remap.items())
        renamed: dict[Symbol, Symbol] = {}
        rewritten: dict[Expr, Expr] = {}
        values: list[Ref] = []

        def rewrite(expr: Expr) -> Expr:
            if same and not renamed:
                return expr
            if expr not in rewritten:
                index = remap_index(index_of(expr, old_vars), member.remap, self._variables, self._sizes)
                rewritten[expr] = index.expr().xreplace(renamed)
            return rewritten[expr]

        for op in member.loop.body.ops:
            moved = op.with_operands(lambda ref: values[ref.at])
            match moved:
                case Indirect():
                    values.append(self._indirect(moved, renamed))
                case Load(buffer, mask=mask) if buffer in self._stored:
                    values.append(self._forward(buffer, mask))
                case Store(buffer, value=value):
                    self.ops.append(moved.with_index(rewrite))
                    self._stored[buffer] = value
                    values.append(Ref(len(self.ops) - 1))
                case _:
                    values.append(self._append(moved.with_index(rewrite)))

    def _append(self, op: Op) -> Ref:
        found = self._known.get(op)
        if found is None:
            self.ops.append(op)
            found = self._known[op] = Ref(len(self.ops) - 1)
        return found

    def _indirect(self, op: Indirect, renamed: dict[Symbol, Symbol]) -> Ref:
        """Members may give one name to different positions, and different names to one."""
        key = (op.value, op.size, op.mask, op.rule)
        if key not in self._indirects:
            symbol = sympy.Symbol(f"indirect{len(self._indirects)}", integer=True, nonnegative=True)
            self.ops.append(replace(op, symbol=symbol))
            self._indirects[key] = symbol, Ref(len(self.ops) - 1)
        renamed[op.symbol], ref = self._indirects[key]
        return ref

    def _forward(self, buffer: str, mask: Ref | None) -> Ref:
        """What a load of a buffer this body has stored yields."""
        value = self._stored[buffer]
        dtype = self._dtype_of(buffer)
        if dtype in HALF_DTYPES:
            made = self.ops[value.at]
            if not (isinstance(made, Round) and made.to is dtype):
                value = self._append(Round(value, dtype))
        if mask is None:
            return value
        compute = compute_dtype(dtype)
        zero = False if compute is torch.bool else 0.0 if compute.is_floating_point else 0
        return self._append(Where(mask, value, self._append(Constant(zero, compute)), compute))
