"""Finds and prints convolutions by blocks (`include/convolution.h`): products of points by channels with weights, summed over
taps, whose points are found by their addresses, and are zero where a mask says so.

Flows in: a kernel whose one reduction is a contraction. Flows out: C++ of how the sums of a part of the result are made.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from itertools import permutations

import sympy
import torch

from cpu_codegen.blocks import Blocks, BlocksPrinter, plan_of, rows_in_block
from cpu_codegen.index import stride
from cpu_codegen.loops import Loop, product, simplify
from cpu_codegen.vectorize import writes_collide
from inductor import Body, Constant, Elementwise, IndexExpr, Kernel, Load, Ref, contraction_of, dependencies, split
from symshapes import dataclass

MOST_TAPS = 128
"""Each point has the addresses of all its taps in a table."""


@dataclass(frozen=True)
class Convolution:
    """A kernel as a convolution of points, each with its channels side by side, and weights."""

    blocks: Blocks
    points: Load
    """Where its first channel lies, over the variables of rows and taps."""
    mask: tuple[int, ...]
    """Positions of the operations that say which taps meet a point, in order."""
    weight: Load
    """Where a batch's weights start."""
    across: int
    along: int
    offsets: tuple[int, ...]
    """Of each tap's weights."""
    channels: Loop
    taps: tuple[Loop, ...]

    header = "convolution.h"

    def print_core(self, frame: BlocksPrinter) -> None:
        """The sums of a part, from points where they are and packed panels of weights."""
        out, index, blocks = frame.out, frame.index, self.blocks
        count = len(self.offsets)
        ordered = self.along == count and self.offsets == tuple(range(count))
        out(f"static const Index taps[] = {{{', '.join(map(str, self.offsets))}}};")
        weight = (
            f"Weights{{{frame.ops.address(self.weight)}, {self.across}, {self.along}, taps, {str(ordered).lower()}}}"
        )
        with ExitStack() as opened:
            lines = "const auto find = [&](const float** to, Index row, const float* zeros) INLINE_BODY {"
            opened.enter_context(out.block(lines, "};"))
            opened.enter_context(frame.ops.scope())
            frame.print_digits("row", blocks.rows)
            for loop in self.taps:
                name = index(loop.variable)
                opened.enter_context(out.block(f"for (Index {name} = 0; {name} < {loop.static}; ++{name}) {{"))
            frame.ops.emit_all(self.mask)
            at = frame.ops.address(self.points)
            if self.points.mask is not None:
                at = f"{frame.ops.scalar(self.points.mask.at)} ? {at} : zeros"
            out(f"*to = {at};")
            out(f"to += {blocks.block};")
        column = index(blocks.columns.variable)
        signature = f"[&](Index row, Index {column}, auto lanes, F32 sum) INLINE_BODY"
        with out.block(f"const auto finish = {signature} {{", "};"):
            frame.print_digits("row", blocks.rows)
            frame.print_results(_needed_behind(blocks))
        sizes = f"{count}, {self.channels.static}"
        by = f"points_block<{blocks.block}>(), find_by<{blocks.block}>(find), finish_by(finish)"
        out(f"convolve(part, {sizes}, {weight}, {by});")


def find_convolution(kernel: Kernel, lanes: int) -> Convolution | None:
    """The convolution that a kernel computes, of sizes that are known; None if it is none, or the plain product of two matrices,
    or not one of those that are printed by blocks: of float32, with channels side by side, its weights at places that are
    linear in results, channels and taps, nothing else inside of the sum but masks, and each result at a place of its own."""
    if contraction_of(kernel.body) is None:
        return None
    body, outer, inner = simplify(kernel)
    found = contraction_of(body)
    if found is None or writes_collide(body) or any(loop.static is None for loop in (*outer, *inner)):
        return None
    levels = split(body)
    if len(levels.passes) != 1 or levels.passes[0].stores:
        return None
    dtypes = {arg.name: arg.dtype for arg in kernel.args}
    columns = outer[-1]
    for points_at, weight_at in permutations(found.factors):
        points, weight = body.ops[points_at], body.ops[weight_at]
        assert isinstance(points, Load) and isinstance(weight, Load)
        if {dtypes[points.buffer], dtypes[weight.buffer]} != {torch.float32} or weight.mask is not None:
            continue
        mask = _mask(body, points.mask)
        reached = points.index.free_symbols.union(*(body.ops[at].symbols() for at in mask or ()))
        used = {points_at, weight_at, body.reduction(found.sum).value.at, *(mask or ())}
        if mask is None or columns.variable in reached or not used.issuperset(levels.passes[0].ops):
            continue
        channels = next((loop for loop in inner if _are_channels(body, points, mask, loop)), None)
        if channels is None:
            continue
        taps = tuple(loop for loop in inner if loop is not channels)
        batch = tuple(loop for loop in outer if loop is not columns and loop.variable in weight.index.free_symbols)
        rows = tuple(loop for loop in outer if loop is not columns and loop not in batch)
        offsets = _offsets(weight, taps)
        across, along = _step(weight, columns), _step(weight, channels)
        if offsets is None or not across or along is None or len(offsets) > MOST_TAPS:
            continue
        if not rows or (len(rows) == 1 and not taps):
            continue
        start = {loop.variable: sympy.S.Zero for loop in (columns, *inner)}
        return Convolution(
            Blocks(
                plan=plan_of(body, outer, inner, columns),
                sum=found.sum,
                batch=batch,
                rows=rows,
                columns=columns,
                depth=inner,
                block=rows_in_block(product(rows), lanes),
            ),
            points=replace(points, index=points.index.xreplace({channels.variable: sympy.S.Zero})),
            mask=mask,
            weight=replace(weight, index=weight.index.xreplace(start)),
            across=across,
            along=along,
            offsets=offsets,
            channels=channels,
            taps=taps,
        )
    return None


def _mask(body: Body, mask: Ref | None) -> tuple[int, ...] | None:
    """The operations of a mask, if they compute with nothing but positions."""
    if mask is None:
        return ()
    needs = dependencies(body)
    found, todo = set[int](), [mask.at]
    while todo:
        at = todo.pop()
        if at not in found:
            found.add(at)
            todo.extend(needs[at])
    if all(isinstance(body.ops[at], Constant | Elementwise | IndexExpr) for at in found):
        return tuple(sorted(found))
    return None


def _are_channels(body: Body, points: Load, mask: tuple[int, ...], loop: Loop) -> bool:
    """Whether it walks along neighbours in memory, whatever is masked."""
    inside = all(loop.variable not in body.ops[at].symbols() for at in mask)
    return inside and stride(points.index, loop.variable) == 1


def _offsets(weight: Load, taps: tuple[Loop, ...]) -> tuple[int, ...] | None:
    """Where each tap's weights lie from the first's, in the order of the loops."""
    offsets = [0]
    for loop in taps:
        step = _step(weight, loop)
        if step is None or loop.static is None:
            return None
        offsets = [offset + at * step for offset in offsets for at in range(loop.static)]
    return tuple(offsets)


def _step(load: Load, loop: Loop) -> int | None:
    """How far apart in memory it reads from one turn of a loop to the next, if that is a number."""
    step = stride(load.index, loop.variable)
    return int(step) if step is not None and step.is_Integer else None


def _needed_behind(blocks: Blocks) -> tuple[int, ...]:
    """Operations that what is made of the sums needs, masks of points left out."""
    body, levels = blocks.plan.body, blocks.plan.levels
    needs = dependencies(body)
    found, todo = set[int](), [*levels.outer[1], *(at for at in levels.outer[0] if body.ops[at].opcode == "store")]
    while todo:
        at = todo.pop()
        if at not in found and at != blocks.sum:
            found.add(at)
            todo.extend(needs[at])
    return tuple(sorted(found))
