"""Graph breaks as code: the rest of a frame after a broken operation, as a function of the live values.

A replacement runs the graph, restores the state, runs the operation for real, and calls a resume function, which is
captured in turn. A resume function that breaks again does not nest: it returns a ``TailCall`` to the first frame.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FunctionType
from typing import Any

from symshapes import dataclass

from . import _native
from .bytecode import Instruction, Positions, assemble, build, decode, falls_through, stack_effect
from .bytecode.dialect import current, special_methods
from .errors import SkipFrame
from .identity_map import IdentityMap
from .later import Later
from .lifetimes import lifetimes_of
from .names import Names
from .trace_rules import are_of_module
from .unset_cells import unset_reads, with_checks

_FRAME_SETUP = frozenset({"COPY_FREE_VARS", "RESUME", "RETURN_GENERATOR"})
#: Operations that are one step with the next.
_PREFIXES = frozenset({"KW_NAMES", "PRECALL", "TO_BOOL"})

#: How many values an operation leaves on the stack that were not there before; others leave one.
_PUSHES: dict[str, int] = {
    **dict.fromkeys(
        (
            "STORE_ATTR", "STORE_SUBSCR", "STORE_SLICE", "STORE_GLOBAL", "STORE_DEREF", "STORE_FAST", "STORE_NAME",
            "DELETE_ATTR", "DELETE_SUBSCR", "DELETE_GLOBAL", "DELETE_DEREF", "DELETE_FAST", "LIST_EXTEND",
            "SET_UPDATE", "DICT_UPDATE", "DICT_MERGE", "LIST_APPEND", "SET_ADD", "MAP_ADD", "POP_TOP",
            "RAISE_VARARGS", "RERAISE", "RETURN_VALUE", "JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP", "IMPORT_STAR",
            "END_FOR", "POP_ITER", "NOT_TAKEN", "POP_EXCEPT", "NOP", "RESUME", "JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT",
        ),
        0,
    ),
    "BEFORE_WITH": 2,
}  # fmt: skip

#: Operations that may be run for real at a break although they pushed a NULL: they are split.
_METHOD_FORMS = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_SUPER_ATTR"})


class TailCall(tuple[Any, ...]):
    """``(function, args)``: what a resume function asks its first frame to call next."""

    __slots__ = ()


@dataclass(frozen=True)
class ResumeOrigin:
    """Where a resume function's code comes from: index ``offset + i`` in it is index ``kept[i]`` in ``code``."""

    original: weakref.ref[CodeType]
    kept: tuple[int, ...]
    offset: int
    #: The index in ``code`` where it goes on.
    at: int

    @property
    def code(self) -> CodeType:
        """The code of the frame that was broken."""
        code = self.original()
        if code is None:
            raise SkipFrame("the function that this is the rest of is gone")
        return code

    def index(self, own: int) -> int:
        """The original's index of an operation."""
        at = own - self.offset
        if not 0 <= at < len(self.kept):
            raise SkipFrame("a break in the set-up of a resume function")
        return self.kept[at]


# Weak, so that a function that is no longer used takes its captures (and the modules they guard) with it.
_origins: IdentityMap[CodeType, ResumeOrigin] = IdentityMap()
_functions: IdentityMap[CodeType, dict[tuple[Any, ...], CodeType]] = IdentityMap()
#: For each code one like it, by which what goes on is made.
_alike: IdentityMap[CodeType, CodeType] = IdentityMap()


def reset_resumes() -> None:
    """Forget resume functions."""
    _origins.clear()
    _functions.clear()
    _alike.clear()


def origin_of(code: CodeType) -> ResumeOrigin | None:
    """Not None for the code of a resume function."""
    return _origins.get(code)


def group_end(instructions: Sequence[Instruction], index: int) -> int:
    """The last operation of the step that starts at ``index``: a call includes its keyword names, a jump what it tests."""
    while goes_with_next(instructions, index):
        index += 1
    return index


#: From 3.14: LOAD_SPECIAL, SWAP, SWAP, LOAD_SPECIAL, CALL.
OPERATIONS_OF_WITH = 5


def begins_with(instructions: Sequence[Instruction], index: int) -> bool:
    """Whether a ``with`` begins here (from 3.14), by finding the method that ends it."""
    each = instructions[index]
    return each.opname == "LOAD_SPECIAL" and special_methods()[each.arg or 0] in ("__exit__", "__aexit__")


def goes_with_next(instructions: Sequence[Instruction], index: int) -> bool:
    """Whether an operation is one step with the next: between them is what no code that goes on could be given.

    That is a comprehension's variable while the cell of its name is put aside and none is in its place, and a function
    without its closure. And what a ``with`` begins with is one thing to the program.
    """
    if any(begins_with(instructions, at) for at in range(max(0, index - OPERATIONS_OF_WITH + 2), index + 1)):
        return True
    opname = instructions[index].opname
    if opname in _PREFIXES:
        return True
    following = instructions[index + 1].opname if index + 1 < len(instructions) else ""
    return following == {"LOAD_FAST_AND_CLEAR": "MAKE_CELL"}.get(opname, "SET_FUNCTION_ATTRIBUTE")


def stack_effects(
    instructions: Sequence[Instruction], index: int, before: list[bool], jump: bool
) -> tuple[int, list[bool]]:
    """How many stack slots are as they were after a step, and which then hold values (False: NULL), given the same before it."""
    end = group_end(instructions, index)
    instruction = instructions[end]
    name = instruction.opname
    if begins_with(instructions, index):
        return len(before) - 2, [*before[:-2], True, False, True]
    if name == "PUSH_NULL":
        return len(before), [*before, False]
    if name == "COPY":
        return len(before), [*before, before[-(instruction.arg or 0)]]
    if name == "SWAP":
        place, after = -(instruction.arg or 0), before[:]
        after[place], after[-1] = after[-1], after[place]
        return len(before), after
    pushes = _PUSHES.get(name, 1)
    if name in ("UNPACK_SEQUENCE", "UNPACK_EX"):
        arg = instruction.arg or 0
        pushes = arg if name == "UNPACK_SEQUENCE" else (arg & 0xFF) + 1 + (arg >> 8)
    elif name.startswith("POP_JUMP"):
        pushes = 0
    elif name == "FOR_ITER" and jump:
        return len(before) - 1, before[:-1]  # past the END_FOR that follows on some versions
    effect = sum(stack_effect(each, jump=jump) for each in instructions[index : end + 1])
    if pushes_null(instruction):
        effect -= 1
    kept = len(before) + effect - pushes
    after = before[:kept] + [True] * pushes
    if pushes_null(instruction):
        after.insert(len(after) - current().null_beneath, False)
    return kept, after


def pushes_null(instruction: Instruction) -> bool:
    """Whether the operation pushes a NULL or a self beside its result."""
    if instruction.opname == "LOAD_METHOD":
        return True
    if instruction.opname not in _METHOD_FORMS:
        return False
    return bool((instruction.arg or 0) & 1 and instruction.opname in current().flag_bits)


def plain_form(instruction: Instruction) -> list[Instruction]:
    """The step's last operation so that a NULL it pushes is certain, and where a call wants it."""
    if instruction.opname == "LOAD_SPECIAL":
        return _plain_special(instruction)
    if not pushes_null(instruction):
        return [instruction]
    null = [Instruction("PUSH_NULL"), *(build.swap(2) if current().null_beneath else ())]
    if instruction.opname == "LOAD_GLOBAL":
        plain = build.push_callable(build.load_global(instruction.argval))
    elif instruction.opname == "LOAD_SUPER_ATTR":
        instruction.arg = (instruction.arg or 0) & ~1
        plain = [instruction, *null]
    else:
        plain = [*build.load_attr(instruction.argval), *null]
    for each in plain:
        each.handler, each.positions = instruction.handler, instruction.positions
    # Jumps to the operation must still find it: reuse the object as a NOP in front.
    if instruction not in plain:
        instruction.opname, instruction.arg, instruction.argval = "NOP", None, None
        plain.insert(0, instruction)
    return plain


def _plain_special(instruction: Instruction) -> list[Instruction]:
    """Find a special method, and have it bound: else the interpreter may push its self beside it."""
    plain = [
        *build.load_const(_native.special_method),
        *build.swap(2),
        Instruction("PUSH_NULL"),
        *build.swap(2),
        *build.load_const(instruction.arg),
        *build.call(2),
        Instruction("PUSH_NULL"),
    ]
    for each in plain:
        each.handler, each.positions = instruction.handler, instruction.positions
    instruction.opname, instruction.arg, instruction.argval = "NOP", None, None
    return [instruction, *plain]


def reachable(instructions: Sequence[Instruction], roots: Iterable[Instruction]) -> list[Instruction]:
    """The operations that can run when execution starts at ``roots``, in order."""
    index = {id(instruction): i for i, instruction in enumerate(instructions)}
    todo = [index[id(root)] for root in roots]
    seen: set[int] = set()
    while todo:
        at = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        instruction = instructions[at]
        if instruction.target is not None:
            todo.append(index[id(instruction.target)])
        if instruction.handler is not None:
            todo.append(index[id(instruction.handler.target)])
        if falls_through(instruction):
            todo.append(at + 1)
    return [instructions[at] for at in sorted(seen)]


def body_from(instructions: Sequence[Instruction], roots: Iterable[Instruction]) -> list[Instruction]:
    """The same without what prepares a frame. A cell that is made later, by a comprehension, is of the body."""
    names = (instruction.opname for instruction in instructions)
    entry = next((at for at, name in enumerate(names) if name == "RESUME"), 0)
    cells = {id(instruction) for instruction in instructions[:entry] if instruction.opname == "MAKE_CELL"}
    found = reachable(instructions, roots)
    return [each for each in found if each.opname not in _FRAME_SETUP and id(each) not in cells]


@dataclass(frozen=True)
class Continuation:
    """A resume function's code and what it takes: stack values, then the named locals; its free variables.

    Where ``unbound``, the first local has no value: the code is given anything and drops it. Nor have those that are ``empty``,
    which are not read: they are among the names so that all ways to an operation have one continuation.
    """

    code: Callable[[], CodeType]
    stack: tuple[bool, ...]
    first: str | None
    unbound: bool
    names: tuple[str, ...]
    empty: frozenset[str]
    free: tuple[str, ...]


def seen_by_super(code: CodeType) -> str | None:
    """The first argument of a function that may call ``super()`` without arguments, which looks at it; of what goes on, that of the whole."""
    origin = _origins.get(code)
    original = code if origin is None else origin.code
    may_call = original.co_argcount and "__class__" in (*original.co_cellvars, *original.co_freevars)
    return original.co_varnames[0] if may_call else None


def taken(original: CodeType, wanted: frozenset[str]) -> tuple[str | None, tuple[str, ...], tuple[str, ...]]:
    """What goes on in the middle of a function takes beside the stack: the first local, the wanted locals, and free variables."""
    free = tuple(original.co_cellvars) + tuple(original.co_freevars)
    names = in_slots(original, wanted - set(free))
    first = seen_by_super(original)
    if first is None:
        return None, names, free
    if first in free and _rebinds(original, first):
        raise SkipFrame(f"super() looks at {first!r}, which is in a cell and may be given another value")
    return first, tuple(n for n in names if n != first), free


def in_slots(code: CodeType, names: Iterable[str]) -> tuple[str, ...]:
    """Locals in the order in which a frame lets go of them where it ends: what goes on holds them in the same."""
    slots = {name: at for at, name in enumerate(code.co_varnames)}
    return tuple(sorted(names, key=lambda name: (slots.get(name, len(slots)), name)))


def with_others(code: CodeType, arguments: Sequence[str], free: Sequence[str]) -> list[str]:
    """The locals of what goes on in the middle of a function: what it takes, and the function's others behind, in their order."""
    return [*arguments, *(name for name in code.co_varnames if name not in arguments and name not in free)]


def _rebinds(code: CodeType, name: str) -> bool:
    """Whether a function, or one within it, gives a variable that is in a cell another value, or none."""
    if any(i.opname in ("STORE_DEREF", "DELETE_DEREF") and i.argval == name for i in decode(code)):
        return True
    return any(
        _rebinds(each, name) for each in code.co_consts if isinstance(each, CodeType) and name in each.co_freevars
    )


def is_unbound(first: str | None, bound: frozenset[str], free: tuple[str, ...]) -> bool:
    """Whether the first local that ``super()`` looks at has no value."""
    return first is not None and first not in bound and first not in free


def continuation(root: CodeType, target: int, stack: list[bool], bound: frozenset[str]) -> Continuation:
    """The function that goes on at operation ``target`` of ``root`` with such a stack and these locals that have values."""
    origin = _origins.get(root)
    original = root if origin is None else origin.code
    at = target if origin is None else origin.index(target)
    lifetimes = lifetimes_of(original)
    first, names, free = taken(original, (lifetimes.read[at] & bound) | lifetimes.hold[at])
    unbound = is_unbound(first, bound, free)
    # What makes the code is kept with the original, and is not to keep that alive: one like it is as good to look at.
    place, alike = weakref.ref(original), _alike.get(original)
    if alike is None:
        alike = _alike[original] = original.replace()
    key = (at, tuple(stack), first, unbound, names)

    def code() -> CodeType:
        """The same for the same way to go on, as long as the original lives."""
        known = _codes_of(place())
        made = known.get(key)
        if made is None:
            made = known[key] = _resume_code(place, alike, *key, free)
        return made

    return Continuation(code, tuple(stack), first, unbound, names, frozenset(names) - bound, free)


def _codes_of(original: CodeType | None) -> dict[tuple[Any, ...], CodeType]:
    """By way to go on, what was made for a function; nothing is kept of one that is gone."""
    if original is None:
        return {}
    known = _functions.get(original)
    if known is None:
        known = _functions[original] = {}
    return known


def _resume_code(
    place: weakref.ref[CodeType],
    original: CodeType,
    at: int,
    stack: tuple[bool, ...],
    first: str | None,
    unbound: bool,
    names: tuple[str, ...],
    free: tuple[str, ...],
) -> CodeType:
    instructions = decode(original)
    target = instructions[at]
    kept = body_from(instructions, [target])
    index = {id(instruction): i for i, instruction in enumerate(instructions)}
    setup, arguments = entrance(original, stack, first, unbound, names, free)
    setup += build.jump(target)
    for instruction in setup:
        instruction.positions = target.positions
        if instruction.opname == "RESUME":  # as in any function: monitors take what follows on its line for no new one
            line = original.co_firstlineno
            instruction.positions = Positions(line, line, 0, 0)
    parts = with_checks(kept, instructions, unset_reads(original))
    places = [index[id(each)] for each, part in zip(kept, parts, strict=True) for _ in part]
    kept = [each for part in parts for each in part]
    code = assemble(
        [*setup, *kept],
        like=original,
        argnames=arguments,
        varnames=with_others(original, arguments, free),
        cellvars=(),
        freevars=free,
    )
    assert len(decode(code)) == len(setup) + len(kept)
    code = code.replace(co_flags=code.co_flags | _native.CONTINUES)
    _origins[code] = ResumeOrigin(place, tuple(places), len(setup), at)
    return code


def entrance(
    original: CodeType,
    stack: Sequence[bool],
    first: str | None,
    unbound: bool,
    names: Sequence[str],
    free: Sequence[str],
) -> tuple[list[Instruction], list[str]]:
    """Instructions that put the stack as it was, and the parameters that bring it, and locals; one that is ``unbound`` is dropped."""
    generated = Names.beside(original)
    slots = [generated.stack(i) for i, is_value in enumerate(stack) if is_value]
    setup: list[Instruction] = build.prologue((), free)
    values = iter(slots)
    for is_value in stack:
        setup += build.load_fast(next(values)) if is_value else [Instruction("PUSH_NULL")]
    for slot in slots:
        setup += build.delete_fast(slot)
    if first is not None and unbound:
        setup += build.delete_fast(first)
    if first is not None and first in free:
        first = generated.first(first)
    return setup, [*([first] if first is not None else []), *slots, *names]


def make_resume(code: CodeType, module_globals: dict[str, Any]) -> FunctionType:
    """A resume function without free variables, held as a constant by generated code."""
    return FunctionType(code, module_globals, code.co_name)


def names_beside(code: CodeType) -> Names:
    """Names for code generated in place of ``code``; the same for all that goes on from one function."""
    origin = _origins.get(code)
    return Names.beside(code if origin is None else origin.code)


def _load_made(make: Callable[[], Any], later: bool) -> list[Instruction]:
    """Push what ``make`` gives, which is called now, or ``later``: when the code comes there first."""
    return [*build.load_const(Later(make)), *build.load_attr("made")] if later else build.load_const(make())


def stub(
    then: Continuation,
    module_globals: dict[str, Any],
    generated: Names,
    first_cell: bool,
    in_resume: bool,
    like: Instruction,
    later: bool,
) -> list[Instruction]:
    """Take the stack and the live locals, and return what the continuation returns; that is made ``later`` where it is hardly ever gone on with."""
    out: list[Instruction] = []
    names: list[str] = []
    for i in range(len(then.stack) - 1, -1, -1):
        if then.stack[i]:
            names.append(generated.stack(i))
            out += build.store_fast(names[-1])
        else:
            # A NULL is taken off by a call that wants one.
            out += [*build.load_const(tuple), *(() if current().null_beneath else build.swap(2))]
            out += [*build.call(0), *build.pop()]
    names.reverse()
    load: list[Instruction]
    if then.free:
        cells = [i for name in then.free for i in build.load_closure(name)]
        load = [*cells, *build.build_tuple(len(then.free)), *_load_made(then.code, later), *build.make_closure()]
    elif are_of_module(module_globals):
        load = _load_made(lambda: make_resume(then.code(), module_globals), later)
    else:  # they may hold the code that all this is kept with: constants of code are nothing that the collector sees
        load = [*_load_made(then.code, later), *build.make_function()]
    args: list[Instruction] = []
    count = len(names) + len(then.names)
    if then.first is not None:
        count += 1
        if then.unbound:
            args += build.load_const(None)
        else:
            args += build.load_deref(then.first) if first_cell else build.load_fast(then.first)
    for name in names:
        args += [*build.load_fast(name), *build.delete_fast(name)]
    for name in then.names:  # theirs alone from here on: what goes on lets go of a value as the program does
        if name in then.empty:
            args += build.load_const(None)
        else:
            args += [*build.load_fast(name), *build.delete_fast(name)]
    if in_resume:
        packed = [*load, *args, *build.build_tuple(count), *build.build_tuple(2)]
        out += [*build.push_callable(build.load_const(TailCall)), *packed, *build.call(1), *build.return_value()]
    else:
        # Not called by the code itself: the stack would hold the arguments until it returns.
        before = [*build.load_const(TailCall), *load]
        out += [
            *build.push_callable(build.load_const(_native.go_on)),
            *before,
            *args,
            *build.call(count + 2),
            *build.return_value(),
        ]
    for each in out:
        each.positions = like.positions
    return out
