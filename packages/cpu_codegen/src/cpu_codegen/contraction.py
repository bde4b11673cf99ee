"""Plans and prints products of matrices by blocks (`include/product.h`): what is made of the sums runs right behind them, on
vectors of columns.

Flows in: a kernel whose one reduction is a contraction. Flows out: C++ of a function over parts of the product, and its entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import sympy
import torch

from cpu_codegen.index import Expr, stride
from cpu_codegen.loops import Loop, simplify
from cpu_codegen.names import entry_name
from cpu_codegen.operation_printer import OperationPrinter, print_arguments
from cpu_codegen.operations import cost_of
from cpu_codegen.text import Lines
from cpu_codegen.vectorize import Mode, Plan, varying_ops, writes_collide
from inductor import Body, Kernel, Load, contraction_of, dependencies, split

MOST_ROWS = {16: 14, 8: 6, 4: 6}
"""By lanes: rows of two vectors of sums that fit in the registers, beside two vectors of B and an element of A."""
PRODUCTS_A_UNIT = 8
"""Multiplications and additions in a quarter of a nanosecond, on one thread."""


@dataclass(frozen=True)
class Operand:
    """A factor: the load, without the variables of the loops that walk over it, and how far neighbours and steps lie apart."""

    load: Load
    across: Expr
    along: Expr


@dataclass(frozen=True)
class Product:
    """A kernel as batches of a product of matrices."""

    plan: Plan
    sum: int
    """Position of the reduction."""
    batch: tuple[Loop, ...]
    rows: Loop
    columns: Loop
    depth: Loop
    a: Operand
    b: Operand
    block: int
    """Rows whose sums are made together."""


def find_product(kernel: Kernel, lanes: int) -> Product | None:
    """The product that a kernel computes; None if it is none, or not one of those that are printed by blocks: of float32, its
    factors at places that are linear in three loops, nothing else inside of the sum, and each result at a place of its own."""
    if contraction_of(kernel.body) is None:
        return None
    body, outer, inner = simplify(kernel)
    if writes_collide(body):
        return None
    found = contraction_of(body)
    dtypes = {arg.name: arg.dtype for arg in kernel.args}
    if found is None or len(inner) != 1:
        return None
    levels = split(body)
    if len(levels.passes) != 1 or len(levels.passes[0].ops) != 3 or levels.passes[0].stores:
        return None
    factors = [op for at in found.factors if isinstance(op := body.ops[at], Load)]
    if any(op.mask is not None or dtypes[op.buffer] is not torch.float32 for op in factors):
        return None
    columns, *others = reversed(outer)
    for a, b in permutations(factors):
        if columns.variable in a.index.free_symbols or columns.variable not in b.index.free_symbols:
            continue
        for rows in others:
            if rows.variable in b.index.free_symbols or rows.variable not in a.index.free_symbols:
                continue
            operands = _operand(a, rows, inner[0]), _operand(b, columns, inner[0])
            if operands[0] is None or operands[1] is None:
                continue
            return Product(
                plan=_plan(body, outer, inner, columns),
                sum=found.sum,
                batch=tuple(loop for loop in outer if loop is not rows and loop is not columns),
                rows=rows,
                columns=columns,
                depth=inner[0],
                a=operands[0],
                b=operands[1],
                block=_block(rows, MOST_ROWS[lanes]),
            )
    return None


def _operand(load: Load, loop: Loop, depth: Loop) -> Operand | None:
    across, along = stride(load.index, loop.variable), stride(load.index, depth.variable)
    if across is None or along is None:
        return None
    start = load.index.xreplace({depth.variable: sympy.S.Zero})
    return Operand(Load(load.buffer, start, None, load.dtype), across, along)


def _block(rows: Loop, most: int) -> int:
    """Rows in blocks as equal as can be."""
    if rows.static is None:
        return most
    return -(-rows.static // -(-rows.static // most))


def _plan(body: Body, outer: tuple[Loop, ...], inner: tuple[Loop, ...], columns: Loop) -> Plan:
    needs = dependencies(body)
    return Plan(
        body=body,
        levels=split(body),
        mode=Mode.OUTER,
        outer=tuple(loop for loop in outer if loop is not columns),
        inner=inner,
        vector=columns,
        varying=varying_ops(body, needs, columns.variable, through_reduce=True),
        unroll=1,
        chunked=False,
        parallel=True,
        cost=max(1, round(sum(cost_of(op) for op in body.ops))),
        tiled=None,
        staged=frozenset(),
        split=False,
        split_columns=False,
        kept=frozenset(),
    )


class ProductPrinter:
    """Prints a whole kernel."""

    def __init__(self, kernel: Kernel, product: Product, out: Lines) -> None:
        self.kernel, self.product, self.out = kernel, product, out
        self.name = entry_name(kernel)
        self.ops = OperationPrinter(kernel, product.plan, out)
        self.index = self.ops.index

    def print(self) -> None:
        """Print the kernel."""
        out, name = self.out, self.name
        out('#include "product.h"')
        with out.block(f"static int {name}_parts(const Word* args, void* data, Index begin, Index end) {{"):
            print_arguments(self.kernel, out)
            out("const Parts& parts = *(const Parts*)data;")
            if self.ops.has_indirect:
                out("int status = DONE;")
            with out.block("for (Index item = begin; item < end; ++item) {"):
                out("const Part part = parts[item];")
                self._part()
            out("return status;" if self.ops.has_indirect else "return DONE;")
        with out.block(f'extern "C" EXPORT Index {name}_work(const Word* args) {{'):
            print_arguments(self.kernel, out, sizes_only=True)
            points = " * ".join(self._sizes(*self.product.batch, self.product.rows, self.product.columns))
            depth = self.index.factor(self.product.depth.size)
            out(f"return {points} * ({depth} / {PRODUCTS_A_UNIT} + {self.product.plan.cost});")
        with out.block(f'extern "C" EXPORT int {name}(const Word* args) {{'):
            print_arguments(self.kernel, out, sizes_only=True)
            batch = " * ".join(self._sizes(*self.product.batch)) or "1"
            rows, columns = self._sizes(self.product.rows, self.product.columns)
            out(f"Parts parts({batch}, {rows}, {columns}, {self.product.block});")
            out(f"return parallel({name}_parts, args, &parts, parts.count(), {name}_work(args));")

    def _sizes(self, *loops: Loop) -> list[str]:
        return [self.index.factor(loop.size) for loop in loops]

    def _part(self) -> None:
        out, product, index = self.out, self.product, self.index
        rest = "part.batch"
        for place, loop in reversed(list(enumerate(product.batch))):
            size = index.factor(loop.size)
            out(f"const Index {index(loop.variable)} = {rest if place == 0 else f'{rest} % {size}'};")
            rest = f"{rest} / {size}"
        row, column = index(product.rows.variable), index(product.columns.variable)
        zero = {product.columns.variable: sympy.S.Zero}
        b = Operand(product.b.load.with_index(lambda at: at.xreplace(zero)), product.b.across, product.b.along)
        out(f"const Index depth = {index(product.depth.size)};")
        with out.block(f"const auto pack_a = [&](float* to, Index {row}, Index count) INLINE_BODY {{", "};"):
            out(f"pack<BLOCK, {product.block}>(to, {self._text(product.a)}, count, depth);")
        signature = f"[&](Index {row}, Index {column}, auto lanes, F32 sum) INLINE_BODY"
        with out.block(f"product<{product.block}>(part, depth, pack_a, {self._text(b)}, {signature} {{", "});"):
            levels = product.plan.levels
            self.ops.emit_all(levels.outer[0])
            self.ops.define(product.sum, "sum")
            self.ops.emit_all(levels.outer[1])

    def _text(self, operand: Operand) -> str:
        at = self.ops.address(operand.load)
        return f"Operand{{{at}, {self.index(operand.across)}, {self.index(operand.along)}}}"
