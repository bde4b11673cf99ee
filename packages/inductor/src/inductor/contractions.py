"""Which loops multiply matrices: a sum of products of two elements, each of which other loops reach than the other.

Flows in: a `Body`. Flows out: its `Contraction`, if it is one. A backend may print these by blocks that are used many times
(`DeviceTraits.contractions`), where anything else that reduces would be in the way.
"""

from __future__ import annotations

from dataclasses import dataclass

from inductor.ir.body import Body
from inductor.ir.operations import Elementwise, Load, Reduce, Scan, Symbol, symbols_in


@dataclass(frozen=True)
class Contraction:
    """Positions in the body: the `reduce`, and the loads whose product it sums."""

    sum: int
    factors: tuple[int, int]


def contraction_of(body: Body) -> Contraction | None:
    """The body's contraction; None if it reduces anything else, or its factors are not two loads over loops of their own."""
    sums = [at for at, op in enumerate(body.ops) if isinstance(op, Reduce)]
    if len(sums) != 1 or any(isinstance(op, Scan) for op in body.ops):
        return None
    reduction = body.reduction(sums[0])
    product = body.ops[reduction.value.at]
    if reduction.kind != "sum" or not (isinstance(product, Elementwise) and product.primitive == "mul"):
        return None
    factors = (product.operands[0].at, product.operands[1].at)
    reached: list[set[Symbol]] = []
    for at in factors:
        op = body.ops[at]
        if not isinstance(op, Load):
            return None
        reached.append(set(symbols_in(op.index)).intersection(body.outer_vars))
    return Contraction(sums[0], factors) if reached[0] - reached[1] and reached[1] - reached[0] else None
