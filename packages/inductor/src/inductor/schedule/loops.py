"""The order of a kernel's outer loops.

Flows in: a group and its merged body. Flows out: its outer dims, so that the innermost is the one most traffic is
contiguous in.
"""

from __future__ import annotations

from inductor.ir.body import Body
from inductor.ir.operations import Load, Store
from inductor.schedule.nodes import Graph, Group
from inductor.schedule.space import Dim, Index, estimate, index_of

_STRIDED_PENALTY = 4
"""A strided walk moves about this many times the bytes it uses."""


def loop_order(group: Group, body: Body, graph: Graph) -> tuple[Dim, ...]:
    """The outer dims in their best order; as they are if the body reduces or nothing is gained."""
    dims = tuple(d for d in group.outer if d.size != 1)
    variables = group.variables()
    if group.inner or len(dims) < 2:
        return group.outer
    accesses: dict[tuple[str, Index], int] = {}
    for op in body.ops:
        if isinstance(op, Load | Store):
            index = index_of(op.index, variables)
            accesses[op.buffer, index] = graph.bytes(op.buffer) * (2 if isinstance(op, Store) else 1)

    def cost(order: tuple[Dim, ...]) -> int:
        total = 0
        for (_, index), size in accesses.items():
            stride = abs(estimate(index.coefficient(order[-1].var)))
            total += size * (1 if stride <= 1 else _STRIDED_PENALTY)
        return total

    candidates = [dims]
    for _, index in accesses:
        strides = dict(index.coefficients)
        if all(d.var in strides for d in dims):
            candidates.append(tuple(sorted(dims, key=lambda d: -abs(estimate(strides[d.var])))))
    # On equal costs the order that is most often natural: it lets most loops be merged.
    best = min(candidates, key=lambda order: (cost(order), -candidates.count(order)))
    unit = tuple(d for d in group.outer if d.size == 1)
    return unit + (dims if cost(best) == cost(dims) and candidates.count(best) <= 1 else best)
