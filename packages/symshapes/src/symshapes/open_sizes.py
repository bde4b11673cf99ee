"""Sizes that may be 1 as well: what is asked of them only because one element is laid out in many ways.

In: conditions on symbols. Out: their truth for sizes other than 1, where they depend on nothing else.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import sympy
from sympy import Expr, Integer, S, Symbol

from symshapes.constraints import RELATIONS, Constraints, is_integral, normal_form, relation
from symshapes.expr.ranges import UNKNOWN, ValueRange
from symshapes.expr.terms import exact_quotient

# The normal form of a question of a number e whether it is 1, and the answer where it is not (and not less): the difference,
# and what is to be added to get e, or e's opposite.
_ANSWERS: dict[str, tuple[tuple[int, int, bool], ...]] = {
    "eq": ((1, 1, False), (-1, 1, False)),
    "ne": ((1, 1, True), (-1, 1, True)),
    "ge": ((1, 2, True), (-1, 1, False)),
}


# What part of such a condition settles the whole.
_JOINED: dict[Any, bool] = {sympy.And: False, sympy.Or: True}


def other_than_one(condition: Any, opened: Set[Symbol], known: Constraints) -> bool | None:
    """The truth of a condition where no product or quotient of open sizes in it is 1; None where that does not settle it."""
    if opened.isdisjoint(condition.free_symbols):
        return None
    if condition.func in _JOINED:
        parts = [_decided(part, opened, known) for part in condition.args]
        settles = _JOINED[condition.func]
        if settles in parts:
            return settles
        return None if None in parts else not settles
    if condition.func not in RELATIONS or not is_integral(condition):
        return None
    for left, right in (condition.args, condition.args[::-1]):
        if right.is_Integer or known.decide(relation(sympy.Ge, right, S.One)) is not True:
            continue
        quotient = exact_quotient(left, right)
        if quotient is not None and not quotient.is_Integer:
            more = (2, 1) if left is condition.args[0] else (1, 2)
            return bool(condition.func(*map(Integer, more)))
    form = normal_form(condition)
    if not isinstance(form, bool):
        kind, difference = form
        for sign, added, answer in _ANSWERS[kind]:
            if _is_one_number(sign * difference + Integer(added)):
                return answer
    assumed = Constraints()
    for symbol in condition.free_symbols:
        span = known.ranges.get(symbol, UNKNOWN)
        assumed.add_symbol(symbol, span.intersect(ValueRange(2, span.upper)) if symbol in opened else span)
    return assumed.decide(condition)


def _decided(condition: Any, opened: Set[Symbol], known: Constraints) -> bool | None:
    answer = known.decide(condition)
    return other_than_one(condition, opened, known) if answer is None else answer


def _is_one_number(expr: Expr) -> bool:
    """Whether it is a size, a product or a quotient of sizes, rather than a sum."""
    return bool(expr is not S.Zero and not expr.is_Add and not expr.is_Integer and expr.as_coeff_Mul()[0] > 0)
