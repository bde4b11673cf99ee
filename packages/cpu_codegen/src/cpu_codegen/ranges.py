"""Cuts a loop where conditions on its variable change sides, as those of joined and padded tensors do: within a range
they are known, so that nothing is masked or chosen, and what they hid is read by whole vectors.

Flows in: a body without reductions, and one of its loops. Flows out: ranges of the loop, each with the body that is left there.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import sympy
import torch

from cpu_codegen.index import Expr, Symbol, stride
from cpu_codegen.loops import Loop
from inductor import Body, Constant, Elementwise, IndexExpr, Indirect, Load, Op, Ref, Where, is_checked, split
from symshapes import dataclass

MOST_RANGES = 4
MOST_OPERATIONS = 160
"""Of all ranges together: each is compiled."""

_ORDERS: dict[str, Callable[[int, int], bool]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@dataclass(frozen=True)
class Range:
    """The points [first, last) of the loop that was cut."""

    first: int
    last: int
    body: Body


def cut(body: Body, loop: Loop) -> tuple[Range, ...]:
    """The ranges of a loop, in order; none where there is nothing to cut, or too much."""
    size = loop.static
    if size is None:
        return ()
    tests = {at: test for at in range(len(body.ops)) if (test := _test(body, at, loop.variable)) is not None}
    places = sorted({0, size, *(_turn(test, size) for test in tests.values())})
    ranges = len(places) - 1
    if ranges < 2 or ranges > MOST_RANGES or ranges * len(body.ops) > MOST_OPERATIONS:
        return ()
    found = []
    for first, last in pairwise(places):
        left = _Folding(body, {at: test(first) for at, test in tests.items()}).body()
        if left is None:
            return ()
        found.append(Range(first, last, left))
    return tuple(found)


Test = Callable[[int], bool]


def _test(body: Body, at: int, variable: Symbol) -> Test | None:
    """What a comparison says by the loop's variable, where that and numbers are all it depends on."""
    op = body.ops[at]
    if not isinstance(op, Elementwise) or op.primitive not in _ORDERS:
        return None
    sides = [_line(body.ops[ref.at], variable) for ref in op.operands]
    if None in sides or all(side is not None and side[0] == 0 for side in sides):
        return None
    (a, b), (c, d) = sides  # type: ignore[misc]
    compare = _ORDERS[op.primitive]
    return lambda point: compare(a * point + b, c * point + d)


def _line(op: Op, variable: Symbol) -> tuple[int, int] | None:
    """`(a, b)` of a value that is a * variable + b, in integers that no dtype cuts."""
    match op:
        case Constant(value, dtype) if dtype is torch.int64:
            return 0, int(value)
        case IndexExpr(index, dtype) if dtype is torch.int64:
            step = stride(index, variable)
            start = index.xreplace({variable: sympy.S.Zero})
            if step is not None and step.is_Integer and start.is_Integer:
                return int(step), int(start)
    return None


def _turn(test: Test, size: int) -> int:
    """The first point of [1, size) that a comparison of two lines answers otherwise than point 0; `size` if none does."""
    start = test(0)
    return bisect_left(range(size), True, key=lambda point: test(point) != start)


class _Folding:
    """A body with the answers of some operations known."""

    def __init__(self, body: Body, known: dict[int, bool]) -> None:
        self._before, self._known = body, known
        self._ops: list[Op] = []
        self._place: dict[int, Ref] = {}
        self._truth: dict[int, bool] = {}
        self._unread: dict[Symbol, Expr] = {}
        """Symbols of positions that nobody asks for here."""

    def body(self) -> Body | None:
        """What is left; None if a position would no longer be checked that is checked now."""
        for at, op in enumerate(self._before.ops):
            self._fold(at, op)
        before = self._before
        left = Body(before.outer_vars, before.inner_vars, tuple(self._ops))
        return left if _checked(before) - _checked(left) <= self._unread.keys() else None

    def _fold(self, at: int, op: Op) -> None:
        if at in self._known:
            self._truth[at] = self._known[at]
            return
        truths = [self._truth.get(ref.at) for ref in op.operands]
        match op:
            case Where(then=then, otherwise=otherwise) if truths[0] is not None:
                self._alias(at, then if truths[0] else otherwise)
                return
            case Load(mask=Ref()) if truths[-1] is not None:
                op = replace(op, mask=None) if truths[-1] else Constant(_zero(op.dtype), op.dtype)
            case Indirect(mask=Ref()) if truths[-1] is not None:
                if not truths[-1]:
                    self._unread[op.symbol] = sympy.S.Zero
                    return
                op = replace(op, mask=None)
            case Elementwise(primitive, dtype=torch.bool) if primitive in _LOGIC and any(t is not None for t in truths):
                answer = _LOGIC[primitive](truths)
                if answer is not None:
                    self._truth[at] = answer
                    return
                self._alias(at, next(ref for ref, truth in zip(op.operands, truths, strict=True) if truth is None))
                return
        if self._unread:
            op = op.with_index(lambda index: index.xreplace(self._unread))
        made = op.with_operands(lambda ref: self._value(ref.at))
        self._place[at] = self._append(made)

    def _alias(self, at: int, to: Ref) -> None:
        if to.at in self._truth:
            self._truth[at] = self._truth[to.at]
        else:
            self._place[at] = self._place[to.at]

    def _value(self, at: int) -> Ref:
        if at not in self._place:
            self._place[at] = self._append(Constant(self._truth[at], torch.bool))
        return self._place[at]

    def _append(self, op: Op) -> Ref:
        self._ops.append(op)
        return Ref(len(self._ops) - 1)


def _checked(body: Body) -> set[Symbol]:
    """The positions that are checked: those that a store needs."""
    ops = (body.ops[at] for at in split(body).outer[0])
    return {op.symbol for op in ops if isinstance(op, Indirect) and is_checked(op)}


def _zero(dtype: torch.dtype) -> float | int | bool:
    return False if dtype is torch.bool else 0.0 if dtype.is_floating_point else 0


def _both(truths: list[bool | None]) -> bool | None:
    return False if False in truths else None if None in truths else True


def _either(truths: list[bool | None]) -> bool | None:
    return True if True in truths else None if None in truths else False


def _not(truths: list[bool | None]) -> bool | None:
    return None if truths[0] is None else not truths[0]


_LOGIC: dict[str, Callable[[list[bool | None]], bool | None]] = {
    "logical_and": _both,
    "bitwise_and": _both,
    "logical_or": _either,
    "bitwise_or": _either,
    "logical_not": _not,
}
"""What bool operations give if some operands are known; where the others decide, the result is the other one."""
