"""Which loop level each operation of a body runs at, and in which pass over the inner space.

Flows in: a `Body`. Flows out: `Levels`, the plan every backend prints:

    for each outer point:
        outer[0]
        for each inner point: passes[0].ops      # accumulates passes[0].reductions
        outer[1]                                 # may use the results of passes[0].reductions
        for each inner point: passes[1].ops
        ...
        outer[len(passes)]
"""

from __future__ import annotations

from collections.abc import Collection

from inductor.ir.body import Body, kept
from inductor.ir.operations import Op, Reduce, Ref, Scan, Store
from symshapes import dataclass


@dataclass(frozen=True, slots=True)
class Pass:
    """One walk over the whole inner space. All fields hold positions in `body.ops`, ascending."""

    ops: tuple[int, ...]
    """What runs at each inner point: stores, and what they and the reductions need. Pure operations of an earlier pass
    that are needed again are listed again, running results (`scan`) too: they begin anew. Outer-level operands are not in here, nor are the `reduce`s."""
    reductions: tuple[int, ...]
    """The `reduce` operations that this pass accumulates; final when the pass ends."""
    stores: tuple[int, ...]
    """The inner-level stores of this pass (also in `ops`)."""


@dataclass(frozen=True, slots=True)
class Levels:
    """The plan of one body. Operations no store needs are in no list."""

    inner: frozenset[int]
    """Operations at inner level; `reduce` is not one of them (its result is an outer value)."""
    passes: tuple[Pass, ...]
    outer: tuple[tuple[int, ...], ...]
    """Outer-level operations, `reduce`s left out: `outer[k]` runs before `passes[k]`, the last after all passes."""


def split(body: Body) -> Levels:
    """Assign each live operation of `body` to its level and pass.

    An operation is inner if an inner variable reaches it other than through `reduce`, or if it is a `scan`; its pass is the number of
    reductions that have to be finished before it, one after the other. A body without inner variables and reductions
    has no pass; everything is in `outer[0]`.
    """
    operands = dependencies(body)
    live = live_ops(body, operands)
    inner_vars = frozenset(body.inner_vars)
    is_inner = [False] * len(body.ops)
    depth = [0] * len(body.ops)
    for at, op in enumerate(body.ops):
        if not live[at]:
            continue
        for source in operands[at]:
            is_inner[at] |= is_inner[source]
            depth[at] = max(depth[at], depth[source])
        if isinstance(op, Reduce):
            is_inner[at] = False
            depth[at] += 1
        elif not is_inner[at]:
            is_inner[at] = isinstance(op, Scan) or not inner_vars.isdisjoint(op.symbols())

    count = 0
    for at, op in enumerate(body.ops):
        if live[at] and isinstance(op, Reduce):
            count = max(count, depth[at])
        elif live[at] and isinstance(op, Store) and is_inner[at]:
            count = max(count, depth[at] + 1)
    return Levels(
        inner=frozenset(at for at, inner in enumerate(is_inner) if inner),
        passes=tuple(_pass(body, k, operands, is_inner, depth, live) for k in range(count)),
        outer=tuple(
            tuple(
                at
                for at, op in enumerate(body.ops)
                if live[at] and not is_inner[at] and not isinstance(op, Reduce) and depth[at] == k
            )
            for k in range(count + 1)
        ),
    )


def _pass(
    body: Body, k: int, operands: list[tuple[int, ...]], is_inner: list[bool], depth: list[int], live: list[bool]
) -> Pass:
    reductions = tuple(
        at for at, op in enumerate(body.ops) if live[at] and isinstance(op, Reduce) and depth[at] == k + 1
    )
    stores = tuple(
        at for at, op in enumerate(body.ops) if live[at] and isinstance(op, Store) and is_inner[at] and depth[at] == k
    )
    needed: set[int] = set()
    todo = list(stores)
    for at in reductions:
        todo.extend(operands[at])
    while todo:
        at = todo.pop()
        if is_inner[at] and at not in needed:
            needed.add(at)
            todo.extend(operands[at])
    return Pass(tuple(sorted(needed)), reductions, stores)


def dependencies(body: Body) -> list[tuple[int, ...]]:
    """For each operation the positions it needs: value operands, masks, and the `indirect`s whose symbols its
    expressions use."""
    defined = body.indirects()
    result: list[tuple[int, ...]] = []
    for op in body.ops:
        needs = {ref.at for ref in op.operands}
        if defined:
            needs.update(defined[symbol] for symbol in op.symbols() if symbol in defined)
        result.append(tuple(sorted(needs)))
    return result


def only(body: Body, wanted: Collection[int]) -> tuple[tuple[Op, ...], dict[int, Ref]]:
    """The operations that `wanted` ones need, and where each old one went."""
    operands = dependencies(body)
    needed = set(wanted)
    for at in range(len(body.ops) - 1, -1, -1):
        if at in needed:
            needed.update(operands[at])
    return kept(body.ops, needed)


def live_ops(body: Body, operands: list[tuple[int, ...]] | None = None, dropped: Collection[str] = ()) -> list[bool]:
    """For each operation whether a store (to a buffer other than the `dropped`) needs it."""
    operands = dependencies(body) if operands is None else operands
    live = [isinstance(op, Store) and op.buffer not in dropped for op in body.ops]
    for at in range(len(body.ops) - 1, -1, -1):
        if live[at]:
            for source in operands[at]:
                live[source] = True
    return live
