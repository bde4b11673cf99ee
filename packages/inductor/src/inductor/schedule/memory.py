"""Memory planning: which buffer lives in which other's memory, and when each name is dropped.

Flows in: loops and extern calls in the order they run. Flows out: `MemoryPlan`, for the wrapper (allocations, `del`s) and
for the kernels (in-place arguments).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from inductor.ir.program import ExternOp, LoopOp, Operation, Program, StridedView
from inductor.options import Options
from inductor.schedule.extern import returns_fresh
from inductor.schedule.input_memory import places_in_inputs
from inductor.schedule.lives import Key, adoptable, allocated, given_up, key_of, last_uses, may_alias, overwrites
from inductor.schedule.nodes import mutated, views


@dataclass
class MemoryPlan:
    """Where buffers live."""

    reused: dict[str, str] = field(default_factory=dict)
    """Buffer to the dead one whose memory it takes."""
    inplace: dict[int, dict[str, str]] = field(default_factory=dict)
    """Per step, written buffer to the input it overwrites."""
    adopted: dict[int, dict[str, str]] = field(default_factory=dict)
    """Per step, written buffer to the dying one whose content it starts with (`LoopOp.initial` without a copy, or of an extern
    call that works in its arguments' memory)."""
    frees: list[list[str]] = field(default_factory=list)
    """Per step the names to drop after it."""
    private: frozenset[str] = frozenset()
    """Buffers in memory of their own that nobody sees but this graph and those its private outputs go to, whoever takes it over."""
    written: dict[int, str] = field(default_factory=dict)
    """Outputs that are written into an input's memory as they are computed, with the input."""


def plan_memory(program: Program, steps: Sequence[Operation], options: Options) -> MemoryPlan:
    """Plan the memory of `steps`' buffers."""
    plan = MemoryPlan(frees=[[] for _ in steps])
    last = last_uses(program, steps)
    owned: set[str] = set()
    """Buffers in memory this graph allocates, which nothing else can hold a view of."""
    pool: dict[Key, list[tuple[int, str]]] = {}
    """Dead buffers, by when they died."""
    at_end: dict[int, list[str]] = {}
    for name, at in last.items():
        at_end.setdefault(at, []).append(name)
    if options.inplace:
        places, plan.written = places_in_inputs(program, steps, last)
    else:
        places = {}
    reserved = {place.donor for place in places.values()}

    for at, step in enumerate(steps):
        taken: set[str] = set()
        for name in allocated(step):
            place = places.get(name)
            if place is not None:
                taken.add(place.donor)
                plan.reused[name] = place.donor
                if place.how != "dead":
                    {"inplace": plan.inplace, "adopted": plan.adopted}[place.how].setdefault(at, {})[name] = place.donor
                owned.add(name)
                continue
            key = key_of(program.buffers[name])
            donor = None
            free = (n for n in at_end.get(at, ()) if n in owned and n not in taken and n not in reserved)
            dying = [n for n in free if key_of(program.buffers[n]) == key]
            if isinstance(step, ExternOp) and dying and key[2] != 0:
                source = given_up(program, step, name)
                if source in dying:
                    donor = source
                    plan.adopted.setdefault(at, {})[name] = donor
            elif isinstance(step, LoopOp) and dying and key[2] != 0:
                source = dict(step.initial).get(name)
                if source is not None:
                    if source in dying and adoptable(program, step, name, source):
                        donor = source
                        plan.adopted.setdefault(at, {})[name] = donor
                elif options.inplace:
                    donor = next((n for n in dying if overwrites(step.body, n, name)), None)
                    if donor is not None:
                        plan.inplace.setdefault(at, {})[name] = donor
            if donor is not None:
                taken.add(donor)
            elif options.reuse_memory and key[2] != 0 and at - _latest(pool.get(key)) <= options.reuse_window:
                # (A buffer that died long ago is better given back meanwhile, for others to use.)
                donor = pool[key].pop()[1]
            if donor is not None:
                plan.reused[name] = donor
            owned.add(name)
        if isinstance(step, ExternOp):
            _note_extern(step, owned)
        for name in at_end.get(at, ()):
            if name in owned and name not in taken:
                pool.setdefault(key_of(program.buffers[name]), []).append((at, name))
    given = set(plan.reused.values())
    for name, at in last.items():
        if at < len(steps) and name not in given:
            plan.frees[max(at, 0)].append(name)
    plan.private = _private(program, plan, owned)
    return plan


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


def _latest(dead: list[tuple[int, str]] | None) -> float:
    """When the last of these died."""
    return dead[-1][0] if dead else -math.inf


def _note_extern(step: ExternOp, owned: set[str]) -> None:
    aliases = may_alias(step)
    for view in views(step):
        if aliases:  # the result may be a view of it, and outlive it
            owned.discard(view.buffer)
    owned.difference_update(mutated(step))
    if returns_fresh(step):
        owned.update(name for name in step.writes if name is not None)
