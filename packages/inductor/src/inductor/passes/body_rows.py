"""The passes over loop bodies, in the order in which they are tried."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import sympy
import torch

from inductor.ir.body import checked_symbols
from inductor.ir.indexing import interval, within
from inductor.ir.operations import Cast, Constant, Elementwise, Expr, Indirect, Load, Op, Ref, Round, Where
from inductor.passes.bodies import BodyPass
from inductor.passes.patterns import BodyMatch, Var, op_of

C, X, Y = Var("condition"), Var("x"), Var("y")
TO = Var("to")
SIZE = Var("size")

HELD: dict[torch.dtype, frozenset[torch.dtype]] = {
    torch.uint8: frozenset((torch.int16, torch.int32, torch.int64, torch.float32, torch.float64)),
    torch.int8: frozenset((torch.int16, torch.int32, torch.int64, torch.float32, torch.float64)),
    torch.int16: frozenset((torch.int32, torch.int64, torch.float32, torch.float64)),
    torch.int32: frozenset((torch.int64, torch.float64)),
    torch.float32: frozenset((torch.float64,)),
    torch.bool: frozenset(
        (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64)
    ),
}
"""For a dtype, others that hold all of its values."""


def _is_zero(value: Op) -> bool:
    """Whether it is the constant 0; -0.0 is another number."""
    return isinstance(value, Constant) and value.value == 0 and not str(value.value).startswith("-")


def _widened_between(match: BodyMatch) -> bool:
    inner = match.op.operands[0]
    before, between, after = match.dtype(X), match.body.dtype(inner), match[TO]
    if between not in HELD.get(before, ()):
        return False
    # A float that an integer dtype cannot hold becomes whatever the processor makes of that dtype.
    return after is before or not before.is_floating_point or bool(after.is_floating_point)


def _direct_cast(match: BodyMatch) -> Op | Ref:
    return match[X] if match.dtype(X) is match[TO] else Cast(match[X], match[TO])


def _as_expression(match: BodyMatch) -> Expr | None:
    known = match.body.expression(match[X])
    return known if known is not None and within(known, match[SIZE], match.body.ranges) else None


def _known_comparison(match: BodyMatch) -> Op | None:
    """What a comparison of positions always gives, if it does."""
    one, other = match.body.expression(match[X]), match.body.expression(match[Y])
    if one is None or other is None:
        return None
    bounds = interval(sympy.expand(one - other), match.body.ranges)
    if bounds is None or not all(bound.is_Integer for bound in bounds):
        return None
    found = {_COMPARISONS[match.op.primitive](bound, 0) for bound in bounds}  # type: ignore[union-attr]
    if len(found) != 1:
        return None
    # A position that is checked has to be read by something, else it is not checked: it may be read for that alone.
    if not checked_symbols(match.body.recorded).isdisjoint(one.free_symbols | other.free_symbols):
        return None
    return Constant(bool(found.pop()), torch.bool)


_COMPARISONS: dict[str, Callable[[Expr, int], Any]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
"""By primitive; what holds at both ends of an interval, or at none, does so in it."""


TRUE = op_of(Constant, value=True, dtype=torch.bool)


def _unmasked(match: BodyMatch) -> Op:
    assert isinstance(match.op, Load)
    return replace(match.op, mask=None)


BODY_PASSES: list[BodyPass] = [
    *(
        BodyPass(
            f"known_{primitive}",
            "A comparison of positions, expressions of loop variables, whose ranges say what comes of it: of a window's places most are inside.",
            op_of(Elementwise, primitive=primitive, operands=(X, Y)),
            _known_comparison,
        )
        for primitive in _COMPARISONS
    ),
    *(
        BodyPass(
            f"{primitive}_true",
            "Both conditions hold where the other one does.",
            op_of(Elementwise, primitive=primitive, operands=(X, TRUE), either_order=True),
            lambda m: m[X],
            when=lambda m: m.dtype(X) is torch.bool,
        )
        for primitive in ("bitwise_and", "logical_and")
    ),
    BodyPass(
        "load_everywhere",
        "A mask that is true everywhere says nothing.",
        op_of(Load, mask=TRUE),
        _unmasked,
    ),
    BodyPass(
        "known_condition",
        "One branch is the value.",
        op_of(Where, condition=TRUE, then=X),
        lambda m: m[X],
    ),
    BodyPass(
        "same_condition_then",
        "Inside a branch the condition is known; joined parts (cat, pad) nest such questions.",
        op_of(Where, condition=C, then=op_of(Where, condition=C, then=X), otherwise=Y),
        lambda m: Where(m[C], m[X], m[Y], m.dtype(X)),
    ),
    BodyPass(
        "same_condition_otherwise",
        "As for the other branch.",
        op_of(Where, condition=C, then=X, otherwise=op_of(Where, condition=C, otherwise=Y)),
        lambda m: Where(m[C], m[X], m[Y], m.dtype(X)),
    ),
    BodyPass(
        "masked_load",
        "A masked load is zero where its mask is false. Not -0.0, which is another number.",
        op_of(Where, condition=C, then=X, otherwise=Y),
        lambda m: m[X],
        when=lambda m: isinstance(x := m.made_by(X), Load) and x.mask == m[C] and _is_zero(m.made_by(Y)),
    ),
    BodyPass(
        "same_branches",
        "Either branch is the value. Not where the condition stands for a check of positions, which would get lost.",
        op_of(Where, condition=C, then=X, otherwise=X),
        lambda m: m[X],
        when=lambda m: not m.body.reads_data(m[C]),
    ),
    BodyPass(
        "rounded_twice",
        "Rounding what memory of that dtype can hold changes nothing: loads from it, and what only chooses among them.",
        op_of(Round, value=X, to=TO),
        lambda m: m[X],
        when=lambda m: m.body.is_rounded(m[X], m[TO]),
    ),
    BodyPass(
        "cast_by_way_of_wider",
        "A dtype that holds all values in between loses none. Floats to integers do not go straight: see `_widened_between`.",
        op_of(Cast, value=op_of(Cast, value=X), dtype=TO),
        _direct_cast,
        when=_widened_between,
    ),
    BodyPass(
        "integer_times_one",
        "Exact for integers. Not for floats (1.0): a product may flush denormal numbers to zero, and makes NaNs quiet.",
        op_of(Elementwise, primitive="mul", operands=(X, op_of(Constant, value=1)), either_order=True),
        lambda m: m[X],
    ),
    BodyPass(
        "integer_plus_zero",
        "Exact for integers. Not for floats (0.0): -0.0 + 0.0 is 0.0.",
        op_of(Elementwise, primitive="add", operands=(X, op_of(Constant, value=0)), either_order=True),
        lambda m: m[X],
    ),
    BodyPass(
        "position_in_range",
        "A position that is an expression of loop variables, and certain to be in range, needs no check and no look-up.",
        op_of(Indirect, value=X, size=SIZE),
        _as_expression,
    ),
]
"""The rows. From outside the package another is appended, or inserted at its place."""
