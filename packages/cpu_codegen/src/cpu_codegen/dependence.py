"""What each operation of a body needs: the values it takes, and the `indirect`s behind the symbols of its index."""

from __future__ import annotations

from cpu_codegen.index import Symbol
from inductor import Body, Op


def symbols_of(op: Op) -> frozenset[Symbol]:
    """The symbols an operation reads itself: in its index, or in the bound of an `indirect`."""
    expr = op.args[1] if op.name == "indirect" else op.index()
    return frozenset() if expr is None else frozenset(expr.free_symbols)


def needs_of(body: Body) -> list[tuple[int, ...]]:
    """For each operation the positions of those it needs, ascending."""
    makers = {op.args[2]: at for at, op in enumerate(body.ops) if op.name == "indirect"}
    return [
        tuple(sorted({r.at for r in op.operands()} | {makers[s] for s in symbols_of(op) if s in makers}))
        for op in body.ops
    ]
