"""In which of a loop nest's variables memory is walked through element by element, and how much of it.

Flows in: a body and the sizes of its loops. Flows out: elements read and written, by the variable whose next value is next in memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from inductor.ir.body import Body
from inductor.ir.operations import Expr, Load, Store, Symbol
from inductor.schedule.space import estimate, index_of, number


def contiguous_traffic(body: Body, sizes: Mapping[Symbol, Expr]) -> dict[Symbol, int]:
    """Elements behind each variable, each access counted once for all that it reaches. What is the same wherever it is read counts little."""
    estimates = {var: estimate(number(size)) for var, size in sizes.items()}
    traffic: dict[Symbol, int] = {}
    for access in dict.fromkeys((op.buffer, op.index) for op in body.ops if isinstance(op, Load | Store)):
        coefficients = index_of(access[1], frozenset(sizes)).coefficients
        elements = math.prod(estimates[var] for var, _ in coefficients)
        for var, stride in coefficients:
            if stride == 1 and estimates[var] > 1:
                traffic[var] = traffic.get(var, 0) + elements
    return traffic
