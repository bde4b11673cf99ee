"""Memory planning: which buffer lives in which other's memory, and when each name is dropped.

Flows in: loops and extern calls in the order they run. Flows out: `MemoryPlan`, for the wrapper (allocations, `del`s) and
for the kernels (in-place arguments).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from inductor.ir.program import ExternOp, LoopOp, Operation, Program, StridedView
from inductor.options import Options
from inductor.schedule.extern import returns_fresh
from inductor.schedule.input_memory import places_in_inputs
from inductor.schedule.lives import (
    Key,
    adoptable,
    allocated,
    extent,
    given_up,
    key_of,
    last_uses,
    may_alias,
    overwrites,
)
from inductor.schedule.moments import Moments
from inductor.schedule.nodes import mutated, private_inputs, views
from inductor.schedule.space import estimate
from symshapes import dataclass


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


def plan_memory(
    program: Program, steps: Sequence[Operation], options: Options, together: Sequence[range] = ()
) -> MemoryPlan:
    """Plan the memory of `steps`' buffers.

    Args:
        together: ranges of steps that run at the same time.
    """
    plan = MemoryPlan(frees=[[] for _ in steps])
    last = last_uses(program, steps)
    moments = Moments(steps, together)
    owned: set[str] = set()
    """Buffers in memory this graph allocates, which nothing else can hold a view of."""
    dead: list[list[str]] = [[] for _ in steps]
    """Per step, those of them that are dead after it and whose memory nobody has taken over in the step they die in."""
    at_end: dict[int, list[str]] = {}
    for name, at in last.items():
        at_end.setdefault(at, []).append(name)
    if options.inplace:
        places, plan.written = places_in_inputs(program, steps, last, moments)
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
            dying = [n for n in free if key_of(program.buffers[n]) == key and not moments.read_elsewhere(at, n)]
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
                plan.reused[name] = donor
            owned.add(name)
        if isinstance(step, ExternOp):
            _note_extern(step, owned)
        dead[moments.end(at)] += [name for name in at_end.get(at, ()) if name in owned and name not in taken]
    if options.reuse_memory:
        _reuse(program, steps, plan, dead, _Room(program, steps, last, plan, moments), options.reuse_window)
    given = set(plan.reused.values())
    for name, at in last.items():
        if at < len(steps) and name not in given:
            plan.frees[moments.end(at)].append(name)
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
        for name in allocated(step):
            key = key_of(program.buffers[name])
            waiting = pool.get(key)
            if name in plan.reused or not waiting or key[2] == 0:
                continue
            died, donor = waiting[-1]
            if at - died <= window and room.hold(donor, died + 1, at):
                waiting.pop()
                plan.reused[name] = donor
        for name in dead[at]:
            pool.setdefault(key_of(program.buffers[name]), []).append((at, name))


class _Room:
    """The bytes that are taken at each step, and at most: what is held for later must not add to that."""

    def __init__(
        self,
        program: Program,
        steps: Sequence[Operation],
        last: Mapping[str, int],
        plan: MemoryPlan,
        moments: Moments,
    ) -> None:
        self.program = program
        self.taken = [0] * len(steps)
        # Of what the graph is given, others hold some, as parameters: that is there at all steps alike.
        born = dict.fromkeys(private_inputs(program), 0)
        for at, step in enumerate(steps):
            for written in step.writes:
                if written is not None:
                    born.setdefault(written, moments.begin(at))
        donors = set(plan.reused.values())
        given = {name for name in program.inputs if isinstance(name, str)}
        for name, start in born.items():
            if name not in last or _first(plan, name) in given - born.keys():
                continue  # nobody reads it, and it is let go of before the first step; or others hold the memory
            # Who takes a buffer over in the step that it dies in has its bytes from that step on.
            end = moments.begin(last[name]) if name in donors else moments.end(last[name]) + 1
            self._add(name, start, min(end, len(steps)))
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


def _first(plan: MemoryPlan, name: str) -> str:
    """The buffer whose memory a buffer has, by way of all that had it between."""
    while name in plan.reused:
        name = plan.reused[name]
    return name


def _private(program: Program, plan: MemoryPlan, owned: set[str]) -> frozenset[str]:
    """`owned`: buffers in memory that the graph allocates, as long as no other call may have kept a view."""
    seen = {
        out.buffer
        for at, out in enumerate(program.outputs)
        if isinstance(out, StridedView) and at not in program.private_outputs
    }

    shared = {
        _first(plan, name) for name in (*seen, *plan.reused, *plan.reused.values()) if name in seen or name not in owned
    }
    return frozenset(owned - plan.reused.keys() - shared)


def _note_extern(step: ExternOp, owned: set[str]) -> None:
    aliases = may_alias(step)
    for view in views(step):
        if aliases:  # the result may be a view of it, and outlive it
            owned.discard(view.buffer)
    owned.difference_update(mutated(step))
    if returns_fresh(step):
        owned.update(name for name in step.writes if name is not None)
