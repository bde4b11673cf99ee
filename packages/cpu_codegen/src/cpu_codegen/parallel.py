"""Prints reductions of few rows, or few columns, of many points: all threads share each row, one pass after the other, or
all columns.

The points are cut into at most PARTS parts, whatever the number of threads; each part's partial result goes to its own
place, and they are combined in order: the result does not depend on the threads.
"""

from __future__ import annotations

from contextlib import ExitStack

from cpu_codegen.loops import Loop
from cpu_codegen.names import entry_name
from cpu_codegen.operation_printer import OperationPrinter, print_arguments
from cpu_codegen.operations import reduction_row
from cpu_codegen.reductions import ReductionPrinter
from cpu_codegen.text import Lines
from cpu_codegen.types import SCALAR, VECTOR
from cpu_codegen.vectorize import Plan
from inductor import Constant, Indirect, Kernel, Pass

PARTS = 64


def _loop_to_cut(plan: Plan) -> Loop:
    """The outermost inner loop if it is long, else the last one."""
    first, last = plan.inner[0], plan.inner[-1]
    return first if first.static is None or first.static >= PARTS else last


class SplitPrinter:
    """Prints a whole kernel: what the threads share, one function a pass, the entry that runs them."""

    def __init__(
        self, kernel: Kernel, plan: Plan, ops: OperationPrinter, reductions: ReductionPrinter, out: Lines, lanes: int
    ) -> None:
        self.kernel, self.plan, self.ops, self.reductions, self.out = kernel, plan, ops, reductions, out
        self.index, self.lanes, self.name = ops.index, lanes, entry_name(kernel)
        self.cut = _loop_to_cut(plan)
        self.needed = [self._needed(step) for step in plan.levels.passes]

    def print(self) -> None:
        """Print the kernel."""
        self._shared()
        for k, step in enumerate(self.plan.levels.passes):
            self._pass(k, step)
        self._entry()

    def _needed(self, step: Pass) -> list[int]:
        """Outer values that a pass reads."""
        plan, needs = self.plan, self.reductions.needs
        inside = set(step.ops)
        read = {n for at in (*step.ops, *step.reductions) for n in needs[at]} - inside
        return sorted(at for at in read if not isinstance(plan.body.ops[at], Constant))

    def _declaration(self, at: int) -> tuple[str, str]:
        """Type and name of an outer value."""
        op = self.plan.body.ops[at]
        if isinstance(op, Indirect):
            return "Index", self.index(op.symbol)
        return SCALAR[self.plan.body.dtype(at)], f"v{at}"

    def _partial_type(self, at: int) -> str:
        row = reduction_row(self.plan.body.reduction(at).kind)
        return row.partial.format(type=SCALAR[self.reductions.accumulated(at)])

    def _shared(self) -> None:
        out = self.out
        out("// What the threads share: the row, values known so far, partial results.")
        with out.block(f"struct {self.name}_Shared {{", "};"):
            out("Index step;")
            for loop in self.plan.outer:
                out(f"Index {self.index(loop.variable)};")
            for at in sorted({at for needed in self.needed for at in needed}):
                out("{} {};".format(*self._declaration(at)))
            for k, step in enumerate(self.plan.levels.passes):
                if step.reductions:
                    fields = " ".join(f"{self._partial_type(at)} sum{at};" for at in step.reductions)
                    out(f"struct {{ {fields} }} parts{k}[{PARTS}];")

    def _pass(self, k: int, step: Pass) -> None:
        out = self.out
        signature = f"static int {self.name}_pass{k}(const Word* args, void* data, Index begin, Index end)"
        with self.ops.scope(), out.block(signature + " {"):
            print_arguments(self.kernel, out)
            out(f"auto& shared = *({self.name}_Shared*)data;")
            for loop in self.plan.outer:
                name = self.index(loop.variable)
                out(f"const Index {name} = shared.{name};")
            for at in self.needed[k]:
                kind, name = self._declaration(at)
                out(f"const {kind} {name} = shared.{name};")
                self.ops.define(at, name)
            self._constants()
            if self.ops.has_indirect:
                out("int status = DONE;")
            with out.block("for (Index part = begin; part < end; ++part) {"):
                out("const Index first = part * shared.step;")
                out(f"const Index last = at_most(first + shared.step, {self.index(self.cut.size)});")
                self.reductions.inner_pass(step, part=(self.cut.variable, "first", "last"))
                for at in step.reductions:
                    out(f"shared.parts{k}[part].sum{at} = sum{at}.partial();")
            out("return status;" if self.ops.has_indirect else "return DONE;")

    def _constants(self) -> None:
        self.ops.emit_all(at for at, op in enumerate(self.plan.body.ops) if isinstance(op, Constant))

    def _entry(self) -> None:
        out, plan, name = self.out, self.plan, self.name
        with out.block(f'extern "C" EXPORT int {name}(const Word* args) {{'):
            print_arguments(self.kernel, out)
            out(f"{name}_Shared shared;")
            size = self.index(self.cut.size)
            step = f"ceil_div({size}, {PARTS})"
            if self.cut is plan.inner[-1]:
                # Whole steps of vectors, and not too short ones.
                vectors = plan.unroll * self.lanes
                step = f"ceil_div(at_least({step}, 4096), {vectors}) * {vectors}"
            out(f"shared.step = at_least({step}, 1);")
            out(f"const Index parts = ceil_div({size}, shared.step);")
            row_work = self.index.product([*(loop.size for loop in plan.inner), plan.cost])
            out(f"const Index row_work = {row_work};")
            if self.ops.has_indirect:
                out("int status = DONE;")
            with ExitStack() as loops:
                for loop in plan.outer:
                    v = self.index(loop.variable)
                    loops.enter_context(out.block(f"for (Index {v} = 0; {v} < {self.index(loop.size)}; ++{v}) {{"))
                    out(f"shared.{v} = {v};")
                self._row()
            out("return DONE;")

    def _row(self) -> None:
        out, plan = self.out, self.plan
        stored: set[int] = set()
        for k, step in enumerate(plan.levels.passes):
            self.ops.emit_all(plan.levels.outer[k])
            for at in self.needed[k]:
                if at not in stored:
                    stored.add(at)
                    name = self._declaration(at)[1]
                    out(f"shared.{name} = {self.ops.scalar(at)};")
            call = f"parallel({self.name}_pass{k}, args, &shared, parts, row_work)"
            out(f"if (const int failed = {call}) return failed;")
            for at in step.reductions:
                self._combine(k, at)
        self.ops.emit_all(plan.levels.outer[len(plan.levels.passes)])

    def _combine(self, k: int, at: int) -> None:
        out = self.out
        row = reduction_row(self.plan.body.reduction(at).kind)
        out(f"{row.scalar.format(type=SCALAR[self.reductions.accumulated(at)], parts='')} sum{at};")
        add = f"sum{at}.add({row.merge.format(f'part.sum{at}')}, Full());"
        out(f"for (Index p = 0; p < parts; ++p) {{ const auto& part = shared.parts{k}[p]; {add} }}")
        self.reductions.result(at)


class ColumnSplitPrinter:
    """Prints a whole kernel of mode OUTER: pass after pass, threads go over parts of the points for all columns, then combine
    what they reduced column by column. What runs once a column is computed again by each part; its stores run at the end."""

    def __init__(
        self, kernel: Kernel, plan: Plan, ops: OperationPrinter, reductions: ReductionPrinter, out: Lines
    ) -> None:
        self.kernel, self.plan, self.ops, self.reductions, self.out = kernel, plan, ops, reductions, out
        self.index, self.name = ops.index, entry_name(kernel)
        self.cut = _loop_to_cut(plan)
        self.passes = plan.levels.passes
        assert plan.vector.static is not None
        self.columns = plan.vector.static
        self.tiles = -(-self.columns // reductions.tile)

    def print(self) -> None:
        """Print the kernel."""
        out, name = self.out, self.name
        out(
            "// What the threads share: partial results, one row of columns a part, and for later passes the whole ones."
        )
        with out.block(f"struct {name}_Shared {{", "};"):
            out("Index step, parts;")
            for k, step in enumerate(self.passes):
                for at in step.reductions:
                    out(f"{self._element(at)} sum{at}[{PARTS} * {self.columns}];")
                    if k + 1 < len(self.passes):
                        out(f"{SCALAR[self.plan.body.dtype(at)]} total{at}[{self.columns}];")
        steps = []
        for k, step in enumerate(self.passes):
            with self._function(f"parts{k}"):
                with out.block("for (Index item = begin; item < end; ++item) {"):
                    out(f"const Index part = item / {self.tiles};")
                    out("const Index first_row = part * shared.step;")
                    out(f"const Index last_row = at_most(first_row + shared.step, {self.index(self.cut.size)});")
                    start = f"item % {self.tiles} * {self.reductions.tile}"
                    self.reductions.item_beside(start, lambda k=k: self._part(k))  # type: ignore[misc]
                out("return status;" if self.ops.has_indirect else "return DONE;")
            items = f"shared->parts * {self.tiles}" if self.tiles > 1 else "shared->parts"
            steps.append(f"parallel({name}_parts{k}, args, shared, {items}, {name}_work(args) / {len(self.passes)})")
            if not step.reductions and k + 1 < len(self.passes):
                continue
            with self._function(f"columns{k}"):
                with out.block("for (Index item = begin; item < end; ++item) {"):
                    self.reductions.item_beside(
                        f"item * {self.reductions.tile}",
                        lambda k=k: self._combine(k),  # type: ignore[misc]
                    )
                out("return status;" if self.ops.has_indirect else "return DONE;")
            steps.append(f"parallel({name}_columns{k}, args, shared, {self.tiles}, {PARTS * self.columns})")
        with out.block(f'extern "C" EXPORT int {name}(const Word* args) {{'):
            print_arguments(self.kernel, out, sizes_only=True)
            out(f"auto* shared = new_shared<{name}_Shared>();")
            size = self.index(self.cut.size)
            out(f"shared->step = at_least(ceil_div({size}, {PARTS}), 1);")
            out(f"shared->parts = ceil_div({size}, shared->step);")
            out("int failed = DONE;")
            for text in steps:
                out(f"if (!failed) failed = {text};")
            out("__builtin_free(shared);")
            out("return failed;")

    def _element(self, at: int) -> str:
        return SCALAR[self.reductions.accumulated(at)]

    def _function(self, suffix: str) -> ExitStack:
        stack = ExitStack()
        stack.enter_context(self.ops.scope())
        signature = f"static int {self.name}_{suffix}(const Word* args, void* data, Index begin, Index end) {{"
        stack.enter_context(self.out.block(signature))
        print_arguments(self.kernel, self.out)
        self.out(f"auto& shared = *({self.name}_Shared*)data;")
        if self.ops.has_indirect:
            self.out("int status = DONE;")
        return stack

    def _column(self) -> str:
        return self.index(self.plan.vector.variable)

    def _before(self, k: int, stores: bool) -> None:
        """What is known of a column before pass `k`."""
        for earlier in range(k):
            self.reductions.outer_section(earlier, stores)
            reduced = self.passes[earlier].reductions
            for at in reduced:
                self.out(f"{VECTOR[self.plan.body.dtype(at)]} v{at}[WIDTH];")
            if reduced:
                with self.reductions.each_vector():
                    for at in reduced:
                        vector = VECTOR[self.plan.body.dtype(at)]
                        self.out(f"v{at}[u] = load<{vector}>(shared.total{at} + {self._column()}, lanes);")
            for at in reduced:
                self.ops.define(at, f"v{at}[u]")
        self.reductions.outer_section(k, stores)

    def _part(self, k: int) -> None:
        step = self.passes[k]
        self._before(k, stores=False)
        self.reductions.outer_pass(step, part=(self.cut.variable, "first_row", "last_row"))
        if step.reductions:
            with self.reductions.each_vector():
                for at in step.reductions:
                    place = f"shared.sum{at} + (part * {self.columns} + {self._column()})"
                    self.out(f"store({place}, {self.ops.vector(at)}, lanes);")

    def _combine(self, k: int) -> None:
        last = k + 1 == len(self.passes)
        if last:
            self._before(k, stores=True)
        reduced = self.passes[k].reductions
        for at in reduced:
            self.out(f"Several<{self.reductions.accumulator(at, 1, cascade=False)}, WIDTH> sum{at};")
        if reduced:
            with self.out.block("for (Index p = 0; p < shared.parts; ++p) {"), self.reductions.each_vector():
                for at in reduced:
                    dtype = self.plan.body.dtype(at)
                    place = f"shared.sum{at} + (p * {self.columns} + {self._column()})"
                    self.out(f"sum{at}[u].add(load<{VECTOR[dtype]}>({place}, lanes), lanes);")
        for at in reduced:
            self.ops.define(at, f"sum{at}[u].value()")
        if last:
            self.reductions.outer_section(k + 1)
            return
        with self.reductions.each_vector():
            for at in reduced:
                self.out(f"store(shared.total{at} + {self._column()}, {self.ops.vector(at)}, lanes);")
