"""How the tensors of a wrapper are laid out: which layouts are relied on, and which each buffer had best.

Flows in: `Schedule`. Flows out: names of buffers, and for each a `Geometry`.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from inductor.ir.indexing import product
from inductor.ir.operations import Expr
from inductor.ir.program import Buffer, StridedView
from inductor.schedule.lives import extent
from inductor.schedule.nodes import views
from inductor.schedule.schedule import KernelStep, Schedule
from symshapes import is_block

Geometry = tuple[tuple[Expr, ...], tuple[Expr, ...]]
"""Size and strides, in elements."""


def relied_on(schedule: Schedule) -> frozenset[str]:
    """Buffers whose layout generated code takes for granted: those that kernels read, that are seen through strides, or
    that are given away. A result that only goes whole to other ATen calls may be as it likes."""
    found: set[str] = set()
    for step in schedule.steps:
        if isinstance(step, KernelStep):
            found |= {*step.buffers, *(source for _, source in step.loop.initial)}
            continue
        for view in views(step.op):
            buffer = schedule.program.buffers[view.buffer]
            if view.offset != 0 or (view.size, view.stride) != (buffer.size, buffer.stride):
                found.add(view.buffer)
    found |= {out.buffer for out in schedule.program.outputs if isinstance(out, StridedView)}
    # What dead memory becomes is laid out as the dead buffer was.
    return frozenset(found | set(schedule.memory.reused.values()))


def preferred_geometries(schedule: Schedule) -> dict[str, tuple[Geometry, int]]:
    """For each buffer the size and strides its tensor had best, and how often they are needed.

    Kernels only take a tensor's memory, so a buffer that ATen calls read as a matrix can be one from the start, also where another
    buffer had the memory before. What a call writes into, and what is copied, needs the buffer's own layout."""
    program = schedule.program
    needed: dict[str, Counter[Geometry]] = {name: Counter() for name in program.buffers}
    fixed: set[str] = set()

    def note(view: StridedView) -> None:
        buffer = program.buffers[view.buffer]
        whole = replace(buffer, size=view.size, stride=view.stride)
        own = (view.size, view.stride) == (buffer.size, buffer.stride)
        # A number that is repeated no times is a tensor without memory, and the kernel writes the number all the same.
        filled = product(view.size) == product(buffer.size) or all(size.is_positive for size in view.size)
        if view.offset == 0 and (own or (filled and extent(whole) == extent(buffer))):
            needed[view.buffer][view.size, view.stride] += 1

    for step in schedule.steps:
        if isinstance(step, KernelStep):
            for pair in step.loop.initial:
                fixed.update(pair)
        else:
            for view in views(step.op):
                note(view)
            fixed.update(name for name in step.op.writes if name is not None)
    for out in program.outputs:
        if isinstance(out, StridedView):
            note(out)
    result: dict[str, tuple[Geometry, int]] = {}
    for name, buffer in program.buffers.items():
        own = buffer.size, buffer.stride
        if name in fixed:
            result[name] = own, 2  # now, and whenever it is used
        else:
            result[name] = max(needed[name].items(), key=lambda item: item[1], default=(own, 0))
    for name, (geometry, uses) in [*result.items()] if schedule.memory.reused else ():
        # Nobody cares how the tensors are laid out that had its memory before.
        donor = schedule.memory.reused.get(name) if uses else None
        while donor is not None and result[donor][1] == 0 and _are_alike(program.buffers[donor], program.buffers[name]):
            result[donor] = geometry, 0
            donor = schedule.memory.reused.get(donor)
    return result


def _are_alike(one: Buffer, other: Buffer) -> bool:
    """Whether the tensor of one buffer could be made as that of the other."""
    return one.dtype is other.dtype and extent(one) == extent(other)


def is_dense(size: Sequence[Expr], stride: Sequence[Expr]) -> bool:
    """Known sizes, no holes, no overlaps, not empty, and no dimension of size 1 (whose stride could be anything)."""
    known = all(step.is_Integer and count.is_Integer and count > 1 for step, count in zip(stride, size, strict=True))
    return known and is_block(size, stride, range(len(size)), operator.eq)
