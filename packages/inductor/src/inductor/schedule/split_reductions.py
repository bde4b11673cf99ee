"""Long reductions of few rows, cut in two steps for devices whose processors don't share a row.

Flows in: `Program`. Flows out: a program in which such a reduction is partial results of parts of each row, then a reduction
of these. It comes before fusion, which joins the first steps of reductions that read the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import sympy
import torch

from inductor.contractions import contraction_of
from inductor.ir.body import Body
from inductor.ir.indexing import contiguous_strides
from inductor.ir.operations import Expr, Load, Op, Reduce, Ref, Scan, Store, Symbol
from inductor.ir.program import Buffer, LoopOp, Operation, Program
from inductor.levels import only, split
from inductor.options import Options
from inductor.primitives import REDUCTIONS
from inductor.schedule.space import estimate, number
from inductor.schedule.traffic import contiguous_traffic
from inductor.schedule.variances import Variance, variances
from inductor.traits import TraitsOf
from symshapes import dataclass, simplify_with_ranges

ROWS_ENOUGH = 512
"""With this many rows each can have a processor."""
LONG_ROW = 1 << 14
PARTS_WANTED = 1024
"""Parts of all rows together."""
SHORTEST_PART = 1024
COLUMNS = 32
"""Rows whose elements lie side by side in memory (a sum over columns) are walked together, so many of them by one processor."""

LONGEST_ROW = 8192
"""Points of a row that one of a kernel's programs holds, with a total for each."""
FEWEST_PARTS = 96
"""With fewer some processors of a GPU have nothing to do."""
PROGRAMS = 256
"""Parts of sums that kernels of rows keep totals for: two for each of a GPU's processors."""
SHORTEST_WALK = 16
"""Rows of such a part: what a part's totals are written and read for is to be little beside them."""

BLOCK = 128 * 128
"""Results that one processor makes of a product of matrices."""
BLOCKS_WANTED = 160
"""Parts of all blocks together: no less than GPUs have processors."""
SHORTEST_PRODUCT = 512
SMALL_PRODUCT = 1 << 26
"""Multiplications of a product that a second launch, of the sum of its parts, takes longer than if it has few steps."""
FEW_STEPS = 2048
STEPS = 64
"""Of a product at a time: parts are made of so many."""


def split_reductions(program: Program, options: Options, traits: TraitsOf, alone: Collection[str] = ()) -> Split:
    """The program with long reductions of few rows in two steps, as the options say or where a device wants it.

    Args:
        alone: results of sums over columns that no kernel of rows can keep the totals of.
    """
    devices = {op.device for op in program.operations if isinstance(op, LoopOp)}
    wanted = options.split_reductions
    if wanted == "auto":
        devices = {device for device in devices if not traits(device).shares_rows}
    if not wanted or not devices:
        return Split(program, {})
    operations: list[Operation] = []
    buffers = dict(program.buffers)
    pairs = variances(program.operations)
    squares: dict[int, LoopOp] = {}
    """Loops that have become second steps."""
    rows = _rows(program, {device for device in devices if traits(device).keeps_totals})
    hoped: dict[str, str] = {}
    for at, op in enumerate(program.operations):
        if not isinstance(op, LoopOp) or op.device not in devices or at in squares:
            operations.append(squares.get(at, op))
            continue
        blocked = bool(traits(op.device).contractions) and contraction_of(op.body) is not None
        if blocked and _is_short_product(op):
            operations.append(op)
            continue
        beside = COLUMNS if blocked or _is_beside(op) else 1
        cut = (_cut_product(op) if blocked else None) or _cut(op, beside)
        totals = None if cut is None or beside == 1 or op.writes[0] in alone else _cut_totals(op, rows)
        if totals is not None:
            first, second = _split(op, *totals, True, buffers)
            operations += [first, second]
            hoped |= dict.fromkeys(first.writes, op.writes[0])
        elif cut is None:
            operations.append(op)
        elif at in pairs and _cut(pairs[at][1].squares, beside) == cut and _is_known(op):
            *steps, squares[pairs[at][0]] = _split_variance(pairs[at][1], *cut, beside > 1, buffers)
            operations += steps
        else:
            operations += _split(op, *cut, beside > 1, buffers)
    return Split(replace(program, operations=operations, buffers=buffers), hoped)


def _rows(program: Program, devices: Collection[torch.device]) -> dict[tuple[Expr, Expr], set[str]]:
    """By the number of rows and of columns: buffers of so many elements that loops which reduce such rows read, or that can be read
    and made beside them."""
    found: dict[tuple[Expr, Expr], set[str]] = {}
    loops = [op for op in program.operations if isinstance(op, LoopOp) and op.device in devices]
    for loop in loops:
        sizes = sympy.prod(loop.outer_sizes), sympy.prod(loop.inner_sizes)
        if any(isinstance(op, Reduce) for op in loop.body.ops) and sizes[1] != 1 and not _is_beside(loop):
            found.setdefault(sizes, set()).update(_of_space(loop, sizes, program))
    for sizes, names in found.items():
        beside = [names_of for loop in loops if (names_of := _of_space(loop, sizes, program))]
        while more := {name for each in beside if not names.isdisjoint(each) for name in each} - names:
            names |= more
    return found


def _of_space(loop: LoopOp, sizes: tuple[Expr, Expr], program: Program) -> set[str]:
    """The buffers of a loop through that many points which have an element for each."""
    points = sizes[0] * sizes[1]
    if sympy.prod((*loop.outer_sizes, *loop.inner_sizes)) != points:
        return set()
    names = {*loop.writes, *(load.buffer for load in loop.body.loads())}
    return {name for name in names if sympy.prod(program.buffers[name].size) == points}


def _cut_totals(loop: LoopOp, rows: Mapping[tuple[Expr, Expr], set[str]]) -> tuple[int, Expr] | None:
    """`_cut` of a sum over columns whose memory some kernel walks through by rows, in parts for the programs of that kernel."""
    columns, count = sympy.prod(loop.outer_sizes), sympy.prod(loop.inner_sizes)
    read = {load.buffer for load in loop.body.loads()}
    if columns > LONGEST_ROW or rows.get((count, columns), set()).isdisjoint(read):
        return None
    if any(loop.body.reduction(at).kind != "sum" for at in split(loop.body).passes[0].reductions):
        return None
    known = ((at, int(size)) for at, size in enumerate(loop.inner_sizes) if size.is_Integer)
    most = min(PROGRAMS, estimate(number(count)) // SHORTEST_WALK)
    if most < FEWEST_PARTS:
        return None
    parts, at = max(((_divisor(size, most), -at) for at, size in known), default=(0, 0))
    return (-at, sympy.Integer(parts)) if parts >= FEWEST_PARTS else None


def _is_known(loop: LoopOp) -> bool:
    """Whether all of a loop's sizes are."""
    return all(size.is_Integer for size in (*loop.outer_sizes, *loop.inner_sizes))


def _cut_product(loop: LoopOp) -> tuple[int, Expr] | None:
    """`_cut` of a product of matrices with fewer blocks than there are processors: by parts that are whole blocks of steps."""
    if len(loop.inner_sizes) != 1 or not all(size.is_Integer for size in (*loop.outer_sizes, *loop.inner_sizes)):
        return None
    (steps,), points = map(int, loop.inner_sizes), int(sympy.prod(loop.outer_sizes))
    wanted = min(BLOCKS_WANTED * BLOCK // max(points, 1), steps // SHORTEST_PRODUCT)
    if loop.initial or wanted < 2 or steps % STEPS:
        return None
    parts = _divisor(steps // STEPS, wanted)
    return (0, sympy.Integer(parts)) if parts > 1 else None


def _is_short_product(loop: LoopOp) -> bool:
    """Whether one launch does a product of matrices about as fast as two would."""
    if not _is_known(loop):
        return False
    steps, points = int(sympy.prod(loop.inner_sizes)), int(sympy.prod(loop.outer_sizes))
    return len(loop.inner_sizes) == 1 and steps < FEW_STEPS and points * steps <= SMALL_PRODUCT


def _is_beside(loop: LoopOp) -> bool:
    """Whether more of what is read lies side by side for different rows than within a row."""
    body = loop.body
    sizes = zip((*body.outer_vars, *body.inner_vars), (*loop.outer_sizes, *loop.inner_sizes), strict=True)
    traffic = contiguous_traffic(body, dict(sizes))
    columns = max((traffic.get(var, 0) for var in body.outer_vars), default=0)
    return columns > sum(traffic.get(var, 0) for var in body.inner_vars)


def _cut(loop: LoopOp, beside: int) -> tuple[int, Expr] | None:
    """Which inner loop to cut, and into how many parts; None if the reduction is to stay whole. `beside`: rows of one processor."""
    if not loop.inner_sizes or loop.initial or not all(size.is_Integer for size in loop.outer_sizes):
        return None
    rows = -(-int(sympy.prod(loop.outer_sizes)) // beside)
    row = beside * estimate(number(sympy.prod(loop.inner_sizes)))
    if rows == 0 or rows >= ROWS_ENOUGH or row < LONG_ROW:
        return None
    levels = split(loop.body)
    ops = loop.body.ops
    if (
        any(isinstance(op, Scan) for op in ops)
        or len(levels.passes) != 1
        or levels.passes[0].stores
        or any(isinstance(ops[at], Store) for at in levels.outer[0])
    ):
        return None
    if any(REDUCTIONS[loop.body.reduction(at).kind].finds_position for at in levels.passes[0].reductions):
        return None
    most = min(row // (beside * max(SHORTEST_PART // beside, 1)), PARTS_WANTED // rows)
    first, *rest = loop.inner_sizes
    found = [(dim, _divisor(int(size), most)) for dim, size in enumerate(loop.inner_sizes) if size.is_Integer and size]
    best = max(found, key=lambda f: f[1], default=(0, 1))
    # Parts of an outer loop lie together in memory.
    dim, parts = next((f for f in found if 2 * f[1] > most), best)
    if 2 * parts <= most and not first.is_Integer and estimate(number(sympy.prod(rest))) >= SHORTEST_PART // 4:
        return 0, first
    return (dim, sympy.Integer(parts)) if parts > 1 else None


def _divisor(size: int, most: int) -> int:
    """The largest one that is not above `most`."""
    return next(parts for parts in range(min(size, most), 0, -1) if size % parts == 0)


@dataclass(frozen=True)
class Split:
    """A program whose long reductions are in two steps."""

    program: Program
    hoped: Mapping[str, str]
    """Buffers of partial results that are to be totals of kernels of rows, with what they are partial results of."""


@dataclass
class _Parts:
    """Parts of a loop's rows, and the buffers of their results. Those of rows that lie `beside` each other do so, too."""

    loop: LoopOp
    dim: int
    count: Expr
    beside: bool

    def __post_init__(self) -> None:
        loop, dim, count = self.loop, self.dim, self.count
        self.variable = sympy.Symbol("part", integer=True, nonnegative=True)
        self.size = (*loop.outer_sizes, count)
        self.strides = contiguous_strides(self.size)
        if self.beside:
            self.strides = (*contiguous_strides(loop.outer_sizes), sympy.prod(loop.outer_sizes))
        variables = (*loop.body.outer_vars, self.variable)
        self.place = sympy.Add(*(v * s for v, s in zip(variables, self.strides, strict=True)))
        self.length = sympy.Integer(1) if count == loop.inner_sizes[dim] else loop.inner_sizes[dim] // count
        self.short = (*loop.inner_sizes[:dim], self.length, *loop.inner_sizes[dim + 1 :])

    def buffer(self, at: int, dtype: torch.dtype | None, buffers: dict[str, Buffer]) -> str:
        """A new one, for the partial results of one reduction."""
        assert dtype is not None
        name = f"{self.loop.writes[0]}_part{at}"
        buffers[name] = Buffer(name, self.loop.device, dtype, self.size, self.strides)
        return name

    def body(self) -> Body:
        """The loop's over one part."""
        body, cut = self.loop.body, self.loop.body.inner_vars[self.dim]
        start = self.variable * self.length
        moved = body.substitute({cut: start + cut}, (*body.outer_vars, self.variable), body.inner_vars)
        ranges = dict(zip((*moved.outer_vars, *moved.inner_vars), (*self.size, *self.short), strict=True))
        return _simplified(moved, ranges)

    def first(self, body: Body, names: Sequence[str]) -> LoopOp:
        """The loop over all parts."""
        return replace(self.loop, writes=tuple(names), outer_sizes=self.size, inner_sizes=self.short, body=body)


def _split(loop: LoopOp, dim: int, count: Expr, beside: bool, buffers: dict[str, Buffer]) -> list[LoopOp]:
    """The two steps."""
    parts, body = _Parts(loop, dim, count, beside), loop.body
    partial: dict[int, str] = {}
    for at in split(body).passes[0].reductions:
        partial[at] = parts.buffer(len(partial), body.ops[at].dtype, buffers)
    second = _second_step(body, partial, parts.place, parts.variable)
    return [
        parts.first(_first_step(parts.body(), partial, parts.place), [*partial.values()]),
        replace(loop, inner_sizes=(count,), body=second),
    ]


def _split_variance(
    variance: Variance, dim: int, count: Expr, beside: bool, buffers: dict[str, Buffer]
) -> list[LoopOp]:
    """The first step of both, and the second one of each."""
    parts = _Parts(variance.mean, dim, count, beside)
    dtype = variance.mean.body.ops[variance.sum].dtype
    names = [parts.buffer(at, dtype, buffers) for at in range(2)]
    points = int(sympy.prod(parts.short))
    first = variance.first_step(names, parts.place, parts.body(), points)
    mean, squares = variance.second_steps(names, parts.place, parts.variable, points)
    return [
        parts.first(first, names),
        replace(variance.mean, inner_sizes=(count,), body=mean),
        replace(variance.squares, inner_sizes=(count,), body=squares),
    ]


def _first_step(moved: Body, partial: dict[int, str], place: Expr) -> Body:
    """All that the reductions need, over parts of the rows, and stores of the partial results."""
    ops = only(moved, partial)
    stores = [Store(name, place, ops[1][at], None) for at, name in partial.items()]
    return Body(moved.outer_vars, moved.inner_vars, (*ops[0], *stores))


def _simplified(body: Body, ranges: dict[Symbol, Expr]) -> Body:
    ops = tuple(op.with_index(lambda index: simplify_with_ranges(index, ranges)) for op in body.ops)
    return Body(body.outer_vars, body.inner_vars, ops)


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
