"""Plans and prints convolutions of channels, each by itself (`include/depthwise.h`): what is made of the sums runs right behind
them, on vectors of channels.

Flows in: a kernel whose one reduction is such a convolution. Flows out: C++ of a function over rows of places, and its entry.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import sympy
import torch

from cpu_codegen.blocks import plan_of
from cpu_codegen.index import Expr, Symbol, stride
from cpu_codegen.loops import Loop, simplify
from cpu_codegen.names import entry_name
from cpu_codegen.operation_printer import OperationPrinter, print_arguments
from cpu_codegen.operations import cost_of
from cpu_codegen.text import Lines
from cpu_codegen.vectorize import Plan, writes_collide
from inductor import Body, Constant, Depthwise, Elementwise, IndexExpr, Kernel, Load, depthwise_of, split

MOST_COLUMNS = {16: 8, 8: 4, 4: 4}
"""By lanes: sums that fit in the registers, beside a row of taps and an element of the image."""
MOST_CHANNELS = 128
"""Of an item: what several places read of one row stays in the first-level cache."""
MOST_CUT = 8
"""Blocks that are printed for themselves, since a part of their windows is outside."""
FAR = 1 << 40
SUMS_A_UNIT = 4
"""Multiplications and additions in a quarter of a nanosecond, on one thread."""

_START, _ABOVE = (sympy.Symbol(name, integer=True, nonnegative=True) for name in ("start", "above"))


@dataclass(frozen=True)
class Range:
    """Where low <= value < high, there is something to add."""

    value: Expr
    low: int
    high: int


@dataclass(frozen=True)
class Windows:
    """A kernel as rows of windows over channels."""

    plan: Plan
    found: Depthwise
    rows: tuple[Loop, ...]
    """All other loops: each point of these is a row."""
    columns: Loop
    channels: Loop
    taps: int
    row_taps: int
    step: int
    apart: int
    across: Range
    """Of places in a row, in `columns` and the tap."""
    down: Range | None
    """Of rows, in `rows` and the row's tap."""
    block: int
    """Columns whose sums are made together."""


def find_windows(kernel: Kernel, lanes: int) -> Windows | None:
    """The convolution that a kernel computes; None if it is none, or not one of those that are printed so: of float32, of
    known sizes, its windows cut by limits of rows and of columns, and each result at a place of its own."""
    if depthwise_of(kernel.body, kernel.outer_sizes, kernel.inner_sizes) is None:
        return None
    body, outer, inner = simplify(kernel)
    found = depthwise_of(body, [loop.size for loop in outer], [loop.size for loop in inner])
    if found is None or writes_collide(body):
        return None
    dtypes = {arg.name: arg.dtype for arg in kernel.args}
    image, weight = body.ops[found.image], body.ops[found.weight]
    assert isinstance(image, Load) and isinstance(weight, Load)
    if dtypes[image.buffer] is not torch.float32 or dtypes[weight.buffer] is not torch.float32:
        return None
    levels = split(body)
    if len(levels.passes) != 1 or levels.passes[0].stores:
        return None
    loops = {loop.variable: loop for loop in (*outer, *inner)}
    columns, channels = loops[found.column], loops[found.channel]
    taps, row_taps = loops[found.tap].static, loops[found.row_tap].static
    by, along = stride(image.index, found.column), stride(image.index, found.tap)
    if columns.static is None or channels.static is None or taps is None or row_taps is None:
        return None
    if not (isinstance(by, sympy.Integer) and isinstance(along, sympy.Integer)) or len(inner) != 2:
        return None
    limits = _limits(body, found)
    if limits is None:
        return None
    place = math.gcd(int(by), int(along))
    made = Windows(
        plan=plan_of(body, outer, inner, channels),
        found=found,
        rows=tuple(loop for loop in outer if loop is not columns and loop is not channels),
        columns=columns,
        channels=channels,
        taps=taps,
        row_taps=row_taps,
        step=int(by) // place,
        apart=int(along) // place,
        across=limits[0],
        down=limits[1],
        block=_block(columns.static, MOST_COLUMNS[lanes]),
    )
    return made if _cut_blocks(made) <= MOST_CUT else None


def _block(columns: int, most: int) -> int:
    """Columns in blocks as equal as can be."""
    return -(-columns // -(-columns // most))


def _limits(body: Body, found: Depthwise) -> tuple[Range, Range | None] | None:
    """What the tests say of columns, and of rows; None if it is anything else."""
    ranges: dict[Expr, Range] = {}
    for at in found.tests:
        test = body.ops[at]
        if not isinstance(test, Elementwise) or len(test.operands) != 2:
            return None
        value, limit = (body.ops[ref.at] for ref in test.operands)
        if not isinstance(value, IndexExpr) or not isinstance(limit, Constant):
            return None
        known = ranges.get(value.index, Range(value.index, -FAR, FAR))
        bound = int(limit.value)
        if test.primitive == "ge":
            ranges[value.index] = Range(value.index, max(known.low, bound), known.high)
        elif test.primitive == "lt":
            ranges[value.index] = Range(value.index, known.low, min(known.high, bound))
        else:
            return None
    across = [each for each in ranges.values() if each.value.free_symbols & {found.column, found.tap}]
    down = [each for each in ranges.values() if each not in across]
    if len(across) > 1 or len(down) > 1:
        return None
    if not across:
        across = [Range(found.column + found.tap, -FAR, FAR)]
    by, along = stride(across[0].value, found.column), stride(across[0].value, found.tap)
    rest = across[0].value.xreplace({found.column: sympy.S.Zero, found.tap: sympy.S.Zero})
    if not all(isinstance(each, sympy.Integer) and each >= 0 for each in (by, along)) or not rest.is_Integer:
        return None
    for each in down:
        step = stride(each.value, found.row_tap)
        if not (isinstance(step, sympy.Integer) and step > 0) or found.channel in each.value.free_symbols:
            return None
    return across[0], down[0] if down else None


def _template(windows: Windows) -> tuple[int, ...]:
    """Arguments of `Windows` in the header."""
    value, zero = windows.across.value, sympy.S.Zero
    column, tap = windows.found.column, windows.found.tap
    rest = int(value.xreplace({column: zero, tap: zero}))
    by, along = stride(value, column), stride(value, tap)
    assert by is not None and along is not None and windows.columns.static is not None
    return (
        *(windows.taps, windows.step, windows.apart, windows.columns.static, windows.block),
        *(int(by), int(along), windows.across.low - rest, windows.across.high - rest),
    )


def _cut_blocks(windows: Windows) -> int:
    taps, _, _, count, block, by, along, low, high = _template(windows)
    starts = [min(at, count - block) for at in range(0, count, block)]
    return sum(by * at < low or by * (at + block - 1) + along * (taps - 1) >= high for at in starts)


class WindowsPrinter:
    """Prints a whole kernel."""

    def __init__(self, kernel: Kernel, windows: Windows, out: Lines) -> None:
        self.kernel, self.windows, self.out = kernel, windows, out
        self.name = entry_name(kernel)
        self.ops = OperationPrinter(kernel, windows.plan, out)
        self.index = self.ops.index
        assert windows.channels.static is not None
        chunks = -(-windows.channels.static // MOST_CHANNELS)
        self.chunk = -(-windows.channels.static // (chunks * 16)) * 16
        self.chunks = -(-windows.channels.static // self.chunk)

    def print(self) -> None:
        """Print the kernel."""
        out, name, windows = self.out, self.name, self.windows
        out('#include "depthwise.h"')
        with out.block(f"static int {name}_items(const Word* args, void*, Index begin, Index end) {{"):
            print_arguments(self.kernel, out)
            if self.ops.has_indirect:
                out("int status = DONE;")
            with out.block("for (Index item = begin; item < end; ++item) {"):
                self._item()
            out("return status;" if self.ops.has_indirect else "return DONE;")
        rows = " * ".join(self.index.factor(loop.size) for loop in windows.rows) or "1"
        with out.block(f'extern "C" EXPORT Index {name}_work(const Word* args) {{'):
            print_arguments(self.kernel, out, sizes_only=True)
            after = sum(cost_of(windows.plan.body.ops[at]) for level in windows.plan.levels.outer for at in level)
            points = f"{windows.columns.static} * {windows.channels.static}"
            cost = max(1, round(after + windows.taps * windows.row_taps / SUMS_A_UNIT))
            out(f"return {rows} * {points} * {cost};")
        with out.block(f'extern "C" EXPORT int {name}(const Word* args) {{'):
            print_arguments(self.kernel, out, sizes_only=True)
            out(f"return parallel({name}_items, args, nullptr, {rows} * {self.chunks}, {name}_work(args));")

    def _item(self) -> None:
        out, windows, index, found = self.out, self.windows, self.index, self.windows.found
        channel, column, zero = found.channel, found.column, sympy.S.Zero
        out(f"const Index start = item % {self.chunks} * {self.chunk};")
        out(f"const Index channels = at_most({self.chunk}, {windows.channels.static} - start);")
        rest = f"item / {self.chunks}"
        for place, loop in reversed(list(enumerate(windows.rows))):
            size = index.factor(loop.size)
            out(f"const Index {index(loop.variable)} = {rest if place == 0 else f'{rest} % {size}'};")
            rest = f"{rest} / {size}"
        self._rows_inside()
        first = {column: zero, found.tap: zero, channel: _START, found.row_tap: _ABOVE}
        addresses, steps = [], []
        for at in (found.image, found.weight):
            load = windows.plan.body.ops[at]
            assert isinstance(load, Load)
            addresses.append(self.ops.address(load.with_index(lambda e: e.xreplace(first))))
            steps.append((stride(load.index, found.row_tap), stride(load.index, found.tap)))
        (image_row, image_tap), (taps_row, taps_tap) = steps
        assert image_row is not None and taps_row is not None and image_tap is not None and taps_tap is not None
        image_place = image_tap / windows.apart
        texts = [index(each) for each in (image_row, image_place)], [index(each) for each in (taps_row, taps_tap)]
        out(
            f"const Rows rows = {{{addresses[0]}, {', '.join(texts[0])}, {addresses[1]}, {', '.join(texts[1])}, below - above}};"
        )
        template = ", ".join(map(str, _template(windows)))
        arguments = f"[&](Index {index(column)}, Index inside, auto lanes, F32 sum) INLINE_BODY"
        with out.block(f"depthwise<Windows<{template}>>(rows, channels, {arguments} {{", "});"):
            out(f"const Index {index(channel)} = start + inside;")
            levels = windows.plan.levels
            self.ops.emit_all(levels.outer[0])
            self.ops.define(found.sum, "sum")
            self.ops.emit_all(levels.outer[1])

    def _rows_inside(self) -> None:
        """Declares the taps [above, below) whose rows are inside."""
        down, taps = self.windows.down, self.windows.row_taps
        if down is None:
            self.out(f"const Index above = 0, below = {taps};")
            return
        tap: Symbol = self.windows.found.row_tap
        step = stride(down.value, tap)
        assert step is not None
        self.out(f"const Index first_row = {self.index(down.value.xreplace({tap: sympy.S.Zero}))};")

        def limit(end: int) -> str:
            inside = f"floor_div({end} - first_row + {int(step) - 1}, {int(step)})"
            return f"at_least(0, at_most({taps}, {inside}))"

        self.out(f"const Index above = {limit(down.low)}, below = at_least(above, {limit(down.high)});")
