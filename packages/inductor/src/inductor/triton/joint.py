"""Joint kernels: many parts, few bodies, one launch.

Flows in: a `JointKernel`. Flows out: its layout and its text. What the parts are called with lies in a table of 64-bit words in the
device's memory: first the number of each part's first program, then a row of arguments for each. A program finds its part, and
calls the body with the arguments of its row; so a body is printed once, however many parts have it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from typing import Any

import sympy

from inductor.device import JointKernel, JointPart, KernelArg
from inductor.triton.blocks import INT32_LIMIT, MULTIPLE, Blocks, next_power_of_two, of_any_size, programs
from inductor.triton.expressions import TRITON_DTYPES
from inductor.triton.extent import extent_of
from inductor.triton.kernel import KernelPrinter
from inductor.triton.nature import blocks_for, nature_of
from symshapes import dataclass

ALIGNED = "ALIGNED"
"""The parameter that says whether all addresses are multiples of `MULTIPLE`."""

WORD = 8
"""Bytes."""

Grid = tuple[bytes, int]
"""The first program of each row as 64-bit words, and how many programs there are."""


@dataclass(frozen=True)
class Body:
    """A kernel with blocks, and whether all its integers are multiples of `MULTIPLE`."""

    kernel: int
    blocks: Blocks
    multiples: bool


class Layout:
    """How a joint kernel's parts lie in its table, and which programs are whose."""

    def __init__(self, joint: JointKernel) -> None:
        self.joint = joint
        self._extents = [extent_of(kernel) for kernel in joint.kernels]
        self._natures = [replace(nature_of(kernel), part=0) for kernel in joint.kernels]
        chosen = [self._body(part) for part in joint.parts]
        self.bodies = list(dict.fromkeys(chosen))
        place = {body: at for at, body in enumerate(self.bodies)}
        self.rows = sorted(range(len(chosen)), key=lambda part: place[chosen[part]])
        """The part of each row: those of one body lie together."""
        self.ends = list(accumulate(sum(body == one for one in chosen) for body in self.bodies))
        """Behind the last row of each body."""
        self.warps = max(body.blocks.warps for body in self.bodies)
        self.width = max(len(kernel.args) for kernel in joint.kernels)
        """Words of a row."""
        self.words = len(chosen) * (1 + self.width)
        row_of = {part: row for row, part in enumerate(self.rows)}
        self.args: list[KernelArg] = []
        """What a call takes, one part after the other."""
        self.places: list[int] = []
        """The word of each of these."""
        for at, part in enumerate(joint.parts):
            args = joint.kernels[part.kernel].args
            self.args += args
            start = len(chosen) + row_of[at] * self.width
            self.places += range(start, start + len(args))
        self._chosen = chosen

    def _body(self, part: JointPart) -> Body:
        kernel, extent = self.joint.kernels[part.kernel], self._extents[part.kernel]
        known = {
            symbol: sympy.Integer(abs(n)) for symbol, n in zip(kernel.symbols, part.known, strict=True) if n is not None
        }
        told = replace(
            extent,
            outer=tuple(size.xreplace(known) for size in extent.outer),
            inner=extent.inner.xreplace(known),
            bounds=None if extent.bounds is None else tuple(bound.xreplace(known) for bound in extent.bounds),
        )
        sizes, inner, largest = told.known
        blocks = blocks_for(sizes, inner, self._natures[part.kernel], largest)
        numbers = [n for symbol, n in zip(kernel.symbols, part.known, strict=True) if symbol.is_integer]
        return Body(part.kernel, of_any_size(blocks), all(n is not None and n % MULTIPLE == 0 for n in numbers))

    def grid(self) -> Callable[..., Grid] | Grid:
        """The grid, or what tells it by the numbers of a call."""
        measures = [extent.measure() for extent in self._extents]
        parts = self.joint.parts
        kernels = [self.joint.kernels[part.kernel] for part in parts]
        counts = [len(kernel.symbols) for kernel in kernels]

        def ask(*numbers: Any) -> Grid:
            each: list[int] = []
            first = 0
            for at, part in enumerate(parts):
                sizes, _, _ = measures[part.kernel](*numbers[first : first + counts[at]])
                first += counts[at]
                each.append(programs(sizes, self._chosen[at].blocks) if math.prod(sizes) > 0 else 0)
            starts = [0, *accumulate(each[part] for part in self.rows)]
            if starts[-1] > INT32_LIMIT:
                raise RuntimeError(f"{self.joint.name} needs {starts[-1]} programs, more than a launch can have")
            return struct.pack(f"<{len(starts) - 1}q", *starts[:-1]), starts[-1]

        known = list(chain.from_iterable(part.known for part in parts))
        used = {symbol for extent in self._extents for size in extent.outer for symbol in size.free_symbols}
        told = all(
            n is not None or symbol not in used
            for kernel, part in zip(kernels, parts, strict=True)
            for symbol, n in zip(kernel.symbols, part.known, strict=True)
        )
        return ask(*(0 if n is None else n for n in known)) if told else ask


def text_of(layout: Layout) -> str:
    """The functions of all bodies, and the kernel that calls them."""
    joint = layout.joint
    printed = []
    for at, body in enumerate(layout.bodies):
        kernel = replace(joint.kernels[body.kernel], name=f"{joint.name}_{at}")
        printed.append(KernelPrinter(kernel, body.blocks, part=True).text())
    rows = len(joint.parts)
    columns = f"tl.arange(0, {next_power_of_two(rows)})"
    lines = [
        f"# {rows} kernels by one launch.",
        "@triton.jit",
        f"def {joint.name}(table, {ALIGNED}: tl.constexpr):",
        "    program = tl.program_id(0)",
        f"    starts = tl.load(table + {columns}, mask={columns} < {rows}, other={INT32_LIMIT})",
        "    part = tl.sum((starts <= program).to(tl.int32), 0) - 1",
        "    program = program - tl.load(table + part).to(tl.int32)",
        f"    row = table + {rows} + part * {layout.width}",
    ]
    for at, body in enumerate(layout.bodies):
        if len(layout.bodies) > 1:
            last = at == len(layout.bodies) - 1
            lines.append("    else:" if last else f"    {'el' if at else ''}if part < {layout.ends[at]}:")
        indent = "    " * (1 + (len(layout.bodies) > 1))
        arguments = [_argument(arg, k, body) for k, arg in enumerate(joint.kernels[body.kernel].args)]
        lines.append(f"{indent}{joint.name}_{at}(")
        lines += [f"{indent}    {argument}," for argument in arguments]
        lines += [f"{indent}    program, XBLOCK={body.blocks.x}, RBLOCK={body.blocks.r},", f"{indent})"]
    return "\n\n".join((*printed, "\n".join((*lines, ""))))


def _argument(arg: KernelArg, at: int, body: Body) -> str:
    """A body's argument out of its row."""
    if arg.role != "size":
        return f"prelude.address(row, {at}, {TRITON_DTYPES[arg.dtype]}, {ALIGNED})"
    word = f"tl.load(row + {at})"
    if arg.dtype.is_floating_point:
        return f"{word}.to(tl.float64, bitcast=True)"
    number = word if body.blocks.wide else f"{word}.to(tl.int32)"
    return f"tl.multiple_of({number}, {MULTIPLE})" if body.multiples else number


def words_of(layout: Layout, arguments: Sequence[Any], starts: bytes) -> tuple[bytearray, bool]:
    """The table of a call, and whether all its addresses are multiples of `MULTIPLE`."""
    words = bytearray(layout.words * WORD)
    words[: len(starts)] = starts
    aligned = True
    for arg, place, value in zip(layout.args, layout.places, arguments, strict=True):
        if arg.role != "size":
            address = value.data_ptr()
            struct.pack_into("<Q", words, place * WORD, address)
            aligned &= address % MULTIPLE == 0
        else:
            struct.pack_into("<d" if arg.dtype.is_floating_point else "<q", words, place * WORD, value)
    return words, aligned
