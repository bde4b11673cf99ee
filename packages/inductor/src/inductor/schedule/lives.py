"""How long buffers live, and which may take over the memory of which others.

Flows in: loops and extern calls in the order they run. Flows out: answers to those who plan memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import sympy
import torch

from inductor.ir.body import Body
from inductor.ir.operations import Expr, Load, Store
from inductor.ir.program import Buffer, ExternOp, LoopOp, Operation, Program, StridedView
from inductor.levels import split
from inductor.schedule.extern import begins_with, writes_into
from inductor.schedule.nodes import views
from inductor.schedule.space import Number, number
from symshapes import facts_if_operator

Key = tuple[torch.device, torch.dtype, Number]


def last_uses(program: Program, steps: Sequence[Operation]) -> dict[str, int]:
    """Per buffer the step after which it is dead; beyond the last one for outputs and for constants, which stay."""
    last: dict[str, int] = {}
    for at, step in enumerate(steps):
        for name in step.writes:
            if name is not None:
                last[name] = at
        last.update(dict.fromkeys(reads(step), at))
    for out in program.outputs:
        if isinstance(out, StridedView):
            last[out.buffer] = len(steps)
    for name in program.constants:
        last[name] = len(steps)
    return last


def reads(step: Operation) -> set[str]:
    """Buffers that a step reads, or starts others with."""
    if isinstance(step, LoopOp):
        return {load.buffer for load in step.body.loads()} | {source for _, source in step.initial}
    return {view.buffer for view in views(step)}


def allocated(step: Operation) -> Sequence[str]:
    """Buffers that the wrapper allocates for a step; other extern results come from the call itself."""
    if isinstance(step, LoopOp):
        return step.writes
    if writes_into(step):
        return [name for name in step.writes if name is not None]
    return [name for name, _ in begins_with(step)]


def extent(buffer: Buffer) -> Number:
    """Elements of memory that a buffer spans; 0 where it is empty."""
    return _extent(buffer.size, buffer.stride)


@lru_cache(maxsize=1 << 14)
def _extent(sizes: tuple[Expr, ...], strides: tuple[Expr, ...]) -> Number:
    if any(size == 0 for size in sizes):
        return 0
    total = sympy.Add(1, *((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)))
    return number(sympy.expand(total))


def key_of(buffer: Buffer) -> Key:
    """What has to be equal of two buffers for one to take the other's memory."""
    return buffer.device, buffer.dtype, extent(buffer)


def overwrites(body: Body, read: str, written: str) -> bool:
    """Whether a kernel may write `written` into the memory of `read`: each element is read at the point that writes it,
    and not in a later walk over the inner space."""
    stores = [(at, op) for at, op in enumerate(body.ops) if isinstance(op, Store) and op.buffer == written]
    loads = {at: op for at, op in enumerate(body.ops) if isinstance(op, Load) and op.buffer == read}
    if len(stores) != 1 or not loads:
        return False
    place, store = stores[0]
    if store.mode is not None or any(load.index != store.index for load in loads.values()):
        return False
    if not body.indirects().keys().isdisjoint(store.index.free_symbols):
        return False
    levels = split(body)
    moments = [levels.outer[0]]
    for k, walk in enumerate(levels.passes):
        moments += [walk.ops, levels.outer[k + 1]]
    written_at = next(k for k, moment in enumerate(moments) if place in moment)
    return not any(loads.keys() & moment for moment in moments[written_at + 1 :])


def adoptable(program: Program, step: LoopOp, name: str, source: str) -> bool:
    """Whether a buffer can become another's start without a copy: nothing else in the kernel sees the old content."""
    here, there = program.buffers[name], program.buffers[source]
    return (
        (here.size, here.stride) == (there.size, there.stride)
        and sum(earlier == source for _, earlier in step.initial) == 1
        and all(load.buffer != source for load in step.body.loads())
    )


def given_up(program: Program, step: ExternOp, name: str) -> str | None:
    """The buffer whose content a call starts `name` with, if its memory can be had as it is: nothing else in the call reads it."""
    view = dict(begins_with(step)).get(name)
    if view is None or sum(other.buffer == view.buffer for other in views(step)) != 1:
        return None
    here, there = program.buffers[name], program.buffers[view.buffer]
    geometry = here.size, here.stride
    whole = view.offset == 0 and (view.size, view.stride) == geometry == (there.size, there.stride)
    return view.buffer if whole else None


def may_alias(step: ExternOp) -> bool:
    """Whether a result of the call may be (part of) the memory of an argument."""
    facts = facts_if_operator(step.target)
    return facts is None or facts.aliases or facts.hides_views or any(number >= 0 for number in facts.returns_written)
