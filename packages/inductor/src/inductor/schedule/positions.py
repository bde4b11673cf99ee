"""Positions that a graph is given are checked before anything else runs: the call, which has to know whether they are good, then waits for
a small kernel while the others run, and not for one at its end.

Flows in: `Program`. Flows out: a program with a loop for each such tensor of positions, which leaves them counted from the start, with -1
for what is out of range, and loops that read these without checking them again: they run beside the call that waits, and write nothing there.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sympy
import torch

from inductor.ir.body import Body, checks_positions, is_checked
from inductor.ir.indexing import contiguous_strides
from inductor.ir.loops import outer_symbol
from inductor.ir.operations import (
    Cast,
    Constant,
    Elementwise,
    Expr,
    IndexExpr,
    Indirect,
    Load,
    Op,
    Ref,
    Store,
    Symbol,
    Where,
)
from inductor.ir.program import Buffer, ExternOp, LoopOp, Operation, Program
from inductor.ops import INDEX_RULES
from inductor.options import Options
from inductor.schedule.nodes import buffer_bytes, mutated
from inductor.traits import TraitsOf

LARGE = 1 << 25
"""Bytes of all that a graph reads and writes: kernels that run longer than another launch takes."""
MANY = 64
"""So many times the bytes of the positions."""
WAYS = (Constant, IndexExpr, Elementwise, Cast, Where)
"""Operations, besides loads, by which positions come about before they are checked."""
_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)
"""What positions are left in: the narrowest that holds them, since kernels read them often and they stay for long."""
CHECKED = sympy.Symbol("checked", integer=True, nonnegative=True)


def check_first(program: Program, options: Options, traits: TraitsOf) -> Program:
    """The program with given positions checked first, where a call waits for that and there is work to wait beside."""
    loops = (op for op in program.operations if isinstance(op, LoopOp) and checks_positions(op.body.ops))
    if options.index_checks != "sync" or not any(traits(loop.device).raises_later for loop in loops):
        return program
    names = [name for name in program.inputs if isinstance(name, str)]
    changed = {name for op in program.operations if isinstance(op, ExternOp) for name in mutated(op)}
    checks = _Checks(program, frozenset(names) - changed - {*program.written.values()})
    operations: list[Operation] = []
    for op in program.operations:
        if isinstance(op, LoopOp) and traits(op.device).raises_later:
            op = checks.without(op)
            checks.note(op)
        operations.append(op)
    if not checks.loops:
        return program
    return replace(program, operations=[*checks.loops, *operations], buffers=checks.buffers)


class _Checks:
    """The loops so far. `given`: buffers that hold the same all along."""

    def __init__(self, program: Program, given: Container[str]) -> None:
        self.loops: list[LoopOp] = []
        self.buffers = dict(program.buffers)
        self._given = given
        self._names: dict[Any, str] = {}
        self._made: dict[str, tuple[Body, Ref]] = {}
        self._bytes = sum(map(buffer_bytes, program.buffers.values()))

    def without(self, loop: LoopOp) -> LoopOp:
        """A loop that reads positions which were checked, where they can be."""
        body = loop.body
        if not checks_positions(body.ops):
            return loop
        ops: list[Op] = []
        place: list[Ref] = []
        for at, op in enumerate(body.ops):
            op = op.with_operands(lambda ref: place[ref.at])
            read = self._read(loop, at) if is_checked(op) else None
            if read is not None and isinstance(op, Indirect):
                ops.append(read)
                if read.dtype is not torch.int64:
                    ops.append(Cast(Ref(len(ops) - 1), torch.int64))
                op = replace(op, value=Ref(len(ops) - 1), rule="checked")
            ops.append(op)
            place.append(Ref(len(ops) - 1))
        return replace(loop, body=Body(body.outer_vars, body.inner_vars, tuple(ops)))

    def _read(self, loop: LoopOp, at: int) -> Load | None:
        """What reads the position that an `indirect` checks, from where a loop of its own leaves it; None if it had better be checked
        where it is."""
        body, op = loop.body, loop.body.ops[at]
        assert isinstance(op, Indirect)
        steps: list[Op] = []
        value = self._way(body, op.value.at, {}, steps)
        if value is None or op.mask is not None or not op.size.is_Integer or op.size == 0:
            return None
        ranges = dict(zip((*body.outer_vars, *body.inner_vars), (*loop.outer_sizes, *loop.inner_sizes), strict=True))
        used = set[Symbol]().union(*(step.symbols() for step in steps))
        variables = [var for var in ranges if var in used]
        sizes = tuple(ranges[var] for var in variables)
        if not used <= ranges.keys() or not all(size.is_Integer for size in sizes):
            return None
        if self._bytes < max(LARGE, MANY * math.prod(map(int, sizes)) * torch.int64.itemsize):
            return None
        own = {var: outer_symbol(k) for k, var in enumerate(variables)}
        steps = [step.with_index(lambda index: index.xreplace(own)) for step in steps]
        check = Indirect(value, op.size, CHECKED, None, op.rule)
        place = sympy.Add(*(v * s for v, s in zip(variables, contiguous_strides(sizes), strict=True)))
        key = loop.device, sizes, tuple(steps), check
        dtype = next(each for each in _INTEGERS if int(op.size) - 1 <= torch.iinfo(each).max)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"positions{len(self._names)}"
            self.buffers[name] = Buffer(name, loop.device, dtype, sizes, contiguous_strides(sizes))
            ops = tuple(_leaving(name, place.xreplace(own), steps, check, dtype))
            self.loops.append(LoopOp((name,), loop.device, sizes, (), Body(tuple(own.values()), (), ops), loop.origins))
        return Load(name, place, None, dtype)

    def _way(self, body: Body, at: int, moved: Mapping[Symbol, Expr], steps: list[Op]) -> Ref | None:
        """By which steps a value of a body comes about of what the graph is given, also by way of elementwise loops; None if it does not.

        Args:
            moved: the body's variables in terms of others.
            steps: those so far; the value's are added.
        """
        op = body.ops[at]
        if isinstance(op, Load):
            op = op.with_index(lambda index: index.xreplace(dict(moved)))
            made = self._made.get(op.buffer)
            if made is not None and op.mask is None:
                other, value = made
                return self._way(other, value.at, dict.fromkeys(other.outer_vars, op.index), steps)
            if op.buffer not in self._given or op.mask is not None:
                return None
        elif not isinstance(op, WAYS):
            return None
        operands = {ref: self._way(body, ref.at, moved, steps) for ref in op.operands}
        found = {ref: value for ref, value in operands.items() if value is not None}
        if len(found) < len(operands):
            return None
        op = op.with_operands(lambda ref: found[ref])
        if not isinstance(op, Load):
            op = op.with_index(lambda index: index.xreplace(dict(moved)))
        if op not in steps:
            steps.append(op)
        return Ref(steps.index(op))

    def note(self, loop: LoopOp) -> None:
        """Remember how an elementwise loop over one row makes its result."""
        body = loop.body
        if loop.inner_sizes or loop.initial or len(loop.outer_sizes) != 1 or len(loop.writes) != 1:
            return
        stores = list(body.stores())
        if len(stores) == 1 and stores[0].mode is None and stores[0].index == body.outer_vars[0]:
            self._made[loop.writes[0]] = body, stores[0].value


def _leaving(name: str, place: Expr, steps: Sequence[Op], check: Indirect, dtype: torch.dtype) -> list[Op]:
    """What a loop does that checks the position that comes about by `steps`, and leaves it, or -1, at a place in memory."""
    ops = [*steps, check]

    def number(value: int) -> Ref:
        return made(Constant(value, torch.int64))

    def made(op: Op) -> Ref:
        ops.append(op)
        return Ref(len(ops) - 1)

    size = int(check.size)
    least = -size if INDEX_RULES[check.rule].wraps else 0
    begun = made(Elementwise("ge", (check.value, number(least)), torch.bool))
    ended = made(Elementwise("lt", (check.value, number(size)), torch.bool))
    good = made(Elementwise("logical_and", (begun, ended), torch.bool))
    value = made(Where(good, made(IndexExpr(CHECKED, torch.int64)), number(-1), torch.int64))
    if dtype is not torch.int64:
        value = made(Cast(value, dtype))
    return [*ops, Store(name, place, value, None)]
