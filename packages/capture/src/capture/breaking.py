"""Code for the frames that a graph break interrupts: the operation made for real, what awaits it in its callers, the continuations.

In: a frame's code and where it stands. Out: instructions that go on from there, and for a frame that was evaluated within
another's graph a function that stands for it: it takes what the frame had, as the frame is, and is not captured.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Mapping, Sequence
from dataclasses import field
from types import CodeType, FunctionType
from typing import Any

from symshapes import dataclass

from . import _native
from ._torch import hide_from_torch_compile
from .bytecode import Handler, Instruction, assemble, build, decode
from .bytecode.dialect import current
from .errors import SkipFrame
from .foreign import Foreign, Kind
from .lifetimes import lifetimes_of
from .names import Names
from .resume import (
    body_from,
    continuation,
    entrance,
    group_end,
    is_unbound,
    names_beside,
    origin_of,
    plain_form,
    reachable,
    seen_by_super,
    stub,
    taken,
    with_others,
)
from .stretches import Finder, Place, Step, Stretch
from .tracebacks import note_replacement
from .unset_cells import checked, unset_reads, with_checks


@dataclass(frozen=True)
class Interrupted:
    """Where a frame stands: before the step at ``index``; or within it, in a call, where ``awaits``.

    ``stack`` tells values from NULLs. ``bound`` are the locals that have their values, which those need not that are not read again. What it awaits becomes the top of the stack, or must be None where ``drops``;
    where it ``hands_over``, what it calls alone holds the arguments.
    """

    code: CodeType
    globals: dict[str, Any]
    index: int
    stack: tuple[bool, ...]
    bound: frozenset[str]
    awaits: bool
    drops: bool
    hands_over: bool
    #: Where it was broken for the kind of a tensor: what of it, and the kinds of what is on the stack, and of locals.
    foreign: Foreign | None = None
    kinds: tuple[Kind, ...] = ()
    local: Mapping[str, Kind] = field(default_factory=dict)
    #: Whether it goes on in what stands in for it, which is given its own cells.
    stands_in: bool = False

    @property
    def place(self) -> Place:
        """Where it stands, as stretches have it."""
        return Place(self.stack, self.bound, self.kinds or (Kind.UNKNOWN,) * len(self.stack), self.local)


def goes_on(frame: Interrupted) -> list[Instruction]:
    """What follows where stack and locals are as they were: the step, its handlers, and calls of the continuations."""
    instructions = decode(frame.code)
    origin = origin_of(frame.code)
    if origin is not None:
        origin.index(frame.index)  # not in its set-up: it would go on as what it is itself, without an end
    elif not any(each.opname == "RESUME" for each in instructions[: frame.index]):
        raise SkipFrame("a break before the frame begins")
    return _awaiting(frame, instructions) if frame.awaits else _broken(frame, instructions)


def _broken(frame: Interrupted, instructions: list[Instruction]) -> list[Instruction]:
    """The broken step is made for real, and the stretch that begins with it."""
    plain = decode(frame.code)
    finder = Finder(plain, frame.globals)
    if frame.foreign is None:
        stretch = finder.broken(frame.index, frame.place)
    else:
        block, most = frame.foreign.block, frame.foreign.most
        stretch = finder.find(frame.index, frame.place, _read(frame, frame.index), most, broken=True, block=block)
    entry = [*_unset(stretch), *build.jump(instructions[frame.index])]
    apart = _handled_apart(frame, instructions) if len(stretch.steps) == 1 else []
    return [*entry, *_for_real(frame, instructions, plain, stretch.steps), *apart]


def _handled_apart(frame: Interrupted, instructions: list[Instruction]) -> list[Instruction]:
    """Code of its own for what handles the step's exceptions, to which its handlers lead then, where that comes back to the step with other locals.

    What goes on behind the step is given those that have values where the frame stands. All goes on as it is written then. Empty where it need not be.
    """
    group = instructions[frame.index : group_end(instructions, frame.index) + 1]
    kept = body_from(instructions, [each.handler.target for each in group if each.handler is not None])
    members = {id(each) for each in group}
    if not any(id(each) in members for each in kept):
        return []
    stored = {each.argval for each in kept if each.opname == "STORE_FAST"} & _read(frame, frame.index)
    deleted = {each.argval for each in kept if each.opname == "DELETE_FAST"}
    if stored <= frame.bound and deleted.isdisjoint(frame.bound):
        return []
    again = decode(frame.code)
    place = {id(each): at for at, each in enumerate(instructions)}
    for each in group:
        if each.handler is not None:
            target = again[place[id(each.handler.target)]]
            each.handler = Handler(target, each.handler.depth, each.handler.lasti)
    remains = body_from(again, [each.handler.target for each in group if each.handler is not None])
    return [part for each in remains for part in _as_own(frame, [each])]


def _read(frame: Interrupted, index: int) -> frozenset[str]:
    """The locals that may be read from an operation on, or that a stretch leaves alone."""
    first = seen_by_super(frame.code)
    return lifetimes_of(frame.code).read[index] | ({first} if first is not None else set())


def _unset(stretch: Stretch) -> list[Instruction]:
    return [each for name in sorted(stretch.unset) for each in (*build.load_const(None), *build.store_fast(name))]


def _for_real(
    frame: Interrupted,
    instructions: list[Instruction],
    plain: list[Instruction],
    stretch: Mapping[int, Step],
    handled: Sequence[Instruction] = (),
) -> list[Instruction]:
    """The steps of a stretch, their handlers, and calls of the continuations where they lead elsewhere.

    ``plain`` are the instructions as they were, ``handled`` other handlers that are needed.
    """
    groups = {step.start: instructions[step.start : step.end + 1] for step in stretch.values()}
    own = {id(each) for each in instructions}  # handlers may lead to other code
    inner = [i.handler.target for group in groups.values() for i in group if i.handler is not None]
    inner = [each for each in inner if id(each) in own]
    kept = body_from(instructions, [*handled, *inner])
    made: dict[int, list[Instruction]] = {}
    members = {id(each) for group in groups.values() for each in group}
    aside: list[Instruction] = []
    for step in stretch.values():
        group = groups[step.start]
        last = group[-1]
        after: list[Instruction] = []
        if step.follow is not None:
            goes_on = step.end + 1 in stretch
            if step.tells and goes_on:
                leaving = _taken(frame, plain, step.end + 1, step.follow, last, later=True)
                after = _leaves_where_held(frame, leaving[0], last)
                aside += leaving
            if not goes_on:
                after += _taken(frame, plain, step.end + 1, step.follow, last)
        if step.jump is not None:
            target, place = step.jump
            away = [] if target in stretch else _continued(frame, target, place.stack, place.bound, last)
            if last.opname == "FOR_ITER":
                away = [*current().end_for(), *(away or build.jump(instructions[target]))]
                for each in away:
                    each.positions = each.positions or last.positions
            if away:
                last.target = away[0]
                aside += away
        ahead = [
            part for each in group[:-1] for part in (plain_form(each) if each.opname == "LOAD_SPECIAL" else [each])
        ]
        made[id(group[0])] = [*ahead, *_as_own(frame, plain_form(last)), *after]
    return [*_merge(frame, instructions, kept, made, members), *aside]


def _leaves_where_held(frame: Interrupted, away: Instruction, like: Instruction) -> list[Instruction]:
    """Go on there if a graph holds the tensor on top, or one that is in it."""
    followed = [build.load_const(frame.foreign.followed)] if frame.foreign and frame.foreign.followed else []
    check = build.call_function(build.load_const(_native.is_held), build.copy(3), *followed)
    check += build.pop_jump_if("true", away)
    for each in check:
        each.handler, each.positions = like.handler, like.positions
    return check


def _as_own(frame: Interrupted, step: list[Instruction]) -> list[Instruction]:
    """The step, where it reads or empties a cell that is the function's own and handed in where it goes on: an empty one is a local without a value."""
    origin = origin_of(frame.code)
    original = frame.code if origin is None else origin.code
    read = step[0]
    if (
        (origin is None and not frame.stands_in)
        or read.opname not in ("LOAD_DEREF", "DELETE_DEREF")
        or read.argval not in original.co_cellvars
    ):
        return step
    return checked(read)


def _awaiting(frame: Interrupted, instructions: list[Instruction]) -> list[Instruction]:
    """The rest of what the step called is called, as the frame's own variable has it, in the step's place; then a stretch."""
    end = group_end(instructions, frame.index)
    group = instructions[frame.index : end + 1]
    called, plain = group[-1], decode(frame.code)
    apart = _handled_apart(frame, instructions)
    place = frame.place if frame.drops else frame.place.pushed(Kind.FOREIGN)
    stretch = Stretch({}, frozenset())
    if frame.foreign is not None and not frame.foreign.block and not frame.drops:
        handlers = [i.handler.target for i in plain[frame.index : end + 1] if i.handler is not None]
        read = _read(frame, frame.index) | _read(frame, end + 1)
        stretch = Finder(plain, frame.globals).find(
            end + 1, place, read, frame.foreign.most, broken=False, handled=handlers
        )
    steps = stretch.steps
    generated = names_beside(frame.code)
    call = _hand_over_to_inner(generated) if frame.hands_over else _call_inner(generated)
    if frame.drops:
        result = generated.own("result")
        call += [
            *build.store_fast(result),
            *build.call_function(build.load_const(_native.check_initialised), build.load_fast(result)),
            *build.pop(),
            *build.delete_fast(result),
        ]
    for each in call:
        each.positions, each.handler = called.positions, called.handler
    leaving = _taken(frame, plain, end + 1, place, called)
    if steps:
        call += _leaves_where_held(frame, leaving[0], called)
        call += build.jump(instructions[end + 1])
    handled = [i.handler.target for i in group if i.handler is not None and not apart]
    members = {id(each) for each in group}
    if frame.index not in steps and any(id(each) in members for each in body_from(instructions, handled)):
        # What handles its exceptions leads back to it.
        steps[frame.index] = Step(frame.index, end, place, None, tells=False, counts=True)
    return [*_unset(stretch), *call, *leaving, *_for_real(frame, instructions, plain, steps, handled), *apart]


def _call_inner(generated: Names) -> list[Instruction]:
    """Push what the rest of the frame within returns, which a local has as a pair: of function and arguments, and what the program's call holds meanwhile."""
    inner, held = generated.own("inner"), generated.own("held")
    return [
        *build.load_fast(inner),
        *build.delete_fast(inner),
        *build.unpack_sequence(2),
        *build.store_fast(inner),
        *build.store_fast(held),
        *_hand_over_to_inner(generated),
        *build.delete_fast(held),
    ]


def _hand_over_to_inner(generated: Names) -> list[Instruction]:
    """The same of a function and arguments, which nothing else holds meanwhile."""
    inner = generated.own("inner")
    return [
        *build.push_callable(build.load_const(_native.go_within)),
        *build.load_fast(inner),
        *build.delete_fast(inner),
        *build.call(1),
    ]


def _set_apart(code: CodeType) -> None:
    """Code that stands for a frame of the program's is nobody's to capture."""
    _native.mark_stand_in(code)
    hide_from_torch_compile(code)


@functools.cache
def passing_on(code: CodeType, which: int) -> FunctionType:
    """A function at the place of another's call with packed arguments, which gives what is called within: such a pair."""
    calls = [i for i in decode(code) if i.opname == "CALL_FUNCTION_EX"]
    generated = Names.beside(code)
    body = [*build.prologue((), ()), *_call_inner(generated), *build.return_value()]
    for each in body:
        each.positions = calls[which].positions
    names = [generated.own("inner")]
    made = assemble(body, like=code, argnames=names, varnames=names, cellvars=(), freevars=())
    _set_apart(made)
    return FunctionType(made, {"__builtins__": builtins}, code.co_name)


def _taken(
    frame: Interrupted,
    instructions: list[Instruction],
    target: int,
    place: Place,
    like: Instruction,
    *,
    later: bool = False,
) -> list[Instruction]:
    """The same as ``_continued``, after what the next operation does with the result of the one that was made for real.

    If that is dropped, it is gone before what comes next; if a local gets it, so is what the local had.
    """
    following = instructions[target]
    stack, bound = place.stack, place.bound
    taking: list[Instruction] = []
    if following.opname == "POP_TOP" and stack[-1]:
        taking = build.pop()
    elif following.opname == "STORE_FAST" and stack[-1]:
        taking, bound = build.store_fast(following.argval), bound | {following.argval}
    if not taking:
        return _continued(frame, target, stack, bound, like, later=later)
    taking[0].positions = following.positions
    return [*taking, *_continued(frame, target + 1, stack[:-1], bound, like, later=later)]


def _continued(
    frame: Interrupted,
    target: int,
    stack: tuple[bool, ...],
    bound: frozenset[str],
    like: Instruction,
    *,
    later: bool = False,
) -> list[Instruction]:
    """Call the continuation at an operation, and return what it returns."""
    code = frame.code
    then = continuation(code, target, list(stack), bound)
    origin = origin_of(code)
    original = code if origin is None else origin.code
    first_in_cell = bool(original.co_argcount) and original.co_varnames[0] in original.co_cellvars
    return stub(then, frame.globals, names_beside(code), first_in_cell, origin is not None, like, later)


def _merge(
    frame: Interrupted,
    instructions: list[Instruction],
    kept: list[Instruction],
    made: dict[int, list[Instruction]],
    members: set[int],
) -> list[Instruction]:
    """The handlers' code and what is made for real, which that may lead back to, in the program's order.

    What leads back brings the stack as evaluation has it: with a NULL below each method, never a self.
    """
    remain = {id(each) for each in kept}
    leads_back = not remain.isdisjoint(members)
    out: list[Instruction] = []
    for each in instructions:
        if id(each) in members:
            out += made.get(id(each), ())
        elif id(each) in remain:
            out += _as_own(frame, plain_form(each) if leads_back else [each])
    return out


@dataclass(frozen=True)
class StandIn:
    """What stands for an interrupted frame: a function of its first local, if that is asked for, stack values and locals.

    Of what its frame awaits as well, as a pair of function and arguments. ``free`` are its free variables.
    """

    code: CodeType
    first: str | None
    names: tuple[str, ...]
    free: tuple[str, ...]


def stand_in(frame: Interrupted) -> StandIn:
    """The function that stands for a frame that was evaluated within another's graph."""
    original = frame.code
    first, names, free = taken(original, frame.bound)
    setup, arguments = entrance(original, frame.stack, first, is_unbound(first, frame.bound, free), names, free)
    if frame.awaits:
        arguments.append(names_beside(original).own("inner"))
    body = goes_on(frame)
    known = next((each.positions for each in body if each.positions is not None), None)
    for each in (*setup, *body):
        each.positions = each.positions or known
    held = with_others(original, arguments, free)
    code = assemble([*setup, *body], like=original, argnames=arguments, varnames=held, cellvars=(), freevars=free)
    _set_apart(code)
    note_replacement(code, original)
    return StandIn(code, first, names, free)


def generator_at(frame: Interrupted) -> StandIn:
    """The same of a generator that is suspended at a yield, where ``frame`` stands: its first ``next`` leaves it there, and gives None."""
    original = frame.code
    instructions = decode(original)
    yielding = instructions[frame.index]
    begins = next(i for i, each in enumerate(instructions) if each.opname == "RESUME")
    within = {id(each) for each in instructions[begins + 1 :]}
    first, names, free = taken(original, frame.bound)
    setup, arguments = entrance(original, frame.stack, first, is_unbound(first, frame.bound, free), names, free)
    at = next(i for i, each in enumerate(setup) if each.opname == "RESUME")
    setup[at:at] = [Instruction("RETURN_GENERATOR"), *build.pop()]
    setup += [*build.load_const(None), *build.jump(yielding)]
    for each in setup:
        each.positions = yielding.positions
    body = [each for each in reachable(instructions, [yielding]) if id(each) in within]
    body = [each for part in with_checks(body, instructions, unset_reads(original)) for each in part]
    held = with_others(original, arguments, free)
    code = assemble([*setup, *body], like=original, argnames=arguments, varnames=held, cellvars=(), freevars=free)
    _set_apart(code)
    note_replacement(code, original)
    return StandIn(code, first, names, free)


def begun(generator: Any) -> Any:
    """The generator, after its first ``next``; called from generated code."""
    next(generator)
    return generator


def made_function(code: CodeType, module_globals: dict[str, Any], cells: Sequence[Any]) -> FunctionType:
    """A function with these cells for free variables; called from generated code."""
    return FunctionType(code, module_globals, code.co_name, None, tuple(cells))
