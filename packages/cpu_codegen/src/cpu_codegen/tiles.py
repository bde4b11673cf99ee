"""Prints tiles of transposed loads.

A load that strides in the vectorised loop but is contiguous in another one would read a cache line per lane. So both loops
run in tiles of TILE by TILE points: each tile of such a load is first copied, turned around, to the stack, line by line.
"""

from __future__ import annotations

from cpu_codegen.operation_printer import OperationPrinter
from cpu_codegen.text import Lines
from cpu_codegen.types import SCALAR
from cpu_codegen.vectorize import TILE, Plan
from inductor import Load


def print_tiles(plan: Plan, ops: OperationPrinter, out: Lines, part: str) -> None:
    """One item: a strip of TILE rows of the tiled loop, over the whole vectorised loop."""
    assert plan.tiled is not None
    index = ops.index
    rows, columns = plan.tiled, plan.vector
    r, c = index(rows.variable), index(columns.variable)
    out(f"const Index first_row = {part} * {TILE};")
    out(f"const Index last_row = at_most(first_row + {TILE}, {index(rows.size)});")
    size = index(columns.size)
    with out.block(f"for (Index first = 0; first < {size}; first += {TILE}) {{"):
        out(f"const Index last = at_most(first + {TILE}, {size});")
        for at in sorted(plan.staged):
            op = plan.body.ops[at]
            assert isinstance(op, Load)
            out(f"{SCALAR[op.dtype]} turned{at}[{TILE}][{TILE}];")
            with (
                out.block(f"for (Index {c} = first; {c} < last; ++{c}) {{"),
                out.block(f"for (Index {r} = first_row; {r} < last_row; ++{r}) {{"),
            ):
                out(f"turned{at}[{r} - first_row][{c} - first] = {ops.element(op)};")
        with out.block(f"for (Index {r} = first_row; {r} < last_row; ++{r}) {{"):
            ops.emit_all(at for at in plan.levels.outer[0] if not plan.varying[at])
            with out.block(f"vectors(first, last, [&](Index {c}, auto lanes) INLINE_BODY {{", "});"):
                for at in plan.levels.outer[0]:
                    if at in plan.staged:
                        ops.emit_as(at, f"turned{at}[{r} - first_row] + ({c} - first)")
                    elif plan.varying[at]:
                        ops.emit(at)
