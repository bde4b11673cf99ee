"""Prints one kernel as a `@triton.jit` function.

Flows in: a `Kernel`. Flows out: Python text. Values of the outer level are blocks of shape [XBLOCK, 1], those of the inner
level [XBLOCK, RBLOCK]; a kernel without reduction is the same with RBLOCK = 1. The plan (what runs in which pass) is `levels.split`'s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import sympy
import torch

from inductor.device import Kernel
from inductor.ir.body import Body, checked_symbols, checks_positions, left_symbols
from inductor.ir.indexing import product
from inductor.ir.operations import (
    Bitcast,
    Cast,
    Constant,
    Elementwise,
    Expr,
    IndexExpr,
    Indirect,
    Load,
    Op,
    Reduce,
    Ref,
    Round,
    Scan,
    Store,
    Symbol,
    Where,
)
from inductor.levels import Levels, Pass, dependencies, split
from inductor.ops import INDEX_RULES
from inductor.primitives import REDUCTIONS
from inductor.schedule.space import index_of
from inductor.triton.blocks import INT32_LIMIT, WORD, Blocks
from inductor.triton.checks import code_of
from inductor.triton.expressions import ATOMIC_DTYPES, TRITON_DTYPES, TRITON_REDUCTIONS, convert, literal, template
from inductor.triton.nature import general_blocks
from inductor.triton.online import Online, lanes, walked_together
from inductor.triton.scans import beginning, has_scan, scan_lines, sharing
from inductor.triton.totals import fixed, is_total
from symshapes import print_expr

CHECKS = "index_checks"
"""The parameter of a kernel that checks positions: where it writes what is wrong (see `checks.py`)."""

PROGRAM = "program_of_part"
"""The parameter of a kernel that another one calls."""


def _late_stores(body: Body, plan: Levels) -> Levels:
    """The plan with each inner store moved past the last pass that loads its buffer.

    A kernel may write over an input that dies with it: what a later pass reads must not have been overwritten.
    """
    needs = dependencies(body)
    passes = [list(walk.ops) for walk in plan.passes]
    loads = [{op.buffer for at in ops if isinstance(op := body.ops[at], Load)} for ops in passes]
    for k, walk in enumerate(plan.passes):
        for at in walk.stores:
            store = body.ops[at]
            assert isinstance(store, Store)
            readers = [later for later in range(k + 1, len(passes)) if store.buffer in loads[later]]
            if not readers:
                continue
            passes[k].remove(at)
            wanted = [at]
            while wanted:
                one = wanted.pop()
                if one in plan.inner and one not in passes[readers[-1]]:
                    passes[readers[-1]].append(one)
                    wanted.extend(needs[one])
    # Values in order of definition, then stores: a pass reads a point before it writes it.
    ordered = [sorted(ops, key=lambda at: (isinstance(body.ops[at], Store), at)) for ops in passes]
    return replace(plan, passes=tuple(replace(w, ops=tuple(o)) for w, o in zip(plan.passes, ordered, strict=True)))


def _read_at_once(kernel: Kernel) -> int:
    """How many points of a row a thread reads by one instruction: words, unless rows begin anywhere in memory."""
    body, widths, points = kernel.body, {arg.name: arg.dtype.itemsize for arg in kernel.args}, 1
    variables = frozenset((*body.outer_vars, *body.inner_vars))
    for op in body.ops:
        if isinstance(op, Load) and not op.index.free_symbols.isdisjoint(body.inner_vars[-1:]):
            steps = [step for step in dict(index_of(op.index, variables).coefficients).values() if step != 1]
            if all(isinstance(step, int) for step in steps):
                points = max(points, math.gcd(WORD // widths[op.buffer], *steps))
    return points


def _of_word(variable: Symbol) -> Symbol:
    """An inner variable where a word of points begins."""
    return sympy.Symbol(f"{variable}_word", integer=True, nonnegative=True)


class KernelPrinter:
    """The text of one kernel, line by line.

    Args:
        blocks: what it is printed for, if not for all that it may be called with. Sizes of blocks are the kernel's parameters.
        part: it is called by another kernel, with which of its programs runs as one more argument, `PROGRAM`.
    """

    def __init__(self, kernel: Kernel, blocks: Blocks | None = None, part: bool = False) -> None:
        self.part = part
        self.blocks = blocks or general_blocks(kernel)
        self.kernel = sharing(kernel, self.blocks)
        self.plan = _late_stores(kernel.body, split(kernel.body))
        self._lines: list[str] = []
        self._depth = 1
        self._names: dict[int, str] = {}
        self._checked = checked_symbols(kernel.body.ops)
        self._left = left_symbols(kernel.body.ops)
        self._int = "tl.int64" if self.blocks.wide else "tl.int32"
        self._word = _read_at_once(kernel)
        self._has_lanes = False
        self._walk_now: range | None = None
        """The passes that are printed as one walk, where rows are walked over in steps."""
        self._fixed = frozenset[int]()
        """Operations that are the same for all rows that a program walks through."""

    def text(self) -> str:
        """The whole function."""
        kernel = self.kernel
        if self.blocks.walks:
            self._walk()
            return self._function()
        self._outer_variables()
        if kernel.inner_sizes:
            self._line(f"r_count = {self._index(product(kernel.inner_sizes))}")
        if self.blocks.persistent and kernel.inner_sizes:
            self._inner_variables(self._part() if self.blocks.shared else "0")
        together: list[Online] = []
        for k, walk in enumerate(self.plan.passes):
            self._operations(self.plan.outer[k])
            if self.blocks.persistent:
                self._persistent_pass(walk)
            elif together:
                together = []  # the walk before was this one, too
            else:
                together = walked_together(kernel.body, self.plan, k, product(kernel.inner_sizes))
                self._looped_pass(k, walk, together)
        self._operations(self.plan.outer[-1])
        return self._function()

    def _function(self) -> str:
        """The lines as a function, under the names of what they compute."""
        kernel = self.kernel
        # Triton would take a float for float32.
        parameters = [
            f'{arg.name}: "fp64"' if arg.role == "size" and arg.dtype.is_floating_point else arg.name
            for arg in kernel.args
        ]
        parameters += [CHECKS] if checks_positions(kernel.body.ops) else []
        parameters += [PROGRAM] if self.part else []
        parameters += ["XBLOCK: tl.constexpr", "RBLOCK: tl.constexpr"]
        head = [f"# {origin}" for origin in kernel.origins]
        begin = [] if self.part else ["    library.begin()"]
        return "\n".join(
            [*head, "@triton.jit", f"def {kernel.name}({', '.join(parameters)}):", *begin, *self._lines, ""]
        )

    # Lines and names

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    def _value(self, at: int, text: str) -> None:
        self._names[at] = f"v{at}"
        self._line(f"v{at} = {text}")

    def _index(self, expr: Expr) -> str:
        return print_expr(expr, "triton")

    def _unflatten(self, flat: str, variables: tuple[Symbol, ...], sizes: tuple[Expr, ...]) -> None:
        """The digits of a number. Where the base is known they are taken of an unsigned one: that divides by powers of two in one
        instruction, and the compiler knows that no digit is negative, and which of its bits are none of the program's."""
        rest, back = flat, ""
        if len(variables) > 1 and all(size.is_Integer for size in sizes[1:]):
            rest, back = f"{flat}_bits", f".to({self._int})"
            self._line(f"{rest} = {flat}.to({self._int.replace('int', 'uint')})")
        for k in range(len(variables) - 1, -1, -1):
            size = self._index(sizes[k])
            self._line(f"{variables[k]} = {rest}{back}" if k == 0 else f"{variables[k]} = ({rest} % ({size})){back}")
            rest = f"({rest} // ({size}))"

    def _outer_variables(self) -> None:
        """Where the program is: positions along the block's axes, and numbers for the variables that no axis runs over."""
        variables, sizes, tile = self.kernel.body.outer_vars, self.kernel.outer_sizes, self.blocks.tile
        program = f"{PROGRAM if self.part else 'tl.program_id(0)'}.to({self._int})"
        if self.blocks.shared:
            self._line(f"x_count = {self._index(product(sizes))}")
            self._line(f"r_parts = ({self._index(product(self.kernel.inner_sizes))} + RBLOCK - 1) // RBLOCK")
            self._line(f"r_part = {program} % r_parts")
            self._line(f"x_program = {program} // r_parts")
            self._line(f"x_index = x_program + tl.zeros([1, 1], {self._int})")
            self._line("x_mask = x_index < x_count")
            self._unflatten("x_index", variables, sizes)
            return
        if tile is None:
            self._line(f"x_count = {self._index(product(sizes))}")
            self._line(f"x_index = {program} * XBLOCK + tl.arange(0, XBLOCK)[:, None].to({self._int})")
            self._line(f"x_mask = {self._x_mask(product(sizes))}")
            self._unflatten("x_index", variables, sizes)
            return
        axes = [("x", tile.x, "[:, None]", "")]
        if tile.across is not None:
            axes.append(("r", tile.across, "[None, :]", " & x_mask"))
        self._line(f"program = {program}")
        for axis, at, shape, mask in axes:
            block = f"{axis.upper()}BLOCK"
            self._line(f"{axis}_count = {self._index(sizes[at])}")
            self._line(f"{axis}_blocks = ({axis}_count + {block} - 1) // {block}")
            start = f"(program % {axis}_blocks) * {block}"
            self._line(f"{axis}_index = {start} + tl.arange(0, {block}){shape}.to({self._int})")
            self._line(f"{axis}_mask = ({axis}_index < {axis}_count){mask}")
            self._line(f"{variables[at]} = {axis}_index")
            self._line(f"program = program // {axis}_blocks")
        rest = [at for at in range(len(variables)) if at not in (tile.x, tile.across)]
        self._unflatten("program", tuple(variables[at] for at in rest), tuple(sizes[at] for at in rest))

    def _x_mask(self, count: Expr) -> str:
        """Which of a block's outer points there are: a comparison, unless blocks are known to end where these do."""
        whole = count.is_Integer and int(count) % self.blocks.x == 0
        return "tl.full([XBLOCK, 1], 1, tl.int1)" if whole else "x_index < x_count"

    def _r_mask(self, index: str) -> str:
        """Which points there are along rows, some of which may be missing; the same of steps."""
        count = product(self.kernel.inner_sizes)
        if count.is_Integer and int(count) % self.blocks.r == 0:
            return f"tl.broadcast_to(x_mask, [XBLOCK, {index}.shape[1]])"
        return f"({index} < r_count) & x_mask"

    # Totals

    def _walk(self) -> None:
        """A program's rows one after the other, and the totals of its columns in the end."""
        body, sizes, inner = self.kernel.body, self.kernel.outer_sizes, self.kernel.inner_sizes
        over = self.blocks.walks
        rest = [at for at in range(len(sizes)) if at not in over]
        count = product([sizes[at] for at in over])
        self._line(f"program = {PROGRAM if self.part else 'tl.program_id(0)'}.to({self._int})")
        self._unflatten("program", tuple(body.outer_vars[at] for at in rest), tuple(sizes[at] for at in rest))
        self._line(f"r_count = {self._index(product(inner))}")
        self._line(f"r_index = tl.arange(0, RBLOCK)[None, :].to({self._int})")
        self._unflatten("r_index", body.inner_vars, inner)
        self._fixed = fixed(body, [body.outer_vars[at] for at in over], self.plan.inner)
        self._operations(tuple(sorted(self._fixed)))
        totals = [at for at, op in enumerate(body.ops) if is_total(op)]
        for at in totals:
            dtype = body.dtype(self._total(at).value.at)
            self._line(f"t{at} = tl.full([XBLOCK, RBLOCK], 0, {TRITON_DTYPES[dtype]})")
        ahead = "" if self.blocks.stages == 1 else f", num_stages={self.blocks.stages}"
        self._line(f"x_count = {self._index(count)}")
        self._line(f"for start in {'tl.range' if ahead else 'range'}(0, {self._index(count)}, XBLOCK{ahead}):")
        self._depth += 1
        self._line(f"x_index = start + tl.arange(0, XBLOCK)[:, None].to({self._int})")
        self._line(f"x_mask = {self._x_mask(count)}")
        self._unflatten("x_index", tuple(body.outer_vars[at] for at in over), tuple(sizes[at] for at in over))
        self._line(f"r_mask = {self._r_mask('r_index')}")
        for k, walk in enumerate(self.plan.passes):
            self._operations(tuple(at for at in self.plan.outer[k] if at not in self._fixed))
            self._persistent_pass(walk)
        self._operations(tuple(at for at in self.plan.outer[-1] if at not in self._fixed))
        self._depth -= 1
        for at in totals:
            store = self._total(at)
            index = f"tl.broadcast_to({self._index(store.index)}, [1, RBLOCK])"
            self._line(f"tl.store({store.buffer} + {index}, tl.sum(t{at}, 0)[None, :], mask=r_index < r_count)")

    def _total(self, at: int) -> Store:
        op = self.kernel.body.ops[at]
        assert isinstance(op, Store)
        return op

    def _part(self) -> str:
        """Where a program's part of its row begins: the first programs have what a scan goes over first."""
        backward = any(isinstance(op, Scan) and op.backward for op in self.kernel.body.ops)
        return f"{'(r_parts - 1 - r_part)' if backward else 'r_part'} * RBLOCK"

    def _covers_block(self, at: int) -> bool:
        """Whether an operation has a value for each point along both axes."""
        tile = self.blocks.tile
        return at in self.plan.inner or (tile is not None and tile.across is not None)

    def _inner_variables(self, start: str) -> None:
        self._line(f"r_index = {start} + tl.arange(0, RBLOCK)[None, :].to({self._int})")
        self._line(f"r_mask = {self._r_mask('r_index')}")
        variables, sizes = self.kernel.body.inner_vars, self.kernel.inner_sizes
        self._unflatten("r_index", variables, sizes)
        if any(self._is_one_word(at) for at in self.plan.inner):
            word = self._word
            self._line(f"w_index = {start} + {word} * tl.arange(0, RBLOCK // {word})[None, :].to({self._int})")
            self._line(f"w_mask = {self._r_mask('w_index')}")
            self._unflatten("w_index", tuple(map(_of_word, variables)), sizes)

    # Operations

    def _operations(self, positions: tuple[int, ...]) -> None:
        for at in positions:
            self._operation(at)

    def _operand(self, value: Ref) -> str:
        return self._names[value.at]

    def _operation(self, at: int) -> None:
        op = self.kernel.body.ops[at]
        match op:
            case Load():
                self._load(at, op)
            case Store():
                self._store(at, op)
            case Indirect():
                self._indirect(at, op)
            case Scan():
                self._scan(at, op)
            case _:
                self._value(at, self._expression(op))

    def _expression(self, op: Op) -> str:
        """The text of an operation that touches no memory."""
        match op:
            case Constant(number, dtype):
                return f"tl.full([1, 1], {literal(number)}, {TRITON_DTYPES[dtype]})"
            case IndexExpr(index, torch.float64) if index.is_Symbol:
                return f"tl.full([1, 1], {self._index(index)}, tl.float64)"
            case IndexExpr(index, dtype):
                block = f"({self._index(index)}) + tl.zeros([1, 1], {self._int})"
                return f"({block}).to({TRITON_DTYPES[dtype]})"
            case Elementwise(primitive, operands):
                pattern = template(primitive, self.kernel.body.dtype(operands[0].at))
                assert pattern is not None, f"supports() let {primitive} through"
                return pattern.format(*map(self._operand, operands))
            case Cast(value, dtype):
                return convert(self._operand(value), self.kernel.body.dtype(value.at), dtype)
            case Round(value, to):
                return f"{self._operand(value)}.to({TRITON_DTYPES[to]}).to(tl.float32)"
            case Bitcast(value, dtype):
                return f"{self._operand(value)}.to({TRITON_DTYPES[dtype]}, bitcast=True)"
            case Where():
                return f"tl.where({', '.join(map(self._operand, op.operands))})"
        raise AssertionError(f"{op.opcode} is no expression")

    def _access(self, at: int, op: Load | Store, mask: Ref | None) -> tuple[str, str]:
        """Pointer block and mask of a load or store. Every pointer is a block, since a mask needs one."""
        inner = self._covers_block(at)
        guard = "r_mask" if inner else "x_mask"
        if mask is not None:
            guard = f"{guard} & {self._operand(mask)}"
        # Where a position is out of range no memory is touched; of what was checked before, no memory is changed.
        unsure = self._checked if isinstance(op, Load) else self._checked | self._left
        for symbol in sorted(op.index.free_symbols & unsure, key=str):
            guard = f"{guard} & {symbol}_good"
        shape = "[XBLOCK, RBLOCK]" if inner else "[XBLOCK, 1]"
        index = self._index(op.index)
        # The compiler has no broadcast for a constant.
        block = (
            f"tl.full({shape}, {index}, {self._int})" if op.index.is_Integer else f"tl.broadcast_to({index}, {shape})"
        )
        return f"{op.buffer} + {block}", guard

    def _load(self, at: int, op: Load) -> None:
        memory = next(arg.dtype for arg in self.kernel.args if arg.name == op.buffer)
        widen = "" if memory is op.dtype else f".to({TRITON_DTYPES[op.dtype]})"
        if self._is_one_element(at, op):
            self._value(at, f"tl.load({op.buffer} + tl.full([1, 1], {self._index(op.index)}, {self._int})){widen}")
            return
        pointer, guard = self._access(at, op, op.mask)
        if self._is_one_word(at):
            word, variables = self._word, self.kernel.body.inner_vars
            index = self._index(op.index.xreplace({variable: _of_word(variable) for variable in variables}))
            pointer = f"{op.buffer} + tl.broadcast_to({index}, [XBLOCK, RBLOCK // {word}])"
            self._value(at, f"prelude.repeated(tl.load({pointer}, mask=w_mask, other=0), {word}){widen}")
            return
        if at in self._fixed or self._is_along_the_row(at, op):
            pointer = f"{op.buffer} + tl.broadcast_to({self._index(op.index)}, [1, RBLOCK])"
            self._value(at, f"tl.load({pointer}, mask=r_index < r_count, other=0){widen}")
            return
        if self.kernel.inner_sizes and not self._covers_block(at):
            # Of a block of one column each thread would load what its rows need once for each of its inner points.
            pointer, guard = (f"tl.reshape({block}, [XBLOCK])" for block in (pointer, guard))
            self._value(at, f"tl.load({pointer}, mask={guard}, other=0)[:, None]{widen}")
        else:
            self._value(at, f"tl.load({pointer}, mask={guard}, other=0{self._kept(at)}){widen}")

    def _kept(self, at: int) -> str:
        """What to tell the cache of a row that is walked over in steps: to keep what a later walk reads again, and nothing else."""
        if self._walk_now is None:
            return ""
        walks = [k for k, walk in enumerate(self.plan.passes) if at in walk.ops]
        if walks[-1] > self._walk_now[-1]:
            return ', eviction_policy="evict_last"'
        return ', eviction_policy="evict_first"' if walks[0] < self._walk_now[0] else ""

    def _is_one_element(self, at: int, op: Load) -> bool:
        """Whether all points read the same one, which is there since a program has a point: it is read, and computed with, once."""
        known = set(self.kernel.symbols)
        return op.mask is None and not self._covers_block(at) and op.index.free_symbols <= known

    def _is_one_word(self, at: int) -> bool:
        """Whether it is a load of one element for all that a thread reads by one instruction: what all of a channel's points share."""
        op, body, sizes = self.kernel.body.ops[at], self.kernel.body, self.kernel.inner_sizes
        if (
            not isinstance(op, Load)
            or op.mask is not None
            or self.blocks.tile is not None
            or self.blocks.walks
            or self._word == 1
        ):
            return False
        used = op.index.free_symbols
        apart = used.isdisjoint((*body.inner_vars[-1:], *body.indirects())) and not used.isdisjoint(body.inner_vars)
        return apart and sizes[-1].is_Integer and int(sizes[-1]) % self._word == 0

    def _is_along_the_row(self, at: int, op: Load) -> bool:
        """Whether it is the same for all columns of a block of columns, and read once for all of them."""
        tile, body = self.blocks.tile, self.kernel.body
        if tile is None or at not in self.plan.inner or op.mask is not None:
            return False
        return op.index.free_symbols.isdisjoint((body.outer_vars[tile.x], *body.indirects()))

    def _store(self, at: int, op: Store) -> None:
        if op.mode == "total":
            self._line(f"t{at} += tl.where(r_mask, {self._operand(op.value)}, 0)")
            return
        pointer, guard = self._access(at, op, None)
        shape = "[XBLOCK, RBLOCK]" if self._covers_block(at) else "[XBLOCK, 1]"
        value = f"tl.broadcast_to({self._operand(op.value)}, {shape})"
        if op.mode == "add":  # nobody reads a sum before the kernel has ended: memory need not be in order before
            self._line(f'tl.atomic_add({pointer}, {value}, mask={guard}, sem="relaxed")')
        else:
            late = self._walk_now is not None and self._walk_now[0] > 0
            passing = late and all(load.buffer != op.buffer for load in self.kernel.body.loads())
            policy = ', eviction_policy="evict_first"' if passing else ""
            self._line(f"tl.store({pointer}, {value}, mask={guard}{policy})")

    def _indirect(self, at: int, op: Indirect) -> None:
        symbol, text, bound = op.symbol, self._operand(op.value), self._index(op.size)
        guard, shape = ("r_mask", "[XBLOCK, RBLOCK]") if self._covers_block(at) else ("x_mask", "[XBLOCK, 1]")
        if op.mask is not None:
            guard = f"{guard} & {self._operand(op.mask)}"
        if INDEX_RULES[op.rule].checked_before:
            self._line(f"{symbol} = {text}")
            self._line(f"{symbol}_good = {symbol} >= 0")
            self._line(f"{symbol} = tl.where({symbol}_good, {symbol}, 0).to({self._int})")
            self._names[at] = str(symbol)
            return
        if INDEX_RULES[op.rule].error is None:
            # Where there is no point or the mask is false, a position may be anything, and nothing is read.
            self._line(f"{symbol} = ({text}).to({self._int})")
            self._names[at] = str(symbol)
            return
        if INDEX_RULES[op.rule].wraps:
            text = f"tl.where({text} < 0, {text} + {bound}, {text})"
        self._line(f"{symbol} = {text}")
        self._line(f"{symbol}_good = (0 <= {symbol}) & ({symbol} < {bound})")
        self._line(f"{symbol}_bad = tl.broadcast_to({guard} & ({symbol}_good == 0), {shape})")
        self._line(f"tl.store({CHECKS} + tl.zeros({shape}, tl.int32), {code_of(op.rule)}, mask={symbol}_bad)")
        self._line(f"{symbol} = tl.where({symbol}_good, {symbol}, 0).to({self._int})")
        self._names[at] = str(symbol)

    # Running results

    def _scan(self, at: int, op: Scan) -> None:
        for line in scan_lines(at, op, self._operand(op.value), self.kernel.body, self.blocks):
            self._line(line)
        self._names[at] = f"v{at}"

    # Reductions

    def _contribution(self, at: int) -> str:
        """What a reduction sums: its operand where the inner point exists, else the neutral element."""
        op = self.kernel.body.reduction(at)
        kind, dtype = op.kind, self.kernel.body.dtype(op.value.at)
        text = self._operand(op.value)
        if REDUCTIONS[kind].of_truth and dtype is not torch.bool:
            text, dtype = f"({text} != 0)", torch.bool
        empty = f"tl.full([1, 1], {TRITON_REDUCTIONS[kind].neutral(dtype)}, {TRITON_DTYPES[dtype]})"
        return f"tl.where(r_mask, {text}, {empty})"

    def _persistent_pass(self, walk: Pass) -> None:
        # A pure inner operation listed again is already there: the whole row is in registers.
        self._operations(tuple(at for at in walk.ops if at not in self._names))
        for at in walk.reductions:
            kind = self.kernel.body.reduction(at).kind
            contribution = self._contribution(at)
            if REDUCTIONS[kind].finds_position:
                self._line(f"a{at} = {contribution}")
                self._finish_position(
                    at, kind, f"a{at}", "tl.broadcast_to(tl.where(r_mask, r_index, r_count), a.shape)"
                )
            else:
                self._value(at, TRITON_REDUCTIONS[kind].finish.format(contribution))

    def _finish_position(self, at: int, kind: str, values: str, positions: str) -> None:
        best, positions = TRITON_REDUCTIONS[kind].finish.format(values), positions.replace("a.shape", f"{values}.shape")
        self._line(f"p{at} = tl.min(tl.where(prelude.is_best({values}, {best}), {positions}, r_count), 1)")
        self._value(at, f"p{at}[:, None].to(tl.int64)")

    def _loop_end(self) -> str:
        """How far a loop over the inner space goes. A plain number between 2**31 and 2**32 would be taken for an unsigned one
        and compared as a signed one: the loop would end before it began."""
        count = product(self.kernel.inner_sizes)
        text = self._index(count)
        return f"tl.full((), {text}, tl.int64)" if count.is_Integer and count > INT32_LIMIT else text

    def _looped_pass(self, k: int, walk: Pass, together: Sequence[Online]) -> None:
        """A walk by steps. `together`: it does what the next one is for, too."""
        alone = () if together else walk.reductions
        if together and not self._has_lanes:  # a constant is given once in a kernel
            self._line(lanes(self._word))
            self._has_lanes = True
        for line in chain.from_iterable(one.beginning for one in together):
            self._line(line)
        for at in alone:
            op = self.kernel.body.reduction(at)
            kind, dtype = op.kind, torch.bool if REDUCTIONS[op.kind].of_truth else self.kernel.body.dtype(op.value.at)
            self._line(
                f"a{at} = tl.full([XBLOCK, RBLOCK], {TRITON_REDUCTIONS[kind].neutral(dtype)}, {TRITON_DTYPES[dtype]})"
            )
            if REDUCTIONS[kind].finds_position:
                self._line(f"p{at} = tl.full([XBLOCK, RBLOCK], 0, {self._int}) + r_count")
        scans = {at: found for at in walk.ops if isinstance(found := self.kernel.body.ops[at], Scan)}
        for at, scan in scans.items():
            self._line(beginning(at, scan))
        outside = dict(self._names)
        walk_of = "range" if self.blocks.stages == 1 else "tl.range"
        ahead = "" if self.blocks.stages == 1 else f", num_stages={self.blocks.stages}"
        self._line(f"for start{k} in {walk_of}(0, {self._loop_end()}, RBLOCK{ahead}):")
        self._depth += 1
        start = f"start{k}"
        if any(scan.backward for scan in scans.values()):
            start = f"((r_count - 1) // RBLOCK * RBLOCK - start{k})"
        self._inner_variables(start)
        self._walk_now = range(k, k + (2 if together else 1))
        self._operations(walk.ops)
        self._walk_now = None
        for one in together:
            self._line(one.step(self._operand(one.value), f"start{k}"))
        for at in alone:
            kind = self.kernel.body.reduction(at).kind
            contribution = self._contribution(at)
            if REDUCTIONS[kind].finds_position:
                combine = TRITON_REDUCTIONS[kind].combine
                self._line(f"n{at} = tl.broadcast_to({contribution}, [XBLOCK, RBLOCK])")
                self._line(f"q{at} = tl.broadcast_to(tl.where(r_mask, r_index, r_count), [XBLOCK, RBLOCK])")
                self._line(f"a{at}, p{at} = {combine}(a{at}, p{at}, n{at}, q{at})")
            else:
                self._line(f"a{at} = {TRITON_REDUCTIONS[kind].combine.format(a=f'a{at}', b=contribution)}")
        self._depth -= 1
        self._names = outside
        for one in together:
            self._line(one.ending)
            self._names |= {at: f"v{at}" for at in (one.first, one.second)}
        for at in alone:
            kind = self.kernel.body.reduction(at).kind
            if REDUCTIONS[kind].finds_position:
                self._finish_position(at, kind, f"a{at}", f"p{at}")
            else:
                self._value(at, TRITON_REDUCTIONS[kind].finish.format(f"a{at}"))


def unsupported(kernel: Kernel) -> str | None:
    """Why this backend can't print the kernel, or None."""
    body = kernel.body
    for op in body.ops:
        match op:
            case Elementwise(primitive, operands):
                dtype = body.ops[operands[0].at].dtype
                if dtype is None or template(primitive, dtype) is None:
                    return f"{primitive} on {dtype}"
            case Reduce(kind) if kind not in TRITON_REDUCTIONS:
                return f"reduction {kind}"
            case Reduce(kind, value) if body.ops[value.at].dtype is torch.bool and not REDUCTIONS[kind].of_truth:
                return f"{kind} of bool"
            case Scan() if not has_scan(op):
                return f"{op.kind} so far of {op.dtype}"
            case Store(mode="mul" | "max" | "min" as mode):
                return f"store of mode {mode}"
            case Store(buffer, mode="add"):
                memory = next(arg.dtype for arg in kernel.args if arg.name == buffer)
                if memory not in ATOMIC_DTYPES:
                    return f"atomic addition on {memory}"
    return None
