"""The plan of a kernel: which loop is vectorised, how far it is unrolled, what runs in parallel.

Flows in: a `Kernel`. Flows out: `Plan`: the simplified body, its loops in their parts, and for each operation whether it
varies over the lanes.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import replace

import sympy

from cpu_codegen.index import Expr, Symbol, stride
from cpu_codegen.loops import Loop, product, simplify
from cpu_codegen.operations import Cost, cost_of, way_of
from cpu_codegen.pairs import is_alternate, is_pair, joined
from inductor import (
    REDUCTIONS,
    Body,
    IndexExpr,
    Indirect,
    Kernel,
    Levels,
    Load,
    Op,
    Pass,
    Reduce,
    Store,
    dependencies,
)
from inductor import split as split_levels
from symshapes import dataclass


class Mode(enum.Enum):
    """What the vectorised loop is."""

    POINTWISE = "an outer loop; nothing is reduced"
    INNER = "the innermost loop of each pass: lanes are reduced in the end"
    OUTER = "an outer loop: each lane reduces on its own"


TILE = 16
"""Rows and columns of a tile of transposed loads: a cache line of float32."""
CHUNK = 4096
"""Elements of a row that is cut in chunks for the threads."""
TURNED_BYTES = 1 << 17
"""What the copies of turned loads of one tile of lanes may take on the stack."""
FEW_ROWS = 8
MANY_POINTS = 32768
FEW_COLUMNS = 1024
ENOUGH_POINTS = 4096
"""Few rows, or columns, of many points are reduced by all threads together."""
KEEP = 65536
"""Inner points up to which expensive values are kept in memory from one pass to the next."""
FOLD = 256
"""Additions of float32 after which a partial sum is folded into the total."""


@dataclass(frozen=True)
class Plan:
    """How to print a kernel."""

    body: Body
    levels: Levels
    mode: Mode
    outer: tuple[Loop, ...]
    """Outer loops but for the vectorised one, outermost first: the rows."""
    inner: tuple[Loop, ...]
    """Inner loops in order; in mode INNER the last one is vectorised."""
    vector: Loop
    varying: tuple[bool, ...]
    """For each operation: whether it differs between lanes."""
    unroll: int
    """Vectors per step of a reduction."""
    chunked: bool
    """Mode POINTWISE: whether rows are cut in chunks of CHUNK elements."""
    parallel: bool
    """Whether items may run beside each other."""
    apart: bool
    """Where they may not: whether they may that are of different points of the outermost loop."""
    cost: int
    """Of one point of all loops, in quarter nanoseconds."""
    tiled: Loop | None
    """Mode POINTWISE: the outer loop that runs in tiles together with the vectorised one; it is not in `outer`."""
    staged: frozenset[int]
    """Loads that are copied, turned around: by tiles or, in mode OUTER, for all inner points."""
    split: bool
    """Mode INNER: few rows of many points; the threads share the points of each row."""
    split_columns: bool
    """Mode OUTER: few columns of many points; the threads share the points."""
    kept: frozenset[int]
    """Mode INNER: expensive values of one pass that a later one needs again; they are kept in memory for a row."""

    @property
    def inner_points(self) -> int | None:
        """Size of the inner space if it is known."""
        return product(self.inner)

    def narrowed(self, body: Body) -> Plan:
        """Mode POINTWISE: the plan for what is left of the body at some of the points."""
        varying = varying_ops(body, dependencies(body), self.vector.variable, through_reduce=True)
        return replace(self, body=body, levels=split_levels(body), varying=varying)


def make_plan(kernel: Kernel, lanes: int) -> Plan:
    """Plan `kernel` for vectors of `lanes` lanes."""
    body, outer, inner = simplify(kernel)
    if not inner:
        body, outer = joined(body, outer)
    needs = dependencies(body)
    levels = _stores_after_loads(split_levels(body), body, needs)
    vector = _choose_vector(body, levels, needs, outer, inner, lanes)
    reduces = bool(levels.passes)
    if not reduces:
        mode = Mode.POINTWISE
    elif vector in inner:
        mode = Mode.INNER
    else:
        mode = Mode.OUTER
    if mode is Mode.INNER:
        inner = (*(loop for loop in inner if loop is not vector), vector)
    else:
        outer = tuple(loop for loop in outer if loop is not vector)
    outer = tuple(loop for loop in outer if loop.static != 1)
    varying = varying_ops(body, needs, vector.variable, mode is not Mode.INNER, levels.inner)
    rows = product(outer)
    collide = writes_collide(body)
    tile = _choose_tile(body, vector, outer) if mode is Mode.POINTWISE and not collide else None
    if tile is not None:
        outer = tuple(loop for loop in outer if loop is not tile[0])
    chunked = (
        mode is Mode.POINTWISE
        and tile is None
        and not (vector.static is not None and vector.static <= CHUNK)
        and not (rows is not None and rows >= 64)
    )
    points = product(inner)
    split = (
        mode is Mode.INNER
        and not collide
        and rows is not None
        and rows <= FEW_ROWS
        and (points is None or points >= MANY_POINTS)
    )
    split_columns = (
        mode is Mode.OUTER and not collide and not outer and _few_columns(body, levels, varying, vector, points)
    )
    kept = _kept(levels, needs, body, varying, inner) if mode is Mode.INNER and not split else frozenset()
    if kept:
        levels = replace(levels, passes=_passes_without(levels, needs, kept))
    turned: frozenset[int] = frozenset()
    if mode is Mode.OUTER and not split_columns:
        turned = _turned_loads(body, levels, varying, vector, inner, lanes)
    per_point = sum(cost_of(op) for op in body.ops)
    return Plan(
        body=body,
        levels=levels,
        mode=mode,
        outer=outer,
        inner=inner,
        vector=vector,
        varying=varying,
        unroll=1 if turned else _unroll(mode, body, levels, varying, vector, lanes),
        chunked=chunked,
        parallel=not collide,
        apart=collide and bool(outer) and _writes_apart(body, outer[0], (*outer[1:], *inner, vector)),
        cost=max(1, round(per_point)),
        tiled=tile[0] if tile is not None else None,
        staged=tile[1] if tile is not None else turned,
        split=split,
        split_columns=split_columns,
        kept=kept,
    )


def _few_columns(body: Body, levels: Levels, varying: tuple[bool, ...], vector: Loop, points: int | None) -> bool:
    """Whether a reduction of columns gains by sharing them among threads: few columns of many points, each reduced on its own."""
    many = points is None or points >= (MANY_POINTS if _is_short(levels) else ENOUGH_POINTS)
    if vector.static is None or vector.static > FEW_COLUMNS or not many:
        return False
    if any(isinstance(body.ops[at], Indirect) for section in levels.outer for at in section):
        return False
    reductions = [at for p in levels.passes for at in p.reductions]
    if any(not varying[at] or REDUCTIONS[body.reduction(at).kind].finds_position for at in reductions):
        return False
    return _is_short(levels) or (
        all(body.dtype(at).is_floating_point for at in reductions) and _is_by_parts(body, levels)
    )


def _is_short(levels: Levels) -> bool:
    """Whether there is one pass of reductions and no more to do for each point."""
    return len(levels.passes) == 1 and not levels.passes[0].stores


def _is_by_parts(body: Body, levels: Levels) -> bool:
    """Whether parts of the points may run beside each other in each pass, and what runs once a column several times, but for its
    stores, which run in the end: nothing reads what was stored for another point, or for the column."""
    of_points = [body.ops[at] for p in levels.passes for at in p.ops]
    of_columns = [body.ops[at] for section in levels.outer for at in section]
    stored = {op.buffer for op in of_columns if isinstance(op, Store)}
    written = {op.buffer: op.index for op in of_points if isinstance(op, Store)}
    if any(isinstance(op, Load) and op.buffer in written for op in of_columns):
        return False
    reads = [op for op in of_points if isinstance(op, Load)]
    if any(op.buffer in stored or written.get(op.buffer, op.index) != op.index for op in reads):
        return False
    return not any(isinstance(op, Store) and (op.mode is not None or op.buffer in stored) for op in of_points)


def _stores_after_loads(levels: Levels, body: Body, needs: list[tuple[int, ...]]) -> Levels:
    """Move inner stores behind the last pass that loads from the buffer they overwrite (one given as "inout"): a pass that
    loads again has to find what was there."""
    passes = list(levels.passes)
    loads = [{op.buffer for at in p.ops if isinstance(op := body.ops[at], Load)} for p in passes]
    for k, step in enumerate(levels.passes):
        for store in step.stores:
            written = body.ops[store]
            assert isinstance(written, Store)
            last = max(q for q, read in enumerate(loads) if q == k or written.buffer in read)
            if last <= k:
                continue
            stays = tuple(s for s in passes[k].stores if s != store)
            passes[k] = replace(passes[k], stores=stays, ops=tuple(at for at in passes[k].ops if at != store))
            needed, todo = {store}, list(needs[store])
            while todo:
                at = todo.pop()
                if at in levels.inner and at not in needed:
                    needed.add(at)
                    todo.extend(needs[at])
            ops = tuple(sorted({*passes[last].ops, *needed}))
            passes[last] = replace(passes[last], stores=(*passes[last].stores, store), ops=ops)
    return replace(levels, passes=tuple(passes))


def _kept(
    levels: Levels, needs: list[tuple[int, ...]], body: Body, varying: tuple[bool, ...], inner: tuple[Loop, ...]
) -> frozenset[int]:
    """What to keep so that no pass repeats an expensive operation of an earlier one: these operations, or what a later pass
    makes of them, whichever are fewer values."""
    points = product(inner)
    if points is not None and points > KEEP:
        return frozenset()
    kept: set[int] = set()
    before: set[int] = set()
    for step in levels.passes:
        repeated = {at for at in step.ops if at in before and varying[at] and not isinstance(body.ops[at], Indirect)}
        expensive = {at for at in repeated if way_of(body.ops[at]) is not Cost.INSTRUCTION}
        expensive |= _slow_loads(body, repeated, inner[-1].variable)
        reached: set[int] = set()
        for at in sorted(repeated):
            if at in expensive or not reached.isdisjoint(needs[at]):
                reached.add(at)
        new_users = [at for at in (*step.ops, *step.reductions) if at not in repeated]
        frontier = {at for user in new_users for at in needs[user] if at in reached}
        kept |= frontier if len(frontier) <= len(expensive) else expensive
        before.update(step.ops)
    return frozenset(kept)


def _slow_loads(body: Body, of: set[int], variable: Symbol) -> set[int]:
    """Loads that are not one vector from memory: lane by lane, or one of several that are asked for each element."""
    loads = {at: op for at in of if isinstance(op := body.ops[at], Load)}
    masked = {at for at, op in loads.items() if op.mask is not None}
    return {at for at, op in loads.items() if stride(op.index, variable) not in (0, 1)} | (
        masked if len(masked) > 1 else set()
    )


def _passes_without(levels: Levels, needs: list[tuple[int, ...]], kept: frozenset[int]) -> tuple[Pass, ...]:
    """The passes without what only led to values kept from an earlier pass. The kept values themselves stay listed."""
    passes: list[Pass] = []
    seen: set[int] = set()
    for p in levels.passes:
        listed, needed = set(p.ops), set[int]()
        todo = [*p.stores, *(n for at in p.reductions for n in needs[at])]
        while todo:
            at = todo.pop()
            if at in listed and at not in needed:
                needed.add(at)
                if at not in seen:
                    todo.extend(needs[at])
        passes.append(replace(p, ops=tuple(sorted(needed))))
        seen |= needed & kept
    return tuple(passes)


def _choose_tile(body: Body, vector: Loop, outer: tuple[Loop, ...]) -> tuple[Loop, frozenset[int]] | None:
    """The loop to tile with `vector`, and the loads to copy by tiles; None where there is none."""
    symbols = body.indirects().keys()
    if vector.static is not None and vector.static < TILE:
        return None
    found: Counter[Symbol] = Counter()
    loads: dict[Symbol, set[int]] = {}
    for at, op in enumerate(body.ops):
        if not isinstance(op, Load) or op.mask is not None or symbols & op.index.free_symbols:
            continue
        step = stride(op.index, vector.variable)
        if step is None or step in (0, 1):
            continue
        for loop in outer:
            if stride(op.index, loop.variable) == 1 and not (loop.static is not None and loop.static < TILE):
                found[loop.variable] += 1
                loads.setdefault(loop.variable, set()).add(at)
    if not found:
        return None
    best = found.most_common(1)[0][0]
    return next(loop for loop in outer if loop.variable == best), frozenset(loads[best])


def _turned_loads(
    body: Body, levels: Levels, varying: tuple[bool, ...], vector: Loop, inner: tuple[Loop, ...], lanes: int
) -> frozenset[int]:
    """Loads of mode OUTER that are contiguous in the only inner loop instead of over lanes: for each tile of lanes they are
    copied once, turned around, and every pass reads the copy."""
    if len(inner) != 1 or inner[0].static is None:
        return frozenset()
    found = []
    for at in levels.inner:
        op = body.ops[at]
        if isinstance(op, Load) and varying[at] and _turns(body, op, vector.variable, inner[0].variable):
            assert op.dtype is not None
            found.append((at, inner[0].static * lanes * op.dtype.itemsize))
    return frozenset(at for at, _ in found) if sum(size for _, size in found) <= TURNED_BYTES else frozenset()


def _turns(body: Body, op: Load, across: Symbol, along: Symbol) -> bool:
    """Whether a load strides in one variable and is contiguous in another."""
    if op.mask is not None or not body.indirects().keys().isdisjoint(op.index.free_symbols):
        return False
    step = stride(op.index, across)
    return step is not None and step not in (0, 1) and stride(op.index, along) == 1


def writes_collide(body: Body) -> bool:
    """Whether several points may write one element: then they run in order, on one thread."""
    indirects = body.indirects().keys()
    return any(op.mode is not None or not indirects.isdisjoint(op.index.free_symbols) for op in body.stores())


def _writes_apart(body: Body, loop: Loop, others: tuple[Loop, ...]) -> bool:
    """Whether points of a loop write different elements, whatever the others and the positions read from data are."""
    sizes = {other.variable: other.size for other in others}
    sizes |= {op.symbol: op.size for op in body.ops if isinstance(op, Indirect)}

    def reach(index: Expr) -> Expr | None:
        """How many elements one point of the loop may write."""
        total: Expr = sympy.S.One
        for symbol in index.free_symbols - {loop.variable}:
            step = stride(index, symbol)
            if step is None or not (step.is_Integer and symbol in sizes and sizes[symbol].is_Integer):
                return None
            total += abs(step) * (sizes[symbol] - 1)
        return total

    for store in body.stores():
        step, reached = stride(store.index, loop.variable), reach(store.index)
        if step is None or reached is None or not step.is_Integer or abs(step) < reached:
            return False
    return True


def _unroll(
    mode: Mode,
    body: Body,
    levels: Levels,
    varying: tuple[bool, ...],
    vector: Loop,
    lanes: int,
) -> int:
    if mode is Mode.POINTWISE:
        return 1
    weight = [_code_size(op, vector.variable) if varying[at] else 0 for at, op in enumerate(body.ops)]
    for at, op in enumerate(body.ops):
        if isinstance(op, Reduce) and REDUCTIONS[op.kind].finds_position:
            weight[at] = 32
    size = max((sum(weight[at] for at in (*p.ops, *p.reductions)) for p in levels.passes if p.reductions), default=0)
    if mode is Mode.INNER:
        unroll = 4 if size <= 8 else 2 if size <= 16 else 1
        while unroll > 1 and vector.static is not None and vector.static < 2 * unroll * lanes:
            unroll //= 2
        return unroll
    size += sum(weight[at] for section in levels.outer for at in section) // 2
    unroll = 8 if size <= 6 else 4 if size <= 14 else 2 if size <= 24 else 1
    while unroll > 1 and vector.static is not None and vector.static % (unroll * lanes):
        unroll //= 2
    return unroll


def _code_size(op: Op, variable: Symbol) -> int:
    """Rough number of instructions' worth of an operation over lanes: code that is repeated has to stay small."""
    if isinstance(op, Load | Store):
        step = stride(op.index, variable)
        return 1 if step is not None and step in (0, 1) else 16
    wide = op.dtype is not None and op.dtype.itemsize == 8
    return (20 if wide else 8) if way_of(op) is Cost.POLYNOMIAL else 4 if wide else 1


def varying_ops(
    body: Body,
    needs: list[tuple[int, ...]],
    variable: Symbol,
    through_reduce: bool,
    inner: frozenset[int] = frozenset(),
) -> tuple[bool, ...]:
    """For each operation whether lanes differ in it: whether `variable` reaches it; a `reduce` over the variable itself ends its
    reach. What is added to memory is added for each lane, be it the same.

    Args:
        through_reduce: it is a variable of the outer loops, which reductions do not go over.
        inner: operations of the inner loops.
    """
    varying: list[bool] = []
    for at, op in enumerate(body.ops):
        if isinstance(op, Reduce) and not through_reduce:
            varying.append(False)
        elif isinstance(op, Store) and op.mode is not None and (through_reduce or at in inner):
            varying.append(True)
        else:
            varying.append(variable in op.symbols() or any(varying[n] for n in needs[at]))
    return tuple(varying)


def contiguous(expr: Expr, variable: Symbol, lane_symbols: frozenset[Symbol]) -> bool:
    """Whether neighbouring lanes are neighbours in memory."""
    return lane_symbols.isdisjoint(expr.free_symbols) and stride(expr, variable) == 1


def _choose_vector(
    body: Body,
    levels: Levels,
    needs: list[tuple[int, ...]],
    outer: tuple[Loop, ...],
    inner: tuple[Loop, ...],
    lanes: int,
) -> Loop:
    """The loop whose vectorisation touches memory best; of equals the last inner one, then the last outer one."""
    candidates = (*reversed(inner), *reversed(outer)) if levels.passes else tuple(reversed(outer))
    best: tuple[float, Loop] | None = None
    for loop in candidates:
        is_inner = loop in inner
        cost = _memory_cost(body, levels, needs, loop, is_inner, lanes)
        if loop.static is not None and loop.static < 2 * lanes:
            # Rows that fill a vector in part waste the rest of it.
            cost = max(cost, 1.0) * lanes * -(-loop.static // lanes) / max(loop.static, 1) + 0.5
        if best is None or cost < best[0] - 1e-9:
            best = (cost, loop)
    assert best is not None
    return best[1]


def _memory_cost(
    body: Body, levels: Levels, needs: list[tuple[int, ...]], loop: Loop, is_inner: bool, lanes: int
) -> float:
    varying = varying_ops(body, needs, loop.variable, not is_inner, levels.inner)
    lane_symbols = frozenset(symbol for symbol, at in body.indirects().items() if varying[at])
    reads_outer_indirect = not is_inner and levels.passes
    turnable = body.inner_vars[0] if levels.passes and not is_inner and len(body.inner_vars) == 1 else None
    firsts = [at for at in range(len(body.ops)) if is_pair(body, levels, at, loop.variable)]
    paired = {store for at in firsts for store in (at, at + 1)}
    cost = 0.0
    for at, op in enumerate(body.ops):
        # What runs once an outer point hardly counts beside what runs at each inner point.
        weight = 1.0 if at in levels.inner or not levels.passes else 0.01
        if isinstance(op, Indirect) and varying[at] and reads_outer_indirect and at not in levels.inner:
            return float("inf")
        index = op.index
        if index is None:
            continue
        if not varying[at] and loop.variable not in index.free_symbols:
            cost += 0.1 * weight
        elif isinstance(op, IndexExpr):
            cost += weight * (
                0.3
                if lane_symbols.isdisjoint(index.free_symbols) and stride(index, loop.variable) is not None
                else lanes
            )
        elif contiguous(index, loop.variable, lane_symbols):
            cost += weight
        elif turnable and isinstance(op, Load) and _turns(body, op, loop.variable, turnable):
            cost += 2 * weight
        elif at in paired:
            cost += weight
        elif paired and isinstance(op, Load) and is_alternate(index, loop.variable, op.dtype):
            cost += 2 * weight
        else:
            cost += weight * lanes
    return cost
