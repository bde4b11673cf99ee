"""Results that are written into the memory of an input: for which of them no copy is needed, and what begins there.

Flows in: a program whose results say which input they are the new content of, and the steps in the order they run. Flows out: for
buffers their place in an input's memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

from inductor.ir.indexing import product, same
from inductor.ir.program import ExternOp, LoopOp, Operation, Program, StridedView
from inductor.schedule.lives import adoptable, allocated, key_of, may_alias, overwrites
from inductor.schedule.moments import Moments
from inductor.schedule.nodes import mutated, views
from symshapes import dataclass

How = Literal["inplace", "adopted", "dead"]


@dataclass(frozen=True)
class Place:
    """Where a buffer lives: in the memory of `donor`, an input or a buffer that took an input's memory before.

    `how`: the kernel reads each element of the donor where it writes ("inplace"), changes a few of the donor's elements
    ("adopted"), or writes what nobody reads any more ("dead").
    """

    donor: str
    how: How


def places_in_inputs(
    program: Program, steps: Sequence[Operation], last: Mapping[str, int], moments: Moments
) -> tuple[dict[str, Place], dict[int, str]]:
    """The buffers that go into inputs' memory, and which results are there by that, with the input.

    A result goes there if nothing that runs later, or reads other elements in the same kernel, wants the input's old content, if it
    is all of its buffer, and if nobody else is given that buffer or the input.

    Args:
        last: per buffer the step after which it is dead (`lives.last_uses`).
        moments: which steps run at the same time.
    """
    places: dict[str, Place] = {}
    taken: dict[int, str] = {}
    if not program.written:
        return places, taken
    writer = {name: at for at, step in enumerate(steps) for name in allocated(step)}
    shown = Counter(out.buffer for out in program.outputs if isinstance(out, StridedView))
    held = {name for step in steps if isinstance(step, ExternOp) for name in _held(step)}
    for place, given in program.written.items():
        result = program.outputs[place]
        assert isinstance(result, StridedView)
        free = shown[given] == 0 and shown[result.buffer] == 1 and held.isdisjoint((given, result.buffer))
        if not free or result.buffer not in writer or not _is_all(program, result, given):
            continue
        line = [result.buffer]
        while donor := _adopted(program, steps, writer, last, moments, line[-1]):
            if shown[donor] or donor in held:
                break
            line.append(donor)
        # The further back the better: what is not begun in the input's memory is copied there.
        for begin in reversed(range(len(line))):
            at = writer[line[begin]]
            later = 1 if moments.read_elsewhere(at, given) else last.get(given, -1) - at
            how = _begins(program, steps[at], line[begin], given, later)
            if how is None:
                continue
            places[line[begin]] = Place(given, how)
            places |= {name: Place(donor, "adopted") for name, donor in pairwise(line[: begin + 1])}
            taken[place] = given
            break
    return places, taken


def _held(step: ExternOp) -> set[str]:
    """Buffers that the call writes to, or that its results may show."""
    found = set(mutated(step))
    return found | {view.buffer for view in views(step)} if may_alias(step) else found


def _is_all(program: Program, result: StridedView, given: str) -> bool:
    """Whether a result's buffer holds just its elements, and each where it is in the input."""
    here, there = program.buffers[result.buffer], program.buffers[given]
    return (
        result.offset == 0
        and (result.size, result.stride) == (there.size, there.stride)
        and key_of(here) == key_of(there)
        and key_of(here)[2] != 0
        and same(product(here.size), product(there.size))
    )


def _adopted(
    program: Program,
    steps: Sequence[Operation],
    writer: Mapping[str, int],
    last: Mapping[str, int],
    moments: Moments,
    name: str,
) -> str | None:
    """The buffer that `name` starts with and nobody else needs any more."""
    step = steps[writer[name]]
    source = dict(step.initial).get(name) if isinstance(step, LoopOp) else None
    if source is None or source not in writer or last[source] != writer[name]:
        return None
    if moments.read_elsewhere(writer[name], source):
        return None
    assert isinstance(step, LoopOp)
    return source if adoptable(program, step, name, source) else None


def _begins(program: Program, step: Operation, name: str, given: str, later: int) -> How | None:
    """How a step can write a buffer to the input's memory. `later`: by how many steps the input's old content outlives it."""
    if later < 0:
        return "dead"
    if later > 0 or not isinstance(step, LoopOp):
        return None
    source = dict(step.initial).get(name)
    if source == given and adoptable(program, step, name, given):
        return "adopted"
    if source not in (None, given) or sum(earlier == given for _, earlier in step.initial) != (source == given):
        return None
    if source == given and not _alike(program, name, given):
        return None
    return "inplace" if overwrites(step.body, given, name) else None


def _alike(program: Program, one: str, other: str) -> bool:
    a, b = program.buffers[one], program.buffers[other]
    return (a.size, a.stride) == (b.size, b.stride)
