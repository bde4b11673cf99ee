"""Running results along a block's rows, as lines of a kernel.

Flows in: a `Scan` and the text of its operand. Flows out: lines that define its value, in a looped row with what the blocks before
ended with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from inductor.ir.operations import Scan
from inductor.triton.expressions import TRITON_DTYPES, greatest, least

NARROWEST = 4
"""Bytes of the smallest numbers that there are running results of."""


@dataclass(frozen=True)
class TritonScan:
    """What a running result of values of a dtype starts from, how two combine, and how a block of values [x, r] becomes the
    running results of its rows; {1} is whether from their ends."""

    neutral: Callable[[torch.dtype], str]
    combine: str
    block: str


def _by_function(neutral: Callable[[torch.dtype], str], function: str) -> TritonScan:
    return TritonScan(neutral, f"{function}({{a}}, {{b}})", f"tl.associative_scan({{0}}, 1, {function}, reverse={{1}})")


TRITON_SCANS: dict[str, TritonScan] = {
    "sum": TritonScan(lambda _: "0", "{a} + {b}", "tl.cumsum({0}, 1, reverse={1})"),
    "prod": TritonScan(lambda _: "1", "{a} * {b}", "tl.cumprod({0}, 1, reverse={1})"),
    "max": _by_function(least, "prelude.maximum"),
    "min": _by_function(greatest, "prelude.minimum"),
    "logaddexp": _by_function(least, "library.log_add_exp"),
}


def has_scan(op: Scan) -> bool:
    """Whether there are lines for it."""
    return op.kind in TRITON_SCANS and op.dtype.itemsize >= NARROWEST


def beginning(at: int, op: Scan) -> str:
    """Before a looped pass: what the first block goes on from."""
    return f"c{at} = tl.full([XBLOCK, 1], {TRITON_SCANS[op.kind].neutral(op.dtype)}, {TRITON_DTYPES[op.dtype]})"


def scan_lines(at: int, op: Scan, operand: str, persistent: bool) -> Iterator[str]:
    """The value `v{at}` of a scan at a position of the body: of a whole row, or of a block after others."""
    row, dtype = TRITON_SCANS[op.kind], TRITON_DTYPES[op.dtype]
    operand = f"tl.broadcast_to({operand}, [XBLOCK, RBLOCK])"
    if op.backward:  # what lies behind the row's end comes first
        operand = f"tl.where(r_mask, {operand}, {row.neutral(op.dtype)}).to({dtype})"
    yield f"v{at} = {row.block.format(operand, op.backward)}"
    if not persistent:
        last = "0" if op.backward else "RBLOCK - 1"
        yield f"s{at} = tl.sum(tl.where(tl.arange(0, RBLOCK)[None, :] == {last}, v{at}, 0), 1)[:, None].to({dtype})"
        yield f"v{at} = {row.combine.format(a=f'c{at}', b=f'v{at}')}"
        yield f"c{at} = {row.combine.format(a=f'c{at}', b=f's{at}')}"
