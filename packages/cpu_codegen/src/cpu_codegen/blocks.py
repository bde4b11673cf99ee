"""What products of matrices and convolutions that are printed by blocks have in common: the plan of what is made of the sums, and
the frame of the kernel, a function over parts of the result and its entry.

Flows in: a kernel whose one reduction is a contraction, and which of its loops are rows and columns. Flows out: C++.
"""

from __future__ import annotations

from typing import Protocol

from cpu_codegen.index import IndexPrinter
from cpu_codegen.loops import Loop
from cpu_codegen.names import entry_name
from cpu_codegen.operation_printer import OperationPrinter, print_arguments
from cpu_codegen.operations import cost_of
from cpu_codegen.text import Lines
from cpu_codegen.vectorize import Mode, Plan, varying_ops
from inductor import Body, Kernel, dependencies, split
from symshapes import dataclass

MOST_ROWS = {16: 14, 8: 6, 4: 6}
"""By lanes: rows of two vectors of sums that fit in the registers, beside two vectors of B and an element of A."""
PRODUCTS_A_UNIT = 8
"""Multiplications and additions in a quarter of a nanosecond, on one thread."""


@dataclass(frozen=True)
class Blocks:
    """A kernel as batches of rows by columns, each a sum of products."""

    plan: Plan
    sum: int
    """Position of the reduction."""
    batch: tuple[Loop, ...]
    rows: tuple[Loop, ...]
    """Outermost first; one row after the other they are counted through."""
    columns: Loop
    depth: tuple[Loop, ...]
    """What is summed over."""
    block: int
    """Rows whose sums are made together."""


class Core(Protocol):
    """Prints how the sums of one `part` are made, and then `print_results`."""

    def print_core(self, frame: BlocksPrinter) -> None:
        """Print it to `frame.out`."""
        ...


def rows_in_block(rows: int | None, lanes: int) -> int:
    """Rows in blocks as equal as can be; None: known when the kernel is called."""
    most = MOST_ROWS[lanes]
    return most if rows is None else -(-rows // -(-rows // most))


def plan_of(body: Body, outer: tuple[Loop, ...], inner: tuple[Loop, ...], columns: Loop) -> Plan:
    """The plan by which what is made of the sums is printed: over vectors of columns."""
    return Plan(
        body=body,
        levels=split(body),
        mode=Mode.OUTER,
        outer=tuple(loop for loop in outer if loop is not columns),
        inner=inner,
        vector=columns,
        varying=varying_ops(body, dependencies(body), columns.variable, through_reduce=True),
        unroll=1,
        chunked=False,
        parallel=True,
        apart=False,
        cost=max(1, round(sum(cost_of(op) for op in body.ops))),
        tiled=None,
        staged=frozenset(),
        split=False,
        split_columns=False,
        kept=frozenset(),
    )


class BlocksPrinter:
    """Prints a whole kernel around its `core`, which includes `header`."""

    def __init__(self, kernel: Kernel, blocks: Blocks, header: str, out: Lines) -> None:
        self.kernel, self.blocks, self.header, self.out = kernel, blocks, header, out
        self.name = entry_name(kernel)
        self.ops = OperationPrinter(kernel, blocks.plan, out)
        self.index: IndexPrinter = self.ops.index

    def print(self, core: Core) -> None:
        """Print the kernel."""
        out, name, blocks = self.out, self.name, self.blocks
        out(f'#include "{self.header}"')
        with out.block(f"static int {name}_parts(const Word* args, void* data, Index begin, Index end) {{"):
            print_arguments(self.kernel, out)
            out("const Parts& parts = *(const Parts*)data;")
            if self.ops.has_indirect:
                out("int status = DONE;")
            with out.block("for (Index item = begin; item < end; ++item) {"):
                out("const Part part = parts[item];")
                self.print_digits("part.batch", blocks.batch)
                core.print_core(self)
            out("return status;" if self.ops.has_indirect else "return DONE;")
        with out.block(f'extern "C" EXPORT Index {name}_work(const Word* args) {{'):
            print_arguments(self.kernel, out, sizes_only=True)
            points = self._count(*blocks.batch, *blocks.rows, blocks.columns)
            out(f"return Index({points}) * ({self._count(*blocks.depth)} / {PRODUCTS_A_UNIT} + {blocks.plan.cost});")
        with out.block(f'extern "C" EXPORT int {name}(const Word* args) {{'):
            print_arguments(self.kernel, out, sizes_only=True)
            batch, rows, columns = (self._count(*loops) for loops in (blocks.batch, blocks.rows, (blocks.columns,)))
            out(f"Parts parts({batch}, {rows}, {columns}, {blocks.block});")
            out(f"return parallel({name}_parts, args, &parts, parts.count(), {name}_work(args));")

    def print_digits(self, whole: str, loops: tuple[Loop, ...]) -> None:
        """Declare the loops' variables, of a number that counts through all of them."""
        rest = whole
        for place, loop in reversed(list(enumerate(loops))):
            size = self.index.factor(loop.size)
            self.out(f"const Index {self.index(loop.variable)} = {rest if place == 0 else f'{rest} % {size}'};")
            rest = f"{rest} / {size}"

    def print_results(self, positions: tuple[int, ...]) -> None:
        """The operations before the sums, of those at `positions`, and all behind them."""
        levels = self.blocks.plan.levels
        self.ops.emit_all(at for at in levels.outer[0] if at in positions)
        self.ops.define(self.blocks.sum, "sum")
        self.ops.emit_all(levels.outer[1])

    def _count(self, *loops: Loop) -> str:
        return self.index.product(loop.size for loop in loops)
