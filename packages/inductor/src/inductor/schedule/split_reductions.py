"""Long reductions of few rows, cut in two steps for devices whose processors don't share a row.

Flows in: `Program`. Flows out: a program in which such a reduction is partial results of parts of each row, then a reduction
of these. It comes before fusion, which joins the first steps of reductions that read the same.
"""

from __future__ import annotations

from dataclasses import replace

import sympy

from inductor.ir.body import Body, kept
from inductor.ir.indexing import contiguous_strides
from inductor.ir.operations import Expr, Load, Op, Reduce, Ref, Store, Symbol
from inductor.ir.program import Buffer, LoopOp, Operation, Program
from inductor.levels import dependencies, split
from inductor.options import Options
from inductor.primitives import REDUCTIONS
from inductor.traits import TraitsOf
from symshapes import simplify_with_ranges

ROWS_ENOUGH = 512
"""With this many rows each can have a processor."""
LONG_ROW = 1 << 14
PARTS_WANTED = 1024
"""Parts of all rows together."""
SHORTEST_PART = 1024


def split_reductions(program: Program, options: Options, traits: TraitsOf) -> Program:
    """The program with long reductions of few rows in two steps, as the options say or where a device wants it."""
    devices = {op.device for op in program.operations if isinstance(op, LoopOp)}
    wanted = options.split_reductions
    if wanted == "auto":
        devices = {device for device in devices if not traits(device).shares_rows}
    if not wanted or not devices:
        return program
    operations: list[Operation] = []
    buffers = dict(program.buffers)
    for op in program.operations:
        parts = _parts(op) if isinstance(op, LoopOp) and op.device in devices else 1
        if isinstance(op, LoopOp) and parts > 1:
            operations += _split(op, parts, buffers)
        else:
            operations.append(op)
    return replace(program, operations=operations, buffers=buffers)


def _parts(loop: LoopOp) -> int:
    """How many parts to cut each row into; 1 if the loop is to stay whole. The parts divide the outermost inner loop."""
    sizes = (*loop.outer_sizes, *loop.inner_sizes)
    if not loop.inner_sizes or loop.initial or not all(size.is_Integer for size in sizes):
        return 1
    rows = int(sympy.prod(loop.outer_sizes))
    row = int(sympy.prod(loop.inner_sizes))
    if rows == 0 or rows >= ROWS_ENOUGH or row < LONG_ROW:
        return 1
    levels = split(loop.body)
    ops = loop.body.ops
    if len(levels.passes) != 1 or levels.passes[0].stores or any(isinstance(ops[at], Store) for at in levels.outer[0]):
        return 1
    if any(REDUCTIONS[loop.body.reduction(at).kind].finds_position for at in levels.passes[0].reductions):
        return 1
    most = min(row // SHORTEST_PART, PARTS_WANTED // rows, int(loop.inner_sizes[0]))
    return next((parts for parts in range(most, 1, -1) if int(loop.inner_sizes[0]) % parts == 0), 1)


def _split(loop: LoopOp, parts: int, buffers: dict[str, Buffer]) -> list[LoopOp]:
    body = loop.body
    reductions = split(body).passes[0].reductions
    part = sympy.Symbol("part", integer=True, nonnegative=True)
    count = sympy.Integer(parts)
    size = (*loop.outer_sizes, count)
    strides = contiguous_strides(size)
    place = sympy.Add(*(v * s for v, s in zip((*body.outer_vars, part), strides, strict=True)))
    partial: dict[int, str] = {}
    for at in reductions:
        dtype = body.ops[at].dtype
        assert dtype is not None
        name = f"{loop.writes[0]}_part{len(partial)}"
        partial[at] = name
        buffers[name] = Buffer(name, loop.device, dtype, size, strides)
    first = _first_step(body, partial, place, part, count, loop.inner_sizes, loop.outer_sizes)
    short = (sympy.Integer(int(loop.inner_sizes[0]) // parts), *loop.inner_sizes[1:])
    return [
        replace(loop, writes=tuple(partial.values()), outer_sizes=size, inner_sizes=short, body=first),
        replace(loop, inner_sizes=(count,), body=_second_step(body, partial, place, part)),
    ]


def _first_step(
    body: Body,
    partial: dict[int, str],
    place: Expr,
    part: Symbol,
    count: Expr,
    inner_sizes: tuple[Expr, ...],
    outer_sizes: tuple[Expr, ...],
) -> Body:
    """All that the reductions need, over parts of the rows, and stores of the partial results."""
    first = body.inner_vars[0]
    length = inner_sizes[0] // count
    moved = body.substitute({first: part * length + first}, (*body.outer_vars, part), body.inner_vars)
    ranges: dict[Symbol, Expr] = dict(zip(body.outer_vars, outer_sizes, strict=True))
    ranges.update(zip(body.inner_vars, (length, *inner_sizes[1:]), strict=True))
    ranges[part] = count
    ops = _only(_simplified(moved, ranges), set(partial))
    stores = [Store(name, place, ops[1][at], None) for at, name in partial.items()]
    return Body(moved.outer_vars, moved.inner_vars, (*ops[0], *stores))


def _simplified(body: Body, ranges: dict[Symbol, Expr]) -> Body:
    ops = tuple(op.with_index(lambda index: simplify_with_ranges(index, ranges)) for op in body.ops)
    return Body(body.outer_vars, body.inner_vars, ops)


def _only(body: Body, wanted: set[int]) -> tuple[tuple[Op, ...], dict[int, Ref]]:
    """The operations that `wanted` ones need, and where each old one went."""
    operands = dependencies(body)
    needed = set(wanted)
    for at in range(len(body.ops) - 1, -1, -1):
        if at in needed:
            needed.update(operands[at])
    return kept(body.ops, needed)


def _second_step(body: Body, partial: dict[int, str], place: Expr, part: Symbol) -> Body:
    """The reductions of the partial results, and what follows them."""
    moved: dict[int, Ref] = {}
    ops: list[Op] = []
    levels = split(body)
    outer = {at for level in levels.outer for at in level}
    for at, op in enumerate(body.ops):
        if isinstance(op, Reduce) and at in partial:
            ops.append(Load(partial[at], place, None, op.dtype))
            ops.append(Reduce(op.kind, Ref(len(ops) - 1), op.dtype))
        elif at in outer:
            ops.append(op.with_operands(lambda ref: moved[ref.at]))
        else:
            continue
        moved[at] = Ref(len(ops) - 1)
    return Body(body.outer_vars, (part,), tuple(ops))
