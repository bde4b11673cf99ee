"""Memory planning: which buffer lives in which other's memory, and when each name is dropped.

Flows in: loops and extern calls in the order they run. Flows out: `MemoryPlan`, for the wrapper (allocations, `del`s) and
for the kernels (in-place arguments).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import sympy
import torch

from inductor.ir.body import Body
from inductor.ir.operations import Expr, Load, Store
from inductor.ir.program import Buffer, ExternOp, LoopOp, Operation, Program, StridedView
from inductor.levels import split
from inductor.options import Options
from inductor.schedule.extern import returns_fresh, writes_into
from inductor.schedule.nodes import mutated, views
from inductor.schedule.space import Number, estimate, number
from symshapes import facts_if_operator

Key = tuple[torch.device, torch.dtype, Number]


@dataclass
class MemoryPlan:
    """Where buffers live."""

    reused: dict[str, str] = field(default_factory=dict)
    """Buffer to the dead one whose memory it takes."""
    inplace: dict[int, dict[str, str]] = field(default_factory=dict)
    """Per step, written buffer to the input it overwrites."""
    adopted: dict[int, dict[str, str]] = field(default_factory=dict)
    """Per step, written buffer to the dying one whose content it starts with (`LoopOp.initial` without a copy)."""
    frees: list[list[str]] = field(default_factory=list)
    """Per step the names to drop after it."""
    private: frozenset[str] = frozenset()
    """Buffers in memory of their own that nobody sees but this graph and those its private outputs go to, whoever takes it over."""


def plan_memory(program: Program, steps: Sequence[Operation], options: Options) -> MemoryPlan:
    """Plan the memory of `steps`' buffers."""
    plan = MemoryPlan(frees=[[] for _ in steps])
    last = _last_uses(program, steps)
    owned: set[str] = set()
    """Buffers in memory this graph allocates, which nothing else can hold a view of."""
    dead: list[list[str]] = []
    """Per step, those of them that die there and whose memory it does not take over itself."""
    at_end: dict[int, list[str]] = {}
    for name, at in last.items():
        at_end.setdefault(at, []).append(name)

    for at, step in enumerate(steps):
        taken: set[str] = set()
        for name in _allocated(step):
            key = _key(program.buffers[name])
            dying = [n for n in at_end.get(at, ()) if n in owned and n not in taken and _key(program.buffers[n]) == key]
            if isinstance(step, LoopOp) and dying and key[2] != 0:
                donor = None
                source = dict(step.initial).get(name)
                if source is not None:
                    if source in dying and _adoptable(program, step, name, source):
                        donor = source
                        plan.adopted.setdefault(at, {})[name] = donor
                elif options.inplace:
                    donor = next((n for n in dying if overwrites(step.body, n, name)), None)
                    if donor is not None:
                        plan.inplace.setdefault(at, {})[name] = donor
                if donor is not None:
                    taken.add(donor)
                    plan.reused[name] = donor
            owned.add(name)
        if isinstance(step, ExternOp):
            _note_extern(step, owned)
        dead.append([name for name in at_end.get(at, ()) if name in owned and name not in taken])
    if options.reuse_memory:
        _reuse(program, steps, plan, dead, _Room(program, steps, last, plan), options.reuse_window)
    given = set(plan.reused.values())
    for name, at in last.items():
        if at < len(steps) and name not in given:
            plan.frees[max(at, 0)].append(name)
    plan.private = _private(program, plan, owned)
    return plan


def _reuse(
    program: Program,
    steps: Sequence[Operation],
    plan: MemoryPlan,
    dead: Sequence[Sequence[str]],
    room: _Room,
    window: int,
) -> None:
    """Give dead buffers' memory to later ones, which it is held for meanwhile; a buffer that died long ago is better given back."""
    pool: dict[Key, list[tuple[int, str]]] = {}
    """Dead buffers, by when they died."""
    for at, step in enumerate(steps):
        for name in _allocated(step):
            key = _key(program.buffers[name])
            waiting = pool.get(key)
            if name in plan.reused or not waiting or key[2] == 0:
                continue
            died, donor = waiting[-1]
            if at - died <= window and room.hold(donor, died + 1, at):
                waiting.pop()
                plan.reused[name] = donor
        for name in dead[at]:
            pool.setdefault(_key(program.buffers[name]), []).append((at, name))


class _Room:
    """The bytes that are taken at each step, and at most: what is held for later must not add to that."""

    def __init__(self, program: Program, steps: Sequence[Operation], last: Mapping[str, int], plan: MemoryPlan) -> None:
        self.program = program
        self.taken = [0] * len(steps)
        # Of what the graph is given, others hold some, as parameters: that is there at all steps alike.
        born = {
            name: 0 for at, name in enumerate(program.inputs) if at in program.private_inputs and isinstance(name, str)
        }
        for at, step in enumerate(steps):
            for written in step.writes:
                if written is not None:
                    born.setdefault(written, at)
        donors = set(plan.reused.values())
        for name, start in born.items():
            # Who takes a buffer over in the step that it dies in has its bytes from that step on.
            self._add(name, start, min(last[name] + (name not in donors), len(steps)))
        self.most = max(self.taken, default=0)

    def hold(self, name: str, start: int, end: int) -> bool:
        """Whether a buffer's memory can be held from one step to before another; it is then."""
        if start < end:
            if self._bytes(name) + max(self.taken[start:end]) > self.most:
                return False
            self._add(name, start, end)
        return True

    def _add(self, name: str, start: int, end: int) -> None:
        bytes = self._bytes(name)
        for at in range(start, end):
            self.taken[at] += bytes

    def _bytes(self, name: str) -> int:
        buffer = self.program.buffers[name]
        return estimate(extent(buffer)) * buffer.dtype.itemsize


def _private(program: Program, plan: MemoryPlan, owned: set[str]) -> frozenset[str]:
    """`owned`: buffers in memory that the graph allocates, as long as no other call may have kept a view."""
    seen = {
        out.buffer
        for at, out in enumerate(program.outputs)
        if isinstance(out, StridedView) and at not in program.private_outputs
    }

    def first(name: str) -> str:
        while name in plan.reused:
            name = plan.reused[name]
        return name

    shared = {first(name) for name in (*seen, *plan.reused, *plan.reused.values()) if name in seen or name not in owned}
    return frozenset(owned - plan.reused.keys() - shared)


def _adoptable(program: Program, step: LoopOp, name: str, source: str) -> bool:
    """Whether a buffer can become another's start without a copy: nothing else in the kernel sees the old content."""
    here, there = program.buffers[name], program.buffers[source]
    return (
        (here.size, here.stride) == (there.size, there.stride)
        and sum(earlier == source for _, earlier in step.initial) == 1
        and all(load.buffer != source for load in step.body.loads())
    )


def _note_extern(step: ExternOp, owned: set[str]) -> None:
    facts = facts_if_operator(step.target)
    aliases = (
        facts is None or facts.aliases or facts.hides_views or any(number >= 0 for number in facts.returns_written)
    )
    for view in views(step):
        if aliases:  # the result may be a view of it, and outlive it
            owned.discard(view.buffer)
    owned.difference_update(mutated(step))
    if returns_fresh(step):
        owned.update(name for name in step.writes if name is not None)


def _allocated(step: Operation) -> Sequence[str]:
    """Buffers that the wrapper allocates for a step; other extern results come from the call itself."""
    if isinstance(step, LoopOp):
        return step.writes
    return [name for name in step.writes if name is not None] if writes_into(step) else ()


def _last_uses(program: Program, steps: Sequence[Operation]) -> dict[str, int]:
    """Per buffer the step after which it is dead; beyond the last one for outputs and for constants, which stay."""
    last: dict[str, int] = {}
    for at, step in enumerate(steps):
        for name in step.writes:
            if name is not None:
                last[name] = at
        if isinstance(step, LoopOp):
            for load in step.body.loads():
                last[load.buffer] = at
            for _, source in step.initial:
                last[source] = at
        else:
            for view in views(step):
                last[view.buffer] = at
    for out in program.outputs:
        if isinstance(out, StridedView):
            last[out.buffer] = len(steps)
    for name in program.constants:
        last[name] = len(steps)
    return last


def extent(buffer: Buffer) -> Number:
    """Elements of memory that a buffer spans; 0 where it is empty."""
    return _extent(buffer.size, buffer.stride)


@lru_cache(maxsize=1 << 14)
def _extent(sizes: tuple[Expr, ...], strides: tuple[Expr, ...]) -> Number:
    if any(size == 0 for size in sizes):
        return 0
    total = sympy.Add(1, *((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)))
    return number(sympy.expand(total))


def _key(buffer: Buffer) -> Key:
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
