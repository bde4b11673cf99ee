"""Pairs that lie side by side in memory, as the parts of complex numbers do: one point of the loops for both.

Flows in: a body without reductions and its loops, the last of which has two points, or is over pairs in a row. Flows out: the body
that does both, over the other loops. What tells the two apart is known then, and what both read is read once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import sympy
import torch

from cpu_codegen.index import Expr, Symbol, stride
from cpu_codegen.loops import Loop, merged
from cpu_codegen.ranges import cut
from inductor import Body, Indirect, Levels, Op, Reduce, Ref, Store
from symshapes import FloorDiv, Mod

MOST_OPERATIONS = 64
"""Of the body before: twice as many are compiled."""


def joined(body: Body, outer: tuple[Loop, ...]) -> tuple[Body, tuple[Loop, ...]]:
    """The body with the last of the loops taken out of it and the loops that are left; both as they are where it has not two points, or
    positions read from data would be. All stores come last: what a body has stored it does not load."""
    before = body, outer
    body, outer = _halved(body, outer)
    *rest, last = outer
    if last.static != 2 or not rest or len(body.ops) > MOST_OPERATIONS:
        return before
    if any(isinstance(op, Indirect | Reduce) for op in body.ops) or not _stores_pairs(body, last.variable):
        return before
    ranges = cut(body, last)
    if not ranges:
        return before
    ops: list[Op] = []
    known: dict[Op, Ref] = {}
    stores: list[list[Store]] = []
    for each in ranges:
        place: list[Ref] = []
        stores.append([])
        values = {last.variable: sympy.Integer(each.first)}
        for op in each.body.substitute(values, (), ()).ops:
            op = op.with_operands(partial(_at, place))
            if isinstance(op, Store):
                stores[-1].append(op)
                place.append(Ref(-1))
                continue
            if op not in known:
                known[op] = Ref(len(ops))
                ops.append(op)
            place.append(known[op])
    # The two of a pair behind each other: they are written together.
    ops += [store for pair in zip(*stores, strict=True) for store in pair]
    return merged(Body(tuple(loop.variable for loop in rest), body.inner_vars, tuple(ops)), tuple(rest))


def _halved(body: Body, outer: tuple[Loop, ...]) -> tuple[Body, tuple[Loop, ...]]:
    """The last loop as one over pairs and one over the two, where indices hold its half: what reads pairs in a row does."""
    last = outer[-1].variable
    half, odd = FloorDiv(last, sympy.Integer(2)), Mod(last, sympy.Integer(2))
    indices = [op.index for op in body.ops if op.index is not None]
    count = sympy.expand(outer[-1].size / 2)
    if not count.is_integer or not any(index.has(half) for index in indices):
        return body, outer
    pair, which = (sympy.Symbol(f"{last.name}_{name}", integer=True, nonnegative=True) for name in ("pair", "which"))
    values = {half: pair, odd: which}
    if any(index.xreplace(values).has(FloorDiv, Mod) for index in indices):
        return body, outer
    body = body.substitute({**values, last: 2 * pair + which}, (), body.inner_vars)
    body = replace(body, ops=tuple(op.with_index(sympy.expand) for op in body.ops))
    loops = (*outer[:-1], Loop(pair, count), Loop(which, sympy.Integer(2)))
    return Body(tuple(loop.variable for loop in loops), body.inner_vars, body.ops), loops


def _at(place: list[Ref], ref: Ref) -> Ref:
    return place[ref.at]


def _stores_pairs(body: Body, variable: Symbol) -> bool:
    return all(store.mode is None and stride(store.index, variable) == 1 for store in body.stores())


def is_alternate(index: Expr, variable: Symbol, dtype: torch.dtype | None) -> bool:
    """Whether neighbouring lanes are every other element in memory, of a width that shuffles take from two vectors."""
    return dtype is not None and dtype.itemsize == 4 and stride(index, variable) == 2


def is_pair(body: Body, levels: Levels, at: int, variable: Symbol) -> bool:
    """Whether an operation and the one behind it write elements side by side, over lanes all elements, one right after the other."""
    pair = body.ops[at : at + 2] if at >= 0 else ()
    match pair:
        case (Store(buffer=a, index=first, mode=None), Store(buffer=b, index=second, mode=None)) if a == b:
            values = (body.ops[store.operands[0].at].dtype for store in pair)
            by_lane = not (first.free_symbols | second.free_symbols).isdisjoint(body.indirects())
            if by_lane or second - first != 1 or not all(is_alternate(first, variable, dtype) for dtype in values):
                return False
            # Not where a reduction that only one of them needs is computed between them.
            return any(at in run and at + 1 in run for run in (*levels.outer, *(each.ops for each in levels.passes)))
    return False
