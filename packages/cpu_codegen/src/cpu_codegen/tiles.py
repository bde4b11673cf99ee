"""Prints tiles of transposed loads.

A load that strides in the vectorised loop but is contiguous in another one would read a cache line per lane. So both loops
run in tiles of TILE by TILE points: each tile of such a load is first copied, turned around, to the stack.
"""

from __future__ import annotations

from cpu_codegen.index import stride
from cpu_codegen.operation_printer import OperationPrinter
from cpu_codegen.text import Lines
from cpu_codegen.types import SCALAR
from cpu_codegen.vectorize import TILE, Plan
from inductor import Load


def print_tiles(plan: Plan, ops: OperationPrinter, out: Lines, part: str) -> None:
    """One item: TILE rows of the tiled loop, over the whole vectorised loop."""
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
            step = stride(op.index, columns.variable)
            assert step is not None
            corner = ops.address(op, {rows.variable: "first_row", columns.variable: "first"})
            out(f"alignas(VECTOR_BYTES) {SCALAR[op.dtype]} turned{at}[{TILE}][{TILE}];")
            out(f"turn(turned{at}[0], {TILE}, {corner}, {index(step)}, last_row - first_row, last - first);")
        with out.block(f"for (Index {r} = first_row; {r} < last_row; ++{r}) {{"):
            ops.emit_all(at for at in plan.levels.outer[0] if not plan.varying[at])
            with out.block(f"vectors(first, last, [&](Index {c}, auto lanes) INLINE_BODY {{", "});"):
                for at in plan.levels.outer[0]:
                    if at in plan.staged:
                        ops.emit_as(at, f"turned{at}[{r} - first_row] + ({c} - first)")
                    elif plan.varying[at]:
                        ops.emit(at)
