"""Prints one kernel as C++: a function over a range of items (rows, chunks of a row, tiles of columns) and its entry.

Flows in: a `Kernel`. Flows out: C++ text on `include/kernel.h`. Which loop is vectorised is decided in `vectorize.py`; how
one operation is written, in `operation_printer.py`, reductions in `reductions.py` and `parallel.py`; here is the frame.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cpu_codegen.blocks import BlocksPrinter
from cpu_codegen.contraction import find_product
from cpu_codegen.convolution import find_convolution
from cpu_codegen.loops import Loop
from cpu_codegen.names import entry_name
from cpu_codegen.operation_printer import OperationPrinter, print_arguments
from cpu_codegen.parallel import ColumnSplitPrinter, SplitPrinter
from cpu_codegen.ranges import cut
from cpu_codegen.reductions import ReductionPrinter
from cpu_codegen.text import Lines
from cpu_codegen.tiles import print_tiles
from cpu_codegen.vectorize import CHUNK, TILE, Mode, Plan, make_plan
from inductor import Kernel


def print_kernel(kernel: Kernel, lanes: int) -> str:
    """C++ of `kernel` for vectors of `lanes` float32 lanes.

    Raises:
        NotImplementedError: an operation or index expression that has no C++ here.
    """
    core = find_convolution(kernel, lanes) or find_product(kernel, lanes)
    if core is None:
        return _KernelPrinter(kernel, lanes).text()
    out = Lines()
    _print_origins(kernel, out)
    BlocksPrinter(kernel, core.blocks, core.header, out).print(core)
    return str(out)


def _print_origins(kernel: Kernel, out: Lines) -> None:
    for origin in kernel.origins or (kernel.name,):
        out("// " + re.sub(r"\s+", " ", origin))


class _KernelPrinter:
    def __init__(self, kernel: Kernel, lanes: int) -> None:
        self.kernel = kernel
        self.name = entry_name(kernel)
        self.lanes = lanes
        self.plan: Plan = make_plan(kernel, lanes)
        self.out = Lines()
        self.ops = OperationPrinter(kernel, self.plan, self.out)
        self.index = self.ops.index
        self.reductions = ReductionPrinter(kernel, self.plan, self.ops, self.out, lanes)

    # ---- The function and its entry

    def text(self) -> str:
        out, plan = self.out, self.plan
        _print_origins(self.kernel, out)
        if plan.split:
            self._work()
            SplitPrinter(self.kernel, plan, self.ops, self.reductions, out, self.lanes).print()
            return str(out)
        if plan.split_columns:
            self._work()
            ColumnSplitPrinter(self.kernel, plan, self.ops, self.reductions, out).print()
            return str(out)
        signature = f"static int {self.name}_items(const Word* args, void*, Index begin, Index end)"
        with out.block(signature + " {"):
            print_arguments(self.kernel, out)
            if self.ops.has_indirect:
                out("int status = DONE;")
            self.reductions.keep_memory()
            self._items()
            out("return status;" if self.ops.has_indirect else "return DONE;")
        self._work()
        if plan.apart:
            self._rows()
        with out.block(f'extern "C" EXPORT int {self.name}(const Word* args) {{'):
            print_arguments(self.kernel, out, sizes_only=True)
            if plan.apart:
                out(
                    f"return parallel({self.name}_rows, args, nullptr, {self.index(plan.outer[0].size)}, {self.name}_work(args));"
                )
            else:
                out(f"const Index items = {self._item_count()};")
                work = f"{self.name}_work(args)" if plan.parallel else "/* in order: points may write one element */ 0"
                out(f"return parallel({self.name}_items, args, nullptr, items, {work});")
        return str(out)

    def _rows(self) -> None:
        """Points of the outermost loop, each with its items in order: they may write one element."""
        signature = f"static int {self.name}_rows(const Word* args, void*, Index begin, Index end)"
        with self.out.block(signature + " {"):
            print_arguments(self.kernel, self.out, sizes_only=True)
            self.out(f"const Index items = {self._item_count(self.plan.outer[1:])};")
            self.out(f"return {self.name}_items(args, nullptr, begin * items, end * items);")

    def _work(self) -> None:
        """How much there is to do: the launcher keeps Python's lock for little work, `parallel` counts threads by it."""
        work = self.index.product([*(loop.size for loop in self._all_loops()), self.plan.cost])
        with self.out.block(f'extern "C" EXPORT Index {self.name}_work(const Word* args) {{'):
            print_arguments(self.kernel, self.out, sizes_only=True)
            self.out(f"return {work};")

    def _all_loops(self) -> list[Loop]:
        plan = self.plan
        tiled = [plan.tiled] if plan.tiled is not None else []
        return [*plan.outer, *tiled, *plan.inner] + ([plan.vector] if plan.mode is not Mode.INNER else [])

    # ---- Items

    @property
    def _tile(self) -> int:
        return self.plan.unroll * self.lanes

    def _item_count(self, outer: Sequence[Loop] | None = None) -> str:
        rows = self.index.product(loop.size for loop in (self.plan.outer if outer is None else outer))
        per_row = self._per_row()
        return rows if per_row is None else f"Index({rows}) * {per_row}"

    def _per_row(self) -> str | None:
        """Items per row; None where a row is one item."""
        plan = self.plan
        if plan.tiled is not None:
            loop, step = plan.tiled, TILE
        elif plan.chunked or plan.mode is Mode.OUTER:
            loop, step = plan.vector, CHUNK if plan.chunked else self._tile
        else:
            return None
        return str(-(-loop.static // step)) if loop.static is not None else f"ceil_div({self.index(loop.size)}, {step})"

    def _items(self) -> None:
        out, plan = self.out, self.plan
        if not plan.outer:
            with out.block("for (Index item = begin; item < end; ++item) {"):
                self._item()
            return
        # Rows by counting up like an odometer: dividing once, at the start.
        out("if (begin >= end) return DONE;")
        rest = "begin"
        per_row = self._per_row()
        if per_row is not None:
            out(f"const Index per_row = {per_row};")
            out("Index part = begin % per_row;")
            out("Index row = begin / per_row;")
            rest = "row"
        for position, loop in reversed(list(enumerate(plan.outer))):
            name = self.index(loop.variable)
            if position == 0:
                out(f"Index {name} = {rest};")
            else:
                size = self.index(loop.size)
                out(f"Index {name} = {rest} % ({size});")
                if position == 1 and rest != "begin":
                    rest = f"{rest} / ({size})"
                else:
                    rest = f"({rest}) / ({size})" if rest != "begin" else f"begin / ({size})"
        with out.block("for (Index item = begin; item < end; ++item) {"):
            self._item()
            counters = [("part", "per_row")] if per_row is not None else []
            counters += [(self.index(loop.variable), self.index(loop.size)) for loop in reversed(plan.outer)]
            self._count_up(counters)

    def _count_up(self, counters: list[tuple[str, str]]) -> None:
        (name, size), *more = counters
        if not more:
            self.out(f"++{name};")
            return
        with self.out.block(f"if (++{name} == {size}) {{"):
            self.out(f"{name} = 0;")
            self._count_up(more)

    def _part(self) -> str:
        return "part" if self.plan.outer else "item"

    def _item(self) -> None:
        if self.plan.tiled is not None:
            print_tiles(self.plan, self.ops, self.out, self._part())
        elif self.plan.mode is Mode.POINTWISE:
            self._pointwise()
        elif self.plan.mode is Mode.INNER:
            self.reductions.item_by_lanes()
        else:
            self.reductions.item_beside(f"{self._part()} * {self._tile}")

    # ---- Pointwise

    def _pointwise(self) -> None:
        out, plan = self.out, self.plan
        size = self.index(plan.vector.size)
        first, last = "0", size
        if plan.chunked:
            out(f"const Index first = {self._part()} * {CHUNK};")
            out(f"const Index last = at_most(first + {CHUNK}, {size});")
            first, last = "first", "last"
        ranges = cut(plan.body, plan.vector)
        if not ranges:
            self._points(self.ops, first, last, plan.vector.static)
        for each in ranges:
            ops = OperationPrinter(self.kernel, plan.narrowed(each.body), out)
            with out.block("{", "}"):
                if plan.chunked:
                    self._points(ops, f"at_least({first}, {each.first})", f"at_most({last}, {each.last})", None)
                else:
                    self._points(ops, str(each.first), str(each.last), each.last - each.first)

    def _points(self, ops: OperationPrinter, first: str, last: str, count: int | None) -> None:
        """All points [first, last) of the loop over vectors; `count` of them, if that is known."""
        plan, name = ops.plan, self.index(self.plan.vector.variable)
        ops.emit_all(at for at in plan.levels.outer[0] if not plan.varying[at])
        loop = "whole_vectors" if count is not None and count % self.lanes == 0 else "vectors"
        with self.out.block(f"{loop}({first}, {last}, [&](Index {name}, auto lanes) INLINE_BODY {{", "});"):
            ops.emit_all(at for at in plan.levels.outer[0] if plan.varying[at])
