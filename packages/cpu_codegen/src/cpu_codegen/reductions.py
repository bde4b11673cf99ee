"""Prints reductions: accumulators, the passes over the inner loops, and what runs before, between and after them.

Flows in: a `Plan` in mode INNER (the lanes of a vector are reduced in the end) or OUTER (each lane reduces on its own).
Flows out: lines of the item function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack

import sympy
import torch

from cpu_codegen.index import Symbol, stride
from cpu_codegen.loops import Loop
from cpu_codegen.operation_printer import OperationPrinter
from cpu_codegen.operations import reduction_row
from cpu_codegen.text import Lines
from cpu_codegen.types import SCALAR, VECTOR
from cpu_codegen.vectorize import FOLD, Mode, Plan
from inductor import REDUCTIONS, Kernel, Load, Pass, Reduce, Store, dependencies


class ReductionPrinter:
    """Prints the reductions of one kernel to `out`."""

    def __init__(self, kernel: Kernel, plan: Plan, ops: OperationPrinter, out: Lines, lanes: int) -> None:
        self.kernel, self.plan, self.ops, self.out, self.lanes = kernel, plan, ops, out, lanes
        self.index = ops.index
        self.tile = plan.unroll * lanes
        self.needs = dependencies(plan.body)
        self.inner_symbols = self._inner_symbols()
        self.kept_so_far: set[int] = set()

    # ---- Reductions over lanes

    def item_by_lanes(self) -> None:
        """One item of mode INNER: all passes of one row."""
        plan = self.plan
        for k, step in enumerate(plan.levels.passes):
            self.ops.emit_all(plan.levels.outer[k])
            self.inner_pass(step)
            for at in step.reductions:
                self.result(at)
        self.ops.emit_all(plan.levels.outer[len(plan.levels.passes)])

    def inner_pass(self, step: Pass, part: tuple[Symbol, str, str] | None = None) -> None:
        """One pass of mode INNER; leaves the accumulators. `part`: only this range of one of the loops."""
        out, plan = self.out, self.plan
        unroll = plan.unroll if step.reductions else 1
        for at in step.reductions:
            out(f"{self.accumulator(at, unroll)} sum{at};")
        folding = [at for at in step.reductions if self._cascades(at)]
        outer_loops, vector = plan.inner[:-1], plan.inner[-1]
        size, static = self.index(vector.size), vector.static
        block = FOLD * unroll * self.lanes
        rows_per_fold = max(1, block // static) if static else 1
        with self.ops.scope(), ExitStack() as stack:
            counted = bool(folding and outer_loops and rows_per_fold > 1)
            counter = f"unfolded{folding[0]}" if folding else ""
            if counted:
                out(f"Index {counter} = 0;")
            self._open_loops(outer_loops, step, stack, part)
            first, last = "0", size
            if part is not None and part[0] == vector.variable:
                _, first, last = part
            blocked = bool(folding) and (static is None or static > block)
            if blocked:
                stack.enter_context(out.block(f"for (Index from = {first}; from < {last}; from += {block}) {{"))
                first, last = "from", f"at_most(from + {block}, {last})"
            self._vector_loop(step, unroll, first, last)
            if folding:
                folds = " ".join(f"sum{at}.fold();" for at in folding)
                if counted:
                    out(f"if (++{counter} == {rows_per_fold}) {{ {folds} {counter} = 0; }}")
                else:
                    out(folds)

    def result(self, at: int) -> None:
        """The value of a finished reduction, the same for all lanes."""
        dtype = self.plan.body.dtype(at)
        cast = f"({SCALAR[dtype]})" if dtype in (torch.int8, torch.int16, torch.uint8) else ""
        self.out(f"const {SCALAR[dtype]} v{at} = {cast}sum{at}.result();")
        self.ops.define(at, f"v{at}")

    def keep_memory(self) -> None:
        """Memory of one row for each value kept from one pass to the next."""
        points = self.index.product(loop.size for loop in self.plan.inner)
        for at in sorted(self.plan.kept):
            dtype = self.plan.body.dtype(at)
            self.out(f"Row<{SCALAR[dtype]}> kept{at}({points});")

    def _emit_kept(self, at: int) -> None:
        """Compute a kept value in its first pass and load it in later ones."""
        place = f"kept{at}.data + {self._row_position()}"
        if at not in self.kept_so_far:
            self.kept_so_far.add(at)
            self.ops.emit(at)
            self.out(f"store({place}, {self.ops.vector(at)}, lanes);")
            return
        self.ops.emit_as(at, place)

    def _row_position(self) -> str:
        position: sympy.Expr = sympy.S.Zero
        for loop in self.plan.inner:
            position = position * loop.size + loop.variable
        return self.index.factor(sympy.expand(position))

    def _vector_loop(self, step: Pass, unroll: int, first: str, last: str) -> None:
        plan = self.plan
        vector = plan.inner[-1]
        name = self.index(vector.variable)
        whole = vector.static is not None and vector.static % (unroll * self.lanes) == 0
        if step.reductions:
            head = f"reduce_{'whole_' if whole else ''}vectors<{unroll}>({first}, {last}, [&](Index {name}, auto lanes, auto k)"
        else:
            head = f"{'whole_' if whole else ''}vectors({first}, {last}, [&](Index {name}, auto lanes)"
        with self.ops.scope(), self.out.block(head + " INLINE_BODY {", "});"):
            for at in step.ops:
                if at in plan.kept:
                    self._emit_kept(at)
                elif plan.varying[at]:
                    self.ops.emit(at)
            for at in step.reductions:
                self._accumulate(at, f"sum{at}", "lanes, k")

    def _open_loops(
        self, loops: Sequence[Loop], step: Pass, stack: ExitStack, part: tuple[Symbol, str, str] | None = None
    ) -> None:
        """Open scalar loops; each operation that does not vary over lanes runs as far out as it can."""
        plan = self.plan
        seen: set[Symbol] = set()
        done: set[int] = set()
        for loop in loops:
            self._emit_uniform(step, seen, done)
            name, first, last = self.index(loop.variable), "0", self.index(loop.size)
            if part is not None and part[0] == loop.variable:
                _, first, last = part
            stack.enter_context(self.out.block(f"for (Index {name} = {first}; {name} < {last}; ++{name}) {{"))
            seen.add(loop.variable)
        self._emit_uniform(step, seen, done)
        missing = [at for at in step.ops if not plan.varying[at] and at not in done]
        assert not missing, f"operations {missing} of {self.kernel.name} depend on no open loop"

    def _emit_uniform(self, step: Pass, seen: set[Symbol], done: set[int]) -> None:
        for at in step.ops:
            if at not in done and not self.plan.varying[at] and self.inner_symbols[at] <= seen:
                done.add(at)
                self.ops.emit(at)

    def _inner_symbols(self) -> list[set[Symbol]]:
        """For each operation the inner variables that reach it."""
        body, inner = self.plan.body, set(self.plan.body.inner_vars)
        reach: list[set[Symbol]] = []
        for at, op in enumerate(body.ops):
            mine: set[Symbol] = set()
            if not isinstance(op, Reduce):
                mine.update(op.symbols() & inner, *(reach[n] for n in self.needs[at]))
            reach.append(mine)
        return reach

    # ---- Accumulators

    def _cascades(self, at: int) -> bool:
        op = self.plan.body.reduction(at)
        if reduction_row(op.kind).cascade is None or op.dtype is not torch.float32:
            return False
        points = self.plan.inner_points
        per_part = FOLD * (self.plan.unroll * self.lanes if self.plan.mode is Mode.INNER else 1)
        return points is None or points > per_part

    def accumulated(self, at: int) -> torch.dtype:
        """The dtype of a reduction's partial results."""
        op = self.plan.body.reduction(at)
        dtype = self.plan.body.dtype(op.value.at)
        if REDUCTIONS[op.kind].of_truth:
            return torch.bool
        return reduction_row(op.kind).bool_dtype if dtype is torch.bool else dtype

    def accumulator(self, at: int, parts: int, cascade: bool = True) -> str:
        """Type of a reduction's accumulator of `parts` partial results."""
        row, dtype = reduction_row(self.plan.body.reduction(at).kind), self.accumulated(at)
        vector = self.plan.mode is Mode.INNER or self.plan.varying[at]
        form = row.vector if vector else row.scalar
        if cascade and row.cascade is not None and self._cascades(at):
            form = row.cascade
        name = VECTOR[dtype] if vector else SCALAR[dtype]
        return form.format(type=name, parts=f", {parts}" if parts > 1 else "")

    def _accumulate(self, at: int, target: str, lanes: str) -> None:
        op = self.plan.body.reduction(at)
        kind, value = op.kind, op.value
        vector = self.plan.mode is Mode.INNER or self.plan.varying[at]
        text = self.ops.vector(value.at) if vector else self.ops.scalar(value.at)
        dtype = self.plan.body.dtype(value.at)
        row = reduction_row(kind)
        text = row.value.format(text)
        if dtype is torch.bool:
            text = row.of_bool.format(text)
        if REDUCTIONS[kind].finds_position:
            position: sympy.Expr = sympy.S.Zero
            for loop in self._inner_in_order():
                position = position * loop.size + loop.variable
            position_text = self.ops.position(sympy.expand(position), vector)
            self.out(f"{target}.add({text}, {position_text}, {lanes});")
            return
        self.out(f"{target}.add({text}, {lanes});")

    def _inner_in_order(self) -> list[Loop]:
        """The inner loops in the order that positions count in."""
        by_variable = {loop.variable: loop for loop in self.plan.inner}
        return [by_variable[variable] for variable in self.plan.body.inner_vars]

    # ---- Reductions beside each other: each lane on its own

    def item_beside(self, first: str, body: Callable[[], None] | None = None) -> None:
        """One item of mode OUTER: all passes (or `body`) for a tile of lanes that starts at `first`."""
        out, plan = self.out, self.plan
        name = self.index(plan.vector.variable)
        size, static = self.index(plan.vector.size), plan.vector.static
        whole = static is not None and static % self.tile == 0
        head = f"const auto tile = [&](Index {name}_first, auto width, auto lanes) INLINE_BODY {{"
        with out.block(head, "};"):
            out("constexpr int WIDTH = decltype(width)::value;")
            (body or self._outer_body)()
        out(f"const Index first = {first};")
        if whole:
            out(f"tile(first, Constant<{plan.unroll}>(), Full());")
            return
        rest = (
            f"vectors(first, at_most(first + {self.tile}, {size}), "
            f"[&](Index at, auto lanes) INLINE_BODY {{ tile(at, Constant<1>(), lanes); }});"
        )
        if plan.unroll == 1:
            out(rest)
            return
        out(f"if (first + {self.tile} <= {size}) tile(first, Constant<{plan.unroll}>(), Full());")
        out(f"else {rest}")

    def _outer_body(self) -> None:
        self._turn_loads()
        for k in range(len(self.plan.levels.passes) + 1):
            self.outer_section(k)
            if k < len(self.plan.levels.passes):
                self.outer_pass(self.plan.levels.passes[k])

    def _turn_loads(self) -> None:
        """Copy what is contiguous in the inner loop to the stack: there it is contiguous over lanes."""
        plan, inner = self.plan, self.plan.inner[0]
        name = self.index(plan.vector.variable)
        for at in sorted(plan.staged):
            op = plan.body.ops[at]
            assert isinstance(op, Load) and inner.static is not None
            step = stride(op.index, plan.vector.variable)
            assert step is not None
            scalar = SCALAR[op.dtype]
            corner = self.ops.address(op, {inner.variable: "0", plan.vector.variable: f"{name}_first"})
            self.out(f"alignas(VECTOR_BYTES) {scalar} turned{at}[{inner.static} * LANES];")
            self.out(f"turn(turned{at}, LANES, {corner}, {self.index(step)}, {inner.static}, lanes.n);")

    def _emit_varying(self, positions: Iterable[int]) -> None:
        inner = self.index(self.plan.inner[0].variable)
        for at in positions:
            if at in self.plan.staged:
                self.ops.emit_as(at, f"turned{at} + {inner} * LANES")
            elif self.plan.varying[at]:
                self.ops.emit(at)

    def outer_section(self, k: int, stores: bool = True) -> None:
        """What runs once a lane before pass `k`, with its stores or without; values that are read later go to arrays over the
        tile."""
        plan = self.plan
        positions = [at for at in plan.levels.outer[k] if stores or not isinstance(plan.body.ops[at], Store)]
        self.ops.emit_all(at for at in positions if not plan.varying[at])
        varying = [at for at in positions if plan.varying[at]]
        kept = [at for at in varying if self.ops.is_value(at) and self._used_later(at, k)]
        for at in kept:
            dtype = plan.body.dtype(at)
            self.out(f"{VECTOR[dtype]} v{at}[WIDTH];")
        if varying:
            with self.each_vector():
                for at in varying:
                    self.ops.emit(at, keep_in=f"v{at}[u]" if at in kept else None)
            for at in kept:
                self.ops.define(at, f"v{at}[u]")

    def _used_later(self, at: int, k: int) -> bool:
        """Whether a varying outer value is read outside of its own section."""
        same = set(self.plan.levels.outer[k])
        return any(at in needs and user not in same for user, needs in enumerate(self.needs))

    def each_vector(self) -> ExitStack:
        """`each<WIDTH>` over the vectors of a tile, with the vector's first lane as the loop variable."""
        stack = ExitStack()
        stack.enter_context(self.ops.scope())
        stack.enter_context(self.out.block("each<WIDTH>([&](auto u) INLINE_BODY {", "});"))
        name = self.index(self.plan.vector.variable)
        self.out(f"const Index {name} = {name}_first + u.value * LANES;")
        return stack

    def outer_pass(self, step: Pass, part: tuple[Symbol, str, str] | None = None) -> None:
        """One pass of mode OUTER; `part`: only this range of one of the loops."""
        out, plan = self.out, self.plan
        varying = [at for at in step.reductions if plan.varying[at]]
        uniform = [at for at in step.reductions if not plan.varying[at]]
        for at in varying:
            out(f"Several<{self.accumulator(at, 1)}, WIDTH> sum{at};")
        for at in uniform:
            out(f"{self.accumulator(at, 1)} sum{at};")
        folding = [at for at in step.reductions if self._cascades(at)]
        with self.ops.scope(), ExitStack() as stack:
            counter = f"unfolded{folding[0]}" if folding else ""
            if folding:
                out(f"Index {counter} = 0;")
            self._open_loops(plan.inner, step, stack, part)
            if varying or any(plan.varying[at] for at in step.ops):
                with self.each_vector():
                    self._emit_varying(step.ops)
                    for at in varying:
                        self._accumulate(at, f"sum{at}[u]", "lanes")
            for at in uniform:
                self._accumulate(at, f"sum{at}", "Full()")
            if folding:
                with out.block(f"if (++{counter} == {FOLD}) {{"):
                    for at in folding:
                        fold = f"sum{at}[u].fold();"
                        out(
                            f"each<WIDTH>([&](auto u) INLINE_BODY {{ {fold} }});"
                            if at in varying
                            else f"sum{at}.fold();"
                        )
                    out(f"{counter} = 0;")
        for at in uniform:
            self.result(at)
        for at in varying:
            self.ops.define(at, f"sum{at}[u].value()")
