"""Which loops multiply matrices: a sum of products of two elements, each of which other loops reach than the other.

Flows in: a `Body`. Flows out: its `Contraction`, if it is one. A backend may print these by blocks that are used many times
(`DeviceTraits.contractions`), where anything else that reduces would be in the way.
"""

from __future__ import annotations

from inductor.ir.body import Body
from inductor.ir.operations import Cast, Elementwise, Load, Op, Reduce, Round, Scan, Symbol, symbols_in
from symshapes import dataclass


@dataclass(frozen=True)
class Contraction:
    """Positions in the body: the `reduce`, the loads whose product it sums, and what is multiplied: these, or what they become by
    conversions to other dtypes."""

    sum: int
    factors: tuple[int, int]
    multiplied: tuple[int, int]


def contraction_of(body: Body) -> Contraction | None:
    """The body's contraction; None if it reduces anything else, or its factors are not two loads over loops of their own."""
    sums = [at for at, op in enumerate(body.ops) if isinstance(op, Reduce)]
    if len(sums) != 1 or any(isinstance(op, Scan) for op in body.ops):
        return None
    reduction = body.reduction(sums[0])
    product = body.ops[reduction.value.at]
    if reduction.kind != "sum" or not (isinstance(product, Elementwise) and product.primitive == "mul"):
        return None
    multiplied = (product.operands[0].at, product.operands[1].at)
    factors = (_converted(body, multiplied[0]), _converted(body, multiplied[1]))
    reached: list[set[Symbol]] = []
    for at in factors:
        op = body.ops[at]
        if not isinstance(op, Load):
            return None
        reached.append(set(symbols_in(op.index)).intersection(body.outer_vars))
    if not (reached[0] - reached[1] and reached[1] - reached[0]):
        return None
    return Contraction(sums[0], factors, multiplied)


def _converted(body: Body, at: int) -> int:
    """Where the value comes from that is converted to the one at a position."""
    op = body.ops[at]
    while isinstance(op, Cast | Round) or is_short(op):
        at = op.operands[0].at
        op = body.ops[at]
    return at


def is_short(op: Op) -> bool:
    """Whether a product of matrices need not read all of an operation's value."""
    return isinstance(op, Elementwise) and op.primitive == "tf32"
