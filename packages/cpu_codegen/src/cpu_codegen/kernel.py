"""Prints one kernel as C++: a function over a range of items (rows, chunks of a row, tiles of columns) and its entry.

Flows in: a `Kernel`. Flows out: C++ text on `include/kernel.h`. Which loop is vectorised is decided in `vectorize.py`; how
one operation is written, in `operation_printer.py`; here is the loop structure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack

import sympy
import torch

from cpu_codegen.operation_printer import OperationPrinter, identifier
from cpu_codegen.text import Lines
from cpu_codegen.types import MEMORY, SCALAR, VECTOR
from cpu_codegen.vectorize import CHUNK, FOLD, Loop, Mode, Plan, make_plan
from inductor.device import Kernel
from inductor.levels import Pass, dependencies, op_symbols

_REDUCTION = {"sum": "Sum", "prod": "Prod", "max": "Max", "min": "Min", "any": "Any", "all": "All"}


def print_kernel(kernel: Kernel, lanes: int) -> str:
    """C++ of `kernel` for vectors of `lanes` float32 lanes.

    Raises:
        NotImplementedError: an operation or index expression that has no C++ here.
    """
    return _KernelPrinter(kernel, lanes).text()


class _KernelPrinter:
    def __init__(self, kernel: Kernel, lanes: int) -> None:
        self.kernel = kernel
        self.lanes = lanes
        self.plan: Plan = make_plan(kernel, lanes)
        self.out = Lines()
        self.ops = OperationPrinter(kernel, self.plan, self.out)
        self.index = self.ops.index
        self.needs = dependencies(self.plan.body)
        self.inner_symbols = self._inner_symbols()
        self.kept_so_far: set[int] = set()

    # ---- The function and its entry

    def text(self) -> str:
        out, plan = self.out, self.plan
        for origin in self.kernel.origins or (self.kernel.name,):
            out("// " + re.sub(r"\s+", " ", origin))
        signature = f"static int {self.kernel.name}_items(const Word* args, void*, Index begin, Index end)"
        with out.block(signature + " {"):
            self._arguments()
            if self.ops.has_indirect:
                out("int status = DONE;")
            self._keep_memory()
            self._items()
            out("return status;" if self.ops.has_indirect else "return DONE;")
        with out.block(f'extern "C" EXPORT int {self.kernel.name}(const Word* args) {{'):
            self._arguments(sizes_only=True)
            points = " * ".join(f"({self.index(l.size)})" for l in self._all_loops()) or "1"
            out(f"const Index items = {self._item_count()};")
            if plan.parallel:
                out(f"const Index work = {points} * {plan.cost};")
            out(
                f"return parallel({self.kernel.name}_items, args, nullptr, items, "
                f"{'work' if plan.parallel else '/* in order, since points may write one element */ 0'});"
            )
        return str(out)

    def _all_loops(self) -> list[Loop]:
        plan = self.plan
        return [*plan.outer, *plan.inner] + ([plan.vector] if plan.mode is not Mode.INNER else [])

    def _arguments(self, sizes_only: bool = False) -> None:
        for position, arg in enumerate(self.kernel.args):
            name = identifier(arg.name)
            if arg.role == "size":
                self.out(f"const Index {name} = args[{position}].integer;")
            elif not sizes_only:
                kind = ("const " if arg.role == "in" else "") + MEMORY[arg.dtype]
                self.out(f"{kind}* const {name} = ({kind}*)args[{position}].pointer;")

    # ---- Items

    @property
    def _tile(self) -> int:
        return self.plan.unroll * self.lanes

    def _item_count(self) -> str:
        factors = [f"({self.index(loop.size)})" for loop in self.plan.outer]
        per_row = self._per_row()
        if per_row is not None:
            factors.append(per_row)
        return " * ".join(factors) or "1"

    def _per_row(self) -> str | None:
        """Items per row; None where a row is one item."""
        plan = self.plan
        step = CHUNK if plan.chunked else self._tile if plan.mode is Mode.OUTER else None
        if step is None:
            return None
        if plan.vector.static is not None:
            return str(-(-plan.vector.static // step))
        return f"ceil_div({self.index(plan.vector.size)}, {step})"

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
            counters += [(self.index(l.variable), self.index(l.size)) for l in reversed(plan.outer)]
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
        {Mode.POINTWISE: self._pointwise, Mode.INNER: self._inner, Mode.OUTER: self._outer}[self.plan.mode]()

    # ---- Pointwise

    def _pointwise(self) -> None:
        out, plan = self.out, self.plan
        self._emit(at for at in plan.levels.outer[0] if not plan.varying[at])
        size = self.index(plan.vector.size)
        first, last = "0", size
        if plan.chunked:
            out(f"const Index first = {self._part()} * {CHUNK};")
            out(f"const Index last = at_most(first + {CHUNK}, {size});")
            first, last = "first", "last"
        static = plan.vector.static
        loop = "whole_vectors" if static is not None and static % self.lanes == 0 else "vectors"
        name = self.index(plan.vector.variable)
        with out.block(f"{loop}({first}, {last}, [&](Index {name}, auto lanes) INLINE_BODY {{", "});"):
            self._emit(at for at in plan.levels.outer[0] if plan.varying[at])

    def _emit(self, positions: Iterable[int]) -> None:
        for at in positions:
            self.ops.emit(at)

    # ---- Reductions over lanes

    def _inner(self) -> None:
        plan = self.plan
        for k, step in enumerate(plan.levels.passes):
            self._emit(plan.levels.outer[k])
            self._inner_pass(step)
        self._emit(plan.levels.outer[len(plan.levels.passes)])

    def _inner_pass(self, step: Pass) -> None:
        out, plan = self.out, self.plan
        unroll = plan.unroll if step.reductions else 1
        for at in step.reductions:
            out(f"{self._accumulator(at, unroll)} sum{at};")
        folding = [at for at in step.reductions if self._cascades(at)]
        outer_loops, vector = plan.inner[:-1], plan.inner[-1]
        size, static = self.index(vector.size), vector.static
        block = FOLD * unroll * self.lanes
        rows_per_fold = max(1, block // static) if static else 1
        with self.ops.scope(), ExitStack() as stack:
            counted = bool(folding and outer_loops and rows_per_fold > 1)
            if counted:
                out("Index unfolded = 0;")
            self._open_loops(outer_loops, step, stack)
            first, last = "0", size
            blocked = bool(folding) and (static is None or static > block)
            if blocked:
                stack.enter_context(out.block(f"for (Index from = 0; from < {size}; from += {block}) {{"))
                first, last = "from", f"at_most(from + {block}, {size})"
            self._vector_loop(step, unroll, first, last)
            if folding:
                folds = " ".join(f"sum{at}.fold();" for at in folding)
                if counted:
                    out(f"if (++unfolded == {rows_per_fold}) {{ {folds} unfolded = 0; }}")
                else:
                    out(folds)
        for at in step.reductions:
            dtype = plan.body.ops[at].dtype
            assert dtype is not None
            out(f"const {SCALAR[dtype]} v{at} = {self._cast(dtype)}sum{at}.result();")
            self.ops.define(at, f"v{at}")

    def _keep_memory(self) -> None:
        """Memory of one row for each value kept from one pass to the next."""
        points = " * ".join(f"({self.index(loop.size)})" for loop in self.plan.inner)
        for at in sorted(self.plan.kept):
            dtype = self.plan.body.ops[at].dtype
            assert dtype is not None
            self.out(f"Row<{SCALAR[dtype]}> kept{at}({points});")

    def _emit_kept(self, at: int) -> None:
        """Compute a kept value in its first pass and load it in later ones."""
        place = f"kept{at}.data + {self._row_position()}"
        if at not in self.kept_so_far:
            self.kept_so_far.add(at)
            self.ops.emit(at)
            self.out(f"store({place}, {self.ops.vector(at)}, lanes);")
            return
        dtype = self.plan.body.ops[at].dtype
        assert dtype is not None
        self.out(f"const {VECTOR[dtype]} v{at} = load<{VECTOR[dtype]}>({place}, lanes);")
        self.ops.define(at, f"v{at}")

    def _row_position(self) -> str:
        position: sympy.Expr = sympy.S.Zero
        for loop in self.plan.inner:
            position = position * loop.size + loop.variable
        return f"({self.index(sympy.expand(position))})"

    @staticmethod
    def _cast(dtype: torch.dtype) -> str:
        return f"({SCALAR[dtype]})" if dtype in (torch.int8, torch.int16, torch.uint8) else ""

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

    def _open_loops(self, loops: Sequence[Loop], step: Pass, stack: ExitStack) -> None:
        """Open scalar loops; each operation that does not vary over lanes runs as far out as it can."""
        plan = self.plan
        seen: set[sympy.Symbol] = set()
        done: set[int] = set()
        for loop in loops:
            self._emit_uniform(step, seen, done)
            name = self.index(loop.variable)
            stack.enter_context(
                self.out.block(f"for (Index {name} = 0; {name} < {self.index(loop.size)}; ++{name}) {{")
            )
            seen.add(loop.variable)
        self._emit_uniform(step, seen, done)
        missing = [at for at in step.ops if not plan.varying[at] and at not in done]
        assert not missing, f"operations {missing} of {self.kernel.name} depend on no open loop"

    def _emit_uniform(self, step: Pass, seen: set[sympy.Symbol], done: set[int]) -> None:
        for at in step.ops:
            if at not in done and not self.plan.varying[at] and self.inner_symbols[at] <= seen:
                done.add(at)
                self.ops.emit(at)

    def _inner_symbols(self) -> list[set[sympy.Symbol]]:
        """For each operation the inner variables that reach it."""
        body, inner = self.plan.body, set(self.plan.body.inner_vars)
        reach: list[set[sympy.Symbol]] = []
        for at, op in enumerate(body.ops):
            mine: set[sympy.Symbol] = set()
            if op.name != "reduce":
                mine = (op_symbols(op) & inner).union(*(reach[n] for n in self.needs[at]))
            reach.append(mine)
        return reach

    # ---- Accumulators

    def _cascades(self, at: int) -> bool:
        op = self.plan.body.ops[at]
        if op.name != "reduce" or op.args[0] != "sum" or op.dtype is not torch.float32:
            return False
        points = self.plan.inner_points
        per_part = FOLD * (self.plan.unroll * self.lanes if self.plan.mode is Mode.INNER else 1)
        return points is None or points > per_part

    def _accumulator(self, at: int, parts: int) -> str:
        op = self.plan.body.ops[at]
        kind, value = op.args
        dtype = torch.bool if kind in ("any", "all") else self.plan.body.ops[value.at].dtype
        assert dtype is not None
        vector = self.plan.mode is Mode.INNER or self.plan.varying[at]
        name = VECTOR[dtype] if vector else SCALAR[dtype]
        if kind in ("argmax", "argmin"):
            if dtype is torch.bool:
                name = "U8" if vector else "u8"
            return f"{'ArgBest' if vector else 'ScalarArgBest'}<{'true' if kind == 'argmax' else 'false'}, {name}>"
        if self._cascades(at):
            return f"Cascade<{name}{f', {parts}' if parts > 1 else ''}>"
        return f"Accumulate<{_REDUCTION[kind]}, {name}{f', {parts}' if parts > 1 else ''}>"

    def _accumulate(self, at: int, target: str, lanes: str) -> None:
        op = self.plan.body.ops[at]
        kind, value = op.args
        vector = self.plan.mode is Mode.INNER or self.plan.varying[at]
        text = self.ops.vector(value.at) if vector else self.ops.scalar(value.at)
        dtype = self.plan.body.ops[value.at].dtype
        if kind in ("any", "all"):
            text = f"truth({text})"
        if kind in ("argmax", "argmin"):
            if dtype is torch.bool:
                text = f"convert<u8>({text})"
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

    def _outer(self) -> None:
        out, plan = self.out, self.plan
        name = self.index(plan.vector.variable)
        size, static = self.index(plan.vector.size), plan.vector.static
        whole = static is not None and static % self._tile == 0
        head = f"const auto tile = [&](Index {name}_first, auto width, auto lanes) INLINE_BODY {{"
        with out.block(head, "};"):
            out("constexpr int WIDTH = decltype(width)::value;")
            self._outer_body()
        out(f"const Index first = {self._part()} * {self._tile};")
        if whole:
            out(f"tile(first, Constant<{plan.unroll}>(), Full());")
            return
        body = (
            f"vectors(first, at_most(first + {self._tile}, {size}), "
            f"[&](Index at, auto lanes) INLINE_BODY {{ tile(at, Constant<1>(), lanes); }});"
        )
        if plan.unroll == 1:
            out(body)
            return
        out(f"if (first + {self._tile} <= {size}) tile(first, Constant<{plan.unroll}>(), Full());")
        out(f"else {body}")

    def _outer_body(self) -> None:
        plan = self.plan
        for k in range(len(plan.levels.passes) + 1):
            positions = plan.levels.outer[k]
            self._emit(at for at in positions if not plan.varying[at])
            varying = [at for at in positions if plan.varying[at]]
            kept = [at for at in varying if self.ops.is_value(at) and self._used_later(at, k)]
            for at in kept:
                dtype = plan.body.ops[at].dtype
                assert dtype is not None
                self.out(f"{VECTOR[dtype]} v{at}[WIDTH];")
            if varying:
                with self._each():
                    for at in varying:
                        self.ops.emit(at, keep_in=f"v{at}[u]" if at in kept else None)
                for at in kept:
                    self.ops.define(at, f"v{at}[u]")
            if k < len(plan.levels.passes):
                self._outer_pass(plan.levels.passes[k])

    def _used_later(self, at: int, k: int) -> bool:
        """Whether a varying outer value is read outside of its own section."""
        same = set(self.plan.levels.outer[k])
        return any(at in needs and user not in same for user, needs in enumerate(self.needs))

    def _each(self) -> ExitStack:
        """`each<WIDTH>` over the vectors of a tile, with the vector's first lane as the loop variable."""
        stack = ExitStack()
        stack.enter_context(self.ops.scope())
        stack.enter_context(self.out.block("each<WIDTH>([&](auto u) INLINE_BODY {", "});"))
        name = self.index(self.plan.vector.variable)
        self.out(f"const Index {name} = {name}_first + u.value * LANES;")
        return stack

    def _outer_pass(self, step: Pass) -> None:
        out, plan = self.out, self.plan
        varying = [at for at in step.reductions if plan.varying[at]]
        uniform = [at for at in step.reductions if not plan.varying[at]]
        for at in varying:
            out(f"{self._accumulator(at, 1)} sum{at}[WIDTH];")
        for at in uniform:
            out(f"{self._accumulator(at, 1)} sum{at};")
        folding = [at for at in step.reductions if self._cascades(at)]
        with self.ops.scope(), ExitStack() as stack:
            if folding:
                out("Index unfolded = 0;")
            self._open_loops(plan.inner, step, stack)
            if varying or any(plan.varying[at] for at in step.ops):
                with self._each():
                    self._emit(at for at in step.ops if plan.varying[at])
                    for at in varying:
                        self._accumulate(at, f"sum{at}[u]", "lanes")
            for at in uniform:
                self._accumulate(at, f"sum{at}", "Full()")
            if folding:
                with out.block(f"if (++unfolded == {FOLD}) {{"):
                    for at in folding:
                        text = f"for (auto& sum : sum{at}) sum.fold();" if at in varying else f"sum{at}.fold();"
                        out(text)
                    out("unfolded = 0;")
        for at in uniform:
            dtype = plan.body.ops[at].dtype
            assert dtype is not None
            out(f"const {SCALAR[dtype]} v{at} = {self._cast(dtype)}sum{at}.result();")
            self.ops.define(at, f"v{at}")
        for at in varying:
            self.ops.define(at, f"sum{at}[u].value()")

