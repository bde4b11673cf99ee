"""Finds and prints products of matrices by blocks (`include/product.h`): what is made of the sums runs right behind them, on
vectors of columns.

Flows in: a kernel whose one reduction is a contraction. Flows out: C++ of how the sums of a part of the product are made.
"""

from __future__ import annotations

from itertools import permutations

import sympy
import torch

from cpu_codegen.blocks import Blocks, BlocksPrinter, plan_of, rows_in_block
from cpu_codegen.index import Expr, stride
from cpu_codegen.loops import Loop, simplify
from cpu_codegen.vectorize import writes_collide
from inductor import Kernel, Load, contraction_of, split
from symshapes import dataclass

NARROW = 8
"""Columns that would leave most of a vector of them empty."""


@dataclass(frozen=True)
class Operand:
    """A factor: where it starts, without the variables of the loops that walk over it, and how far neighbours and steps lie apart."""

    load: Load
    across: Expr
    along: Expr


@dataclass(frozen=True)
class Product:
    """A kernel as batches of a product of matrices."""

    blocks: Blocks
    a: Operand
    b: Operand

    header = "product.h"

    def print_core(self, frame: BlocksPrinter) -> None:
        """The sums of a part, from packed blocks of A and panels of B."""
        out, index, block = frame.out, frame.index, self.blocks.block
        (rows,), (depth,) = self.blocks.rows, self.blocks.depth
        row, column = index(rows.variable), index(self.blocks.columns.variable)
        out(f"const Index depth = {index(depth.size)};")
        signature = f"[&](Index {row}, Index {column}, auto lanes, F32 sum) INLINE_BODY"
        with out.block(f"const auto finish = {signature} {{", "};"):
            frame.print_results(self.blocks.plan.levels.outer[0])
        a, b = _text(frame, self.a), _text(frame, self.b)
        out(f"product(part, depth, {a}, {b}, block<{block}>(), finish_by(finish));")


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
    for columns, rows in _columns_and_rows(outer):
        for a, b in permutations(factors):
            left, right = _operand(a, rows, columns, inner[0]), _operand(b, columns, rows, inner[0])
            if left is None or right is None:
                continue
            blocks = Blocks(
                plan=plan_of(body, outer, inner, columns),
                sum=found.sum,
                batch=tuple(loop for loop in outer if loop is not rows and loop is not columns),
                rows=(rows,),
                columns=columns,
                depth=inner,
                block=rows_in_block(rows.static, lanes),
            )
            return Product(blocks, left, right)
    return None


def _columns_and_rows(outer: tuple[Loop, ...]) -> list[tuple[Loop, Loop]]:
    """What the loops may be, best first: the innermost goes over columns, but for one so short that vectors of it would be
    mostly empty."""
    *others, last = outer
    pairs = [(last, other) for other in reversed(others)]
    if last.static is None or last.static > NARROW:
        return pairs
    return [(other, last) for other in reversed(others) if other.static is None or other.static > last.static] + pairs


def _operand(load: Load, mine: Loop, others: Loop, depth: Loop) -> Operand | None:
    """The factor that walks over `mine` and not over `others`; None if it is none."""
    symbols = load.index.free_symbols
    if mine.variable not in symbols or others.variable in symbols:
        return None
    across, along = stride(load.index, mine.variable), stride(load.index, depth.variable)
    if across is None or along is None:
        return None
    start = load.index.xreplace({mine.variable: sympy.S.Zero, depth.variable: sympy.S.Zero})
    return Operand(Load(load.buffer, start, None, load.dtype), across, along)


def _text(frame: BlocksPrinter, operand: Operand) -> str:
    at = frame.ops.address(operand.load)
    return f"Operand{{{at}, {frame.index(operand.across)}, {frame.index(operand.along)}}}"
