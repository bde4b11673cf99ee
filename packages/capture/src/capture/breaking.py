"""Code for the frames that a graph break interrupts: the operation made for real, what awaits it in its callers, the continuations.

In: a frame's code and where it stands. Out: instructions that go on from there, and for a frame that was evaluated within
another's graph a function that stands for it: it takes what the frame had, as the frame is, and is not captured.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Sequence
from types import CellType, CodeType, FunctionType
from typing import Any

from symshapes import dataclass

from . import _native
from ._torch import hide_from_torch_compile
from .bytecode import Instruction, assemble, build, decode
from .bytecode.dialect import current
from .errors import SkipFrame
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
    stack_after,
    stub,
    taken,
)
from .tracebacks import note_replacement

_NO_FALL_THROUGH_STUB = frozenset(
    {"RAISE_VARARGS", "RERAISE", "RETURN_VALUE", "RETURN_CONST"}
    | {"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"}
)


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


def goes_on(frame: Interrupted) -> list[Instruction]:
    """What follows where stack and locals are as they were: the step, its handlers, and calls of the continuations."""
    instructions = decode(frame.code)
    origin = origin_of(frame.code)
    if origin is not None:
        origin.index(frame.index)  # not in its set-up: it would go on as what it is itself, without an end
    elif not any(each.opname == "RESUME" for each in instructions[: frame.index]):
        raise SkipFrame("a break before the frame begins")
    end = group_end(instructions, frame.index)
    group = instructions[frame.index : end + 1]
    handled = [i.handler.target for i in group if i.handler is not None]
    kept = body_from(instructions, handled)
    return _awaiting(frame, instructions, group, kept) if frame.awaits else _broken(frame, instructions, group, kept)


def _broken(
    frame: Interrupted, instructions: list[Instruction], group: list[Instruction], kept: list[Instruction]
) -> list[Instruction]:
    """The broken step is made for real."""
    start, broken = group[0], group[-1]
    end = frame.index + len(group) - 1
    plain = decode(frame.code)
    follow: list[Instruction] = []
    jumped: list[Instruction] = []

    def make(target: int, jump: bool) -> list[Instruction]:
        stack, bound = _after(frame, plain, jump)
        return (
            _continued(frame, target, stack, bound, broken)
            if jump
            else _taken(frame, plain, target, stack, bound, broken)
        )

    if broken.opname not in _NO_FALL_THROUGH_STUB:
        follow = make(end + 1, False)
    if broken.target is not None:
        target = next(i for i, x in enumerate(instructions) if x is broken.target)
        if broken.opname == "FOR_ITER":
            jumped = [*current().end_for(), *make(target + len(current().end_for()), True)]
        else:
            jumped = make(target, True)
        broken.target = jumped[0]
    ahead = [part for each in group[:-1] for part in (plain_form(each) if each.opname == "LOAD_SPECIAL" else [each])]
    step = [*ahead, *_as_own(frame, plain_form(broken)), *follow]
    return [*build.jump(start), *_merge(kept, group, step), *jumped]


def _as_own(frame: Interrupted, step: list[Instruction]) -> list[Instruction]:
    """The step, where it reads or empties a cell that is the function's own and handed in where it goes on: an empty one is a local without a value."""
    origin = origin_of(frame.code)
    read = step[0]
    if (
        origin is None
        or read.opname not in ("LOAD_DEREF", "DELETE_DEREF")
        or read.argval not in origin.code.co_cellvars
    ):
        return step
    name = read.argval
    check = build.call_function(build.load_const(check_bound), build.load_closure(name), build.load_const(name))
    check += build.pop()
    # Jumps to the operation find this first.
    again = Instruction(read.opname, argval=name)
    read.opname, read.arg, read.argval = "NOP", None, None
    for each in (*check, again):
        each.handler, each.positions = read.handler, read.positions
    return [read, *check, again]


def _awaiting(
    frame: Interrupted, instructions: list[Instruction], group: list[Instruction], kept: list[Instruction]
) -> list[Instruction]:
    """The rest of what the step called is called, as the frame's own variable has it, in the step's place."""
    called, end = group[-1], frame.index + len(group) - 1
    stack = list(frame.stack) if frame.drops else [*frame.stack, True]
    follow = _taken(frame, decode(frame.code), end + 1, stack, frame.bound, called)
    generated = names_beside(frame.code)
    call = _hand_over_to_inner(generated) if frame.hands_over else _call_inner(generated)
    if frame.drops:
        result = generated.own("result")
        call += [
            *build.store_fast(result),
            *build.call_function(build.load_const(check_initialised), build.load_fast(result)),
            *build.pop(),
            *build.delete_fast(result),
        ]
    for each in call:
        each.positions, each.handler = called.positions, called.handler
    members = {id(each) for each in group}
    if not any(id(each) in members for each in kept):
        return [*call, *follow, *kept]
    step = [part for each in group for part in (plain_form(each) if each.opname == "LOAD_SPECIAL" else [each])]
    step[-1:] = [*plain_form(group[-1]), *follow]
    return [*call, *build.jump(follow[0]), *_merge(kept, group, step)]


def _call_inner(generated: Names) -> list[Instruction]:
    """Push what the rest of the frame within returns, which a local has as a pair of function and arguments."""
    inner, args = generated.own("inner"), generated.own("args")
    return [
        *build.load_fast(inner),
        *build.delete_fast(inner),
        *build.unpack_sequence(2),
        *build.store_fast(inner),
        *build.store_fast(args),
        *build.push_callable(build.load_fast(inner)),
        *build.load_fast(args),
        *build.delete_fast(inner),
        *build.delete_fast(args),
        *build.call_packed(),
    ]


def _hand_over_to_inner(generated: Names) -> list[Instruction]:
    """The same, where nothing else holds the arguments meanwhile."""
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
    """A function at the place of another's call with packed arguments, which gives what is called within: a pair as above."""
    calls = [i for i in decode(code) if i.opname == "CALL_FUNCTION_EX"]
    generated = Names.beside(code)
    body = [*build.prologue((), ()), *_call_inner(generated), *build.return_value()]
    for each in body:
        each.positions = calls[which].positions
    names = [generated.own("inner")]
    made = assemble(body, like=code, argnames=names, varnames=names, cellvars=(), freevars=())
    _set_apart(made)
    return FunctionType(made, {"__builtins__": builtins}, code.co_name)


def check_initialised(result: Any) -> None:
    """What ``type.__call__`` says of what ``__init__`` returns."""
    if result is not None:
        raise TypeError(f"__init__() should return None, not '{type(result).__name__}'")


def check_bound(cell: CellType, name: str) -> None:
    """What reading a function's own variable says where it has no value."""
    if cell == CellType():  # as no other is, whatever it holds
        raise UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")


def _after(frame: Interrupted, instructions: list[Instruction], jump: bool) -> tuple[list[bool], frozenset[str]]:
    """The stack after the broken step, and the locals that are bound then."""
    op, before = instructions[group_end(instructions, frame.index)], list(frame.stack)
    if op.opname == "MAKE_CELL":  # a comprehension's, in the place of the cell that is put aside
        return [*before, True], frame.bound
    if op.opname == "LOAD_FAST_AND_CLEAR":
        return [*before, op.argval in frame.bound], frame.bound - {op.argval}
    stack = stack_after(instructions, frame.index, before, jump)
    if op.opname == "STORE_FAST" and before[-1]:
        return stack, frame.bound | {op.argval}
    unbinds = op.opname in ("STORE_FAST", "DELETE_FAST")
    return stack, frame.bound - {op.argval} if unbinds else frame.bound


def _taken(
    frame: Interrupted,
    instructions: list[Instruction],
    target: int,
    stack: list[bool],
    bound: frozenset[str],
    like: Instruction,
) -> list[Instruction]:
    """The same as ``_continued``, after what the next operation does with the result of the one that was made for real.

    If that is dropped, it is gone before what comes next; if a local gets it, so is what the local had.
    """
    following = instructions[target]
    taking: list[Instruction] = []
    if following.opname == "POP_TOP" and stack[-1]:
        taking = build.pop()
    elif following.opname == "STORE_FAST" and stack[-1]:
        taking, bound = build.store_fast(following.argval), bound | {following.argval}
    if not taking:
        return _continued(frame, target, stack, bound, like)
    taking[0].positions = following.positions
    return [*taking, *_continued(frame, target + 1, stack[:-1], bound, like)]


def _continued(
    frame: Interrupted, target: int, stack: list[bool], bound: frozenset[str], like: Instruction
) -> list[Instruction]:
    """Call the continuation at an operation, and return what it returns."""
    code = frame.code
    then = continuation(code, target, stack, bound)
    origin = origin_of(code)
    original = code if origin is None else origin.code
    first_in_cell = bool(original.co_argcount) and original.co_varnames[0] in original.co_cellvars
    return stub(then, frame.globals, names_beside(code), first_in_cell, origin is not None, like)


def _merge(kept: list[Instruction], group: list[Instruction], step: list[Instruction]) -> list[Instruction]:
    """The handlers' code with the broken step put in front, or in its place if they lead back to it.

    What leads back brings the stack as evaluation has it: with a NULL below each method, never a self.
    """
    members = {id(i) for i in group}
    if not any(id(i) in members for i in kept):
        return [*step, *kept]
    out: list[Instruction] = []
    placed = False
    for instruction in kept:
        if id(instruction) in members:
            if not placed:
                out.extend(step)
                placed = True
        else:
            out.extend(plain_form(instruction))
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
    code = assemble([*setup, *body], like=original, argnames=arguments, varnames=arguments, cellvars=(), freevars=free)
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
    code = assemble([*setup, *body], like=original, argnames=arguments, varnames=arguments, cellvars=(), freevars=free)
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
