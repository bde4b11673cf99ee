"""Kernels that multiply matrices: found, and printed by blocks of rows and columns whose sums stay in registers.

Flows in: a `Kernel` whose one reduction is a contraction. Flows out: Python text. A block's sums are made by tensor cores, in float32;
whatever the kernel does with them follows, on the block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import sympy
import torch

from inductor.contractions import contraction_of, is_short
from inductor.device import Kernel
from inductor.ir.body import Body
from inductor.ir.operations import Elementwise, Expr, Load, Round, Store, Symbol
from inductor.levels import Levels, dependencies, split
from inductor.schedule.space import index_of
from inductor.triton.blocks import Blocks
from inductor.triton.expressions import FACTORS, HALVES, TRITON_DTYPES
from inductor.triton.kernel import KernelPrinter
from symshapes import dataclass

Kind = Literal["half", "tf32", "ieee"]
"""What units multiply: tensor cores halves, or the leading bits of float32; others all of float32."""
EXACT: dict[torch.dtype, tuple[torch.dtype, ...]] = {
    torch.float16: (torch.int8, torch.uint8),
    torch.bfloat16: (torch.int8, torch.uint8),
    torch.float32: (torch.int8, torch.uint8, torch.int16, *HALVES),
}
"""Dtypes in memory all of whose numbers it has, so that it does not matter by what way they are converted."""
LEAST = 32
"""Rows, columns and steps of a product of float32: with fewer, blocks would be mostly empty."""


@dataclass(frozen=True)
class Product:
    """A kernel as a product of matrices, or as many as its other variables have values."""

    sum: int
    """Position of the `reduce`."""
    rows: int
    """Position of the outer variable that goes over rows."""
    columns: int
    left: int
    """Position of the load that goes over rows."""
    right: int
    dtype: torch.dtype
    """In which both are multiplied."""
    kind: Kind
    levels: Levels

    def sizes(self, kernel: Kernel) -> tuple[Expr, Expr, Expr]:
        """Rows, columns and steps."""
        return kernel.outer_sizes[self.rows], kernel.outer_sizes[self.columns], kernel.inner_sizes[0]


def product_of(kernel: Kernel) -> Product | None:
    """The product that a kernel is; None if it is none, or none that is printed by blocks: of one dtype, over one variable each of rows,
    columns and steps, nothing else inside of the sum."""
    body = kernel.body
    found = contraction_of(body)
    if found is None or len(body.inner_vars) != 1:
        return None
    levels = split(body)
    if len(levels.passes) != 1 or levels.passes[0].stores:
        return None
    dtypes = {arg.name: arg.dtype for arg in kernel.args}
    factors: list[tuple[int, Load]] = [(at, op) for at in found.factors if isinstance(op := body.ops[at], Load)]
    kinds = {_multiplied(body, at, dtypes) for at in found.multiplied}
    if len(factors) != 2 or any(op.mask is not None for _, op in factors):
        return None
    dtype = kinds.pop() if len(kinds) == 1 else torch.float32
    if not all(dtypes[op.buffer] in (dtype, *EXACT.get(dtype, ())) for _, op in factors):
        return None
    reached = [op.index.free_symbols for _, op in factors]
    apart = [
        [at for at, var in enumerate(body.outer_vars) if var in mine and var not in other]
        for mine, other in (reached, reversed(reached))
    ]
    if dtype not in FACTORS or any(len(own) != 1 for own in apart):
        return None
    (one,), (other,) = apart
    (left, _), (right, _) = factors
    if one > other:  # the last variable is the one that most memory is contiguous in
        one, other, left, right = other, one, right, left
    short = all(is_short(body.ops[at]) for at in found.multiplied)
    kind: Kind = "half" if dtype in HALVES else "tf32" if short else "ieee"
    product = Product(found.sum, one, other, left, right, dtype, kind, levels)
    if dtype is torch.float32 and not all(size.is_Integer and size >= LEAST for size in product.sizes(kernel)):
        return None
    return product


def _multiplied(body: Body, at: int, dtypes: Mapping[str, torch.dtype]) -> torch.dtype:
    """The dtype that the numbers at a position have, whatever they are kept in."""
    op = body.ops[at]
    match op:
        case Load(buffer):
            return dtypes[buffer]
        case Round(_, to):
            return to
        case Elementwise() if is_short(op):
            return _multiplied(body, op.operands[0].at, dtypes)
    return body.dtype(at)


class ProductPrinter(KernelPrinter):
    """The text of a product, for certain blocks: along their first axis go rows, along the second columns."""

    def __init__(self, kernel: Kernel, product: Product, blocks: Blocks) -> None:
        super().__init__(kernel, blocks)
        self.product = product
        rows, columns, steps = product.sizes(kernel)
        self._row, self._column = kernel.body.outer_vars[product.rows], kernel.body.outer_vars[product.columns]
        self._whole = {
            self._row: _divides(blocks.x * blocks.apart, rows),
            self._column: blocks.apart == 1 and _divides(blocks.r, columns),
            kernel.body.inner_vars[0]: _divides(blocks.depth, steps),
        }
        """Whether a variable's points fill its blocks, so that none lies outside."""

    def text(self) -> str:
        blocks = self.blocks
        self._line(f"# Blocks of {blocks.x} x {blocks.r}, {blocks.depth} steps at a time.")
        self._positions()
        before, after = self._around()
        self._operations(before)
        self._sum()
        self._operations(after)
        return self._function()

    def _around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What runs before the sum, and behind it: there is everything that it does not need, so that no register is held for it."""
        needs, levels = dependencies(self.kernel.body), self.product.levels
        needed = {source for at in levels.passes[0].ops for source in needs[at]}
        for at in reversed(levels.outer[0]):
            needed.update(needs[at] if at in needed else ())
        rest = [at for level in levels.outer for at in level if at not in needed]
        ops = self.kernel.body.ops
        # A point is read before it is written.
        rest.sort(key=lambda at: (isinstance(ops[at], Store), at))
        return tuple(at for at in levels.outer[0] if at in needed), tuple(rest)

    def _positions(self) -> None:
        """Which block the program makes, and its rows and columns."""
        rows, columns, _ = (self._index(size) for size in self.product.sizes(self.kernel))
        apart = self.blocks.apart
        self._line(f"program = tl.program_id(0).to({self._int})")
        if apart == 1:
            self._line(f"x_blocks = ({rows} + XBLOCK - 1) // XBLOCK")
            self._line(f"r_blocks = ({columns} + RBLOCK - 1) // RBLOCK")
        else:
            self._line(f"x_parts = (({rows} + {apart - 1}) // {apart} + XBLOCK - 1) // XBLOCK")
            self._line(f"x_blocks = {apart} * x_parts")
            self._line(f"r_blocks = ({columns} + {apart - 1} + RBLOCK - 1) // RBLOCK")
        self._line(f"x_block, r_block = prelude.grouped(program, x_blocks, r_blocks, {self.blocks.group})")
        if apart == 1:
            self._line(f"{self._row} = (x_block * XBLOCK + tl.arange(0, XBLOCK).to({self._int}))[:, None]")
            self._line(f"{self._column} = (r_block * RBLOCK + tl.arange(0, RBLOCK).to({self._int}))[None, :]")
            self._line(f"x_mask = {self._row} < {rows}")
            self._line(f"c_mask = {self._column} < {columns}")
        else:
            # The rows of a block begin as far behind a vector's start as its columns begin before a block's.
            self._line("x_part = x_block // x_parts")
            places = f"(x_block % x_parts) * XBLOCK + tl.arange(0, XBLOCK).to({self._int})"
            self._line(f"{self._row} = (({places}) * {apart} + x_part)[:, None]")
            self._line(f"first = r_block * RBLOCK - x_part * {self._step() % apart} % {apart}")
            self._line(f"{self._column} = (first + tl.arange(0, RBLOCK).to({self._int}))[None, :]")
            self._line(f"x_mask = {self._row} < {rows}")
            self._line(f"c_mask = ({self._column} >= 0) & ({self._column} < {columns})")
            self._line(f"inside = (first >= 0) & (first + RBLOCK <= {columns})")
            if not self._whole[self._row]:
                self._line(f"inside = inside & ((x_block % x_parts * XBLOCK + XBLOCK) * {apart} <= {rows})")
        self._line("r_mask = x_mask & c_mask")
        variables, sizes = self.kernel.body.outer_vars, self.kernel.outer_sizes
        others = [at for at, var in enumerate(variables) if var not in (self._row, self._column)]
        if others:
            self._line("program = program // (x_blocks * r_blocks)")
            self._unflatten("program", tuple(variables[at] for at in others), tuple(sizes[at] for at in others))

    def _sum(self) -> None:
        """The sums of the block, a few steps at a time."""
        (step,), body, depth = self.kernel.body.inner_vars, self.kernel.body, self.blocks.depth
        count = self._loop_end()
        self._line(f"v{self.product.sum} = tl.zeros([XBLOCK, RBLOCK], tl.float32)")
        self._names[self.product.sum] = f"v{self.product.sum}"
        inside = self._inside()
        self._line(f"for start in range(0, {count}, {depth}):")
        self._depth += 1
        for at, shape in ((self.product.left, "[None, :]"), (self.product.right, "[:, None]")):
            self._line(f"{step} = (start + tl.arange(0, {depth}).to({self._int})){shape}")
            factor = body.ops[at]
            assert isinstance(factor, Load)
            index = factor.index.xreplace(inside[at])
            masks = [] if self._whole[step] else [f"({step} < {count})"]
            masks += [
                mask
                for var, mask in ((self._row, "x_mask"), (self._column, "c_mask"))
                if var in index.free_symbols and not self._whole[var]
            ]
            guard = f", mask={' & '.join(masks)}, other=0" if masks else ""
            memory = next(arg.dtype for arg in self.kernel.args if arg.name == factor.buffer)
            dtype = self.product.dtype
            load = f"tl.load({factor.buffer} + ({self._index(index)}){guard})"
            self._line(f"v{at} = {load if memory is dtype else f'library.widened({load}, {TRITON_DTYPES[dtype]})'}")
        name, factors = f"v{self.product.sum}", f"v{self.product.left}, v{self.product.right}"
        self._line(f"{name} = library.{'short_dot' if self.product.kind == 'tf32' else 'dot'}({factors}, {name})")
        self._depth -= 1

    def _inside(self) -> dict[int, dict[Symbol, Symbol]]:
        """By factor what stands for its rows, or columns, so that none lies outside: each step would ask for a mask. What is
        multiplied there nobody stores. Memory that is contiguous in them is read by vectors, under a mask."""
        found: dict[int, dict[Symbol, Symbol]] = {self.product.left: {}, self.product.right: {}}
        for var, mask in ((self._row, "x_mask"), (self._column, "c_mask")):
            for at, replaced in found.items():
                index = index_of(self.kernel.body.ops[at].index, frozenset((var,)))
                if not self._whole[var] and index.coefficient(var) not in (0, 1):
                    replaced[var] = sympy.Symbol(f"{var}_inside", integer=True, nonnegative=True)
                    self._line(f"{replaced[var]} = tl.where({mask}, {var}, 0)")
        return found

    def _step(self) -> int:
        """How far rows of results lie from each other, where those that begin alike share blocks."""
        store = next(op for op in self.kernel.body.ops if isinstance(op, Store))
        return int(index_of(store.index, frozenset((self._row,))).coefficient(self._row))

    def _store(self, at: int, op: Store) -> None:
        """Within, vectors: that they begin where one does no compiler finds out."""
        apart = self.blocks.apart
        index = index_of(op.index, frozenset(self.kernel.body.outer_vars))
        others = [number for var, number in index.coefficients if var not in (self._row, self._column)]
        if apart == 1 or any(not isinstance(number, int) or number % apart for number in (index.rest, *others)):
            super()._store(at, op)
            return
        pointer, _ = self._access(at, op, None)
        buffer, _, place = pointer.partition(" + ")
        self._line("if inside:")
        value = f"tl.broadcast_to({self._operand(op.value)}, [XBLOCK, RBLOCK])"
        self._line(f"    tl.store({buffer} + tl.multiple_of({place}, [1, {apart}]), {value})")
        self._line("else:")
        self._depth += 1
        super()._store(at, op)
        self._depth -= 1

    def _load(self, at: int, op: Load) -> None:
        """What is the same for all rows, or columns, is loaded once."""
        free = op.index.free_symbols
        if op.mask is not None or not free.isdisjoint(self.kernel.body.indirects()):
            super()._load(at, op)
            return
        memory = next(arg.dtype for arg in self.kernel.args if arg.name == op.buffer)
        widen = "" if memory is op.dtype else f".to({TRITON_DTYPES[op.dtype]})"
        guard = " & ".join(
            mask
            for var, mask in ((self._row, "x_mask"), (self._column, "c_mask"))
            if var in free and not self._whole[var]
        )
        pointer = f"{op.buffer} + tl.broadcast_to({self._index(op.index)}, {self._shape(free)})"
        if free.isdisjoint((self._row, self._column)):
            pointer = f"{op.buffer} + tl.full([1, 1], {self._index(op.index)}, {self._int})"
        self._value(at, f"tl.load({pointer}{f', mask={guard}, other=0' if guard else ''}){widen}")

    def _shape(self, free: set[Symbol]) -> str:
        return f"[{'XBLOCK' if self._row in free else 1}, {'RBLOCK' if self._column in free else 1}]"


def _divides(block: int, size: Expr) -> bool:
    return bool(size.is_Integer and size % block == 0)


__all__ = ["Product", "ProductPrinter", "product_of"]
