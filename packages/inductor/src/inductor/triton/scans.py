"""Running results along a block's rows, as lines of a kernel.

Flows in: a `Scan` and the text of its operand. Flows out: lines that define its value: of a whole row, of a block that goes on from
what the blocks before it ended with, or of a program's part of a row that others share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from inductor.device import Kernel, KernelArg
from inductor.ir.body import Body
from inductor.ir.operations import Reduce, Scan
from inductor.levels import split
from inductor.triton.blocks import Blocks
from inductor.triton.expressions import TRITON_DTYPES, greatest, least
from symshapes import dataclass

NARROWEST = 4
"""Bytes of the smallest numbers that there are running results of."""
WORDS = "words"
"""The parameter of a kernel whose programs share rows: memory that is zero, by which they tell each other totals."""
SIMPLE_PART, PART = 8192, 4096
"""Points of a program's part of a shared row, of one scan of little numbers and of others: they all are in registers."""
GROUP = 128
"""Parts of a row whose totals are combined at once."""


@dataclass(frozen=True)
class TritonScan:
    """What a running result of values of a dtype starts from, the function that combines two, and how a block of values [x, r]
    becomes the running results of its rows; {1} is whether from their ends."""

    neutral: Callable[[torch.dtype], str]
    function: str
    block: str


def _by_function(neutral: Callable[[torch.dtype], str], function: str) -> TritonScan:
    return TritonScan(neutral, function, f"tl.associative_scan({{0}}, 1, {function}, reverse={{1}})")


TRITON_SCANS: dict[str, TritonScan] = {
    "sum": TritonScan(lambda _: "0", "prelude.add", "tl.cumsum({0}, 1, reverse={1})"),
    "prod": TritonScan(lambda _: "1", "prelude.multiply", "tl.cumprod({0}, 1, reverse={1})"),
    "max": _by_function(least, "prelude.maximum"),
    "min": _by_function(greatest, "prelude.minimum"),
    "logaddexp": _by_function(least, "library.log_add_exp"),
}


def has_scan(op: Scan) -> bool:
    """Whether there are lines for it."""
    return op.kind in TRITON_SCANS and op.dtype.itemsize >= NARROWEST


def shared_part(body: Body) -> int:
    """How many points of a row each of the programs has that share it; 0 if they can't: if they walk over it more than once, or
    would have more to tell each other than the row's scans."""
    scans = [op for op in body.ops if isinstance(op, Scan)]
    if not scans or any(isinstance(op, Reduce) for op in body.ops) or len(split(body).passes) != 1:
        return 0
    simple = len(scans) == 1 and scans[0].dtype.itemsize == 4 and scans[0].kind != "logaddexp"
    return SIMPLE_PART if simple else PART


def sharing(kernel: Kernel, blocks: Blocks) -> Kernel:
    """The kernel with the memory that its programs need beside its arguments."""
    words = KernelArg(WORDS, "inout", torch.int64)
    return replace(kernel, args=(*kernel.args, words)) if blocks.shared and words not in kernel.args else kernel


def words_of(kernel: Kernel, blocks: Blocks, rows: int, row: int) -> int:
    """How many words of 64 bits that is."""
    parts = -(-row // blocks.r)
    return rows * sum(_slots(op) for op in kernel.body.ops if isinstance(op, Scan)) * (parts + -(-parts // GROUP))


def _slots(op: Scan) -> int:
    """Words of a number."""
    return op.dtype.itemsize // 4


def beginning(at: int, op: Scan) -> str:
    """Before a looped pass: what the first block goes on from."""
    return f"c{at} = tl.full([XBLOCK, 1], {TRITON_SCANS[op.kind].neutral(op.dtype)}, {TRITON_DTYPES[op.dtype]})"


def scan_lines(at: int, op: Scan, operand: str, body: Body, blocks: Blocks) -> Iterator[str]:
    """The value `v{at}` of a scan at a position of the body."""
    row, dtype = TRITON_SCANS[op.kind], TRITON_DTYPES[op.dtype]
    operand = f"tl.broadcast_to({operand}, [XBLOCK, RBLOCK])"
    if op.backward:  # what lies behind the row's end comes first
        operand = f"tl.where(r_mask, {operand}, {row.neutral(op.dtype)}).to({dtype})"
    if blocks.shared:
        yield from _shared_lines(at, op, operand, body)
        return
    yield f"v{at} = {row.block.format(operand, op.backward)}"
    if not blocks.persistent:
        last = "0" if op.backward else "RBLOCK - 1"
        yield f"end{at} = tl.sum(tl.where(tl.arange(0, RBLOCK)[None, :] == {last}, v{at}, 0), 1)[:, None].to({dtype})"
        yield f"v{at} = {row.function}(c{at}, v{at})"
        yield f"c{at} = {row.function}(c{at}, end{at})"


def _shared_lines(at: int, op: Scan, operand: str, body: Body) -> Iterator[str]:
    """Of a part of a row. The total comes before anything else: others wait for it."""
    row, dtype = TRITON_SCANS[op.kind], TRITON_DTYPES[op.dtype]
    earlier = sum(_slots(other) for other in body.ops[:at] if isinstance(other, Scan))
    words = WORDS if earlier == 0 else f"{WORDS} + {earlier} * x_count * (r_parts + (r_parts + {GROUP - 1}) // {GROUP})"
    place, sizes = f"{words}, x_program, r_part, r_parts", f"{_slots(op)}, {GROUP}"
    neutral = f"tl.full([1], {row.neutral(op.dtype)}, {dtype})"
    yield f"n{at} = {operand}"
    yield f"end{at} = tl.reduce(n{at}, 1, {row.function}).to({dtype})"
    yield f"shared_rows.tell({place}, end{at}, {sizes})"
    yield f"v{at} = {row.block.format(f'n{at}', op.backward)}"
    yield f"c{at} = tl.reduce(shared_rows.before({place}, {neutral}, {sizes}), 1, {row.function}).to({dtype})"
    yield f"shared_rows.tell_group({place}, {row.function}(c{at}, end{at}), {sizes})"
    yield f"v{at} = {row.function}(c{at}[:, None], v{at})"
