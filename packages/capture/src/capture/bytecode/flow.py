"""How instructions follow each other: successors, stack depths, live locals."""

from __future__ import annotations

import dis
import opcode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from capture.bytecode.decode import operand_families
from capture.bytecode.instruction import BytecodeError, Handler, Instruction

# After these, execution never goes on to the next instruction.
TERMINATORS = frozenset(
    {
        "RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD",
        "JUMP_BACKWARD_NO_INTERRUPT",
    }
)  # fmt: skip

_UNBINDS = frozenset({"LOAD_FAST_AND_CLEAR", "DELETE_FAST"})
_ONLY_DEFINES = frozenset({"STORE_FAST"})
_DEFINES = _UNBINDS | _ONLY_DEFINES


def is_jump(instruction: Instruction) -> bool:
    """Whether the operand is a place in the code."""
    return operand_families().get(instruction.opname) == "jump"


def falls_through(instruction: Instruction) -> bool:
    """Whether the next instruction can run after this one without a jump."""
    return instruction.opname not in TERMINATORS


def index_of(instructions: Sequence[Instruction]) -> dict[Instruction, int]:
    """Where each instruction stands; each may stand in one place only."""
    index = {instruction: at for at, instruction in enumerate(instructions)}
    if len(index) != len(instructions):
        raise BytecodeError("an instruction object stands in two places of one code")
    return index


def position_of(index: dict[Instruction, int], target: Instruction) -> int:
    """`index[target]`, with an error that says what is missing."""
    if target not in index:
        raise BytecodeError(f"{target!r} is the target of a jump or handler but is not in the code")
    return index[target]


def stack_effect(instruction: Instruction, *, jump: bool | None = None, arg: int | None = None) -> int:
    """By how much the operation changes the stack's depth, when it jumps, does not, or (None) at most."""
    if instruction.opname == "RETURN_GENERATOR":
        return 1  # the resumed frame finds the value sent to it; `dis` counts the caller's side
    op = opcode.opmap[instruction.opname]
    if op < dis.HAVE_ARGUMENT:
        return dis.stack_effect(op, jump=jump)
    operand = instruction.arg if arg is None else arg
    return dis.stack_effect(op, operand or 0, jump=jump)


def stack_depths(instructions: Sequence[Instruction], *, start: int = 0) -> list[int | None]:
    """The stack's depth before each instruction; None where no path leads.

    Raises `BytecodeError` where two paths disagree, or where a path takes from an empty stack.
    """
    index = index_of(instructions)
    depths: list[int | None] = [None] * len(instructions)
    todo = [(0, start)] if instructions else []
    while todo:
        at, depth = todo.pop()
        if at >= len(instructions):
            raise BytecodeError("execution runs past the last instruction")
        known = depths[at]
        if known is not None:
            if known != depth:
                raise BytecodeError(f"stack depth at {instructions[at]!r} is {known} or {depth} by the path taken")
            continue
        if depth < 0:
            raise BytecodeError(f"the stack is {-depth} short before {instructions[at]!r}")
        depths[at] = depth
        instruction = instructions[at]
        if instruction.handler is not None:
            todo.append((position_of(index, instruction.handler.target), handler_depth(instruction.handler)))
        if instruction.target is not None:
            todo.append((position_of(index, instruction.target), depth + stack_effect(instruction, jump=True)))
        if falls_through(instruction):
            todo.append((at + 1, depth + stack_effect(instruction, jump=False)))
    return depths


def handler_depth(handler: Handler) -> int:
    """The stack's depth when the handler's first instruction runs."""
    return handler.depth + handler.lasti + 1


def stack_size(instructions: Sequence[Instruction]) -> int:
    """`co_stacksize`: the most values on the stack at once."""
    most = 1
    for instruction, depth in zip(instructions, stack_depths(instructions), strict=True):
        if depth is not None:
            most = max(most, depth, depth + stack_effect(instruction))
            if instruction.handler is not None:
                most = max(most, handler_depth(instruction.handler))
    return most


def reraised_places(instructions: Sequence[Instruction]) -> dict[Instruction, bool]:
    """Of every RERAISE that takes up the place of an exception: whether a handler of this code surely put that on the stack.

    What code that goes on within a handler was given there is a number, as the program could have it.
    """
    asking = [each for each in instructions if each.opname == "RERAISE" and each.arg]
    if not asking:
        return {}
    index, depths = index_of(instructions), stack_depths(instructions)
    known: list[frozenset[int] | None] = [None] * len(instructions)
    todo: list[tuple[int, frozenset[int]]] = [(0, frozenset())]
    while todo:
        at, places = todo.pop()
        before, instruction = known[at], instructions[at]
        now = places if before is None else before & places
        if now == before:
            continue
        known[at] = now
        handler = instruction.handler
        if handler is not None:
            kept = frozenset(place for place in now if place < handler.depth)
            own = {handler.depth} if handler.lasti else set()
            todo.append((position_of(index, handler.target), kept | own))
        following = [] if instruction.target is None else [position_of(index, instruction.target)]
        following += [at + 1] if falls_through(instruction) else []
        for other in following:
            least = min(depths[at] or 0, depths[other] or 0)
            todo.append((other, frozenset(place for place in now if place < least)))
    found = {}
    for each in asking:
        at = index[each]
        found[each] = (depths[at] or 0) - 1 - (each.arg or 0) in (known[at] or ())
    return found


def shift_handlers(instructions: Sequence[Instruction], by: int) -> None:
    """Deepen every handler by `by` values that now lie beneath the code's own stack."""
    moved: dict[int, Handler] = {}
    for instruction in instructions:
        old = instruction.handler
        if old is not None:
            moved.setdefault(id(old), Handler(old.target, old.depth + by, old.lasti))
            instruction.handler = moved[id(old)]


def liveness(instructions: Sequence[Instruction]) -> list[frozenset[str]]:
    """The locals, cells and free variables whose value may still be read, before each instruction.

    A cell counts as read by every operation on it, since closures may share it.
    """
    index = index_of(instructions)
    names: dict[str, int] = {}
    reads, writes = [0] * len(instructions), [0] * len(instructions)
    for at, instruction in enumerate(instructions):
        if operand_families().get(instruction.opname) == "slot":
            bit = 1 << names.setdefault(_slot(instruction.argval), len(names))
            reads[at] = 0 if instruction.opname in _ONLY_DEFINES else bit
            writes[at] = bit if instruction.opname in _DEFINES else 0
    live = [0] * (len(instructions) + 1)
    changed = True
    while changed:
        changed = False
        for at in range(len(instructions) - 1, -1, -1):
            instruction = instructions[at]
            after = live[at + 1] if falls_through(instruction) else 0
            if instruction.target is not None:
                after |= live[position_of(index, instruction.target)]
            before = reads[at] | after & ~writes[at]
            if instruction.handler is not None:
                # The operation may fail before it has stored anything.
                before |= live[position_of(index, instruction.handler.target)]
            if before != live[at]:
                live[at] = before
                changed = True
    memo: dict[int, frozenset[str]] = {}
    return [memo.setdefault(bits, frozenset(_named(bits, names))) for bits in live[:-1]]


def bindings(instructions: Sequence[Instruction], given: Iterable[str]) -> list[frozenset[str]]:
    """The locals that may have a value before each instruction, where those ``given`` have one at the start; cells aside."""
    index = index_of(instructions)
    names = {name: place for place, name in enumerate(given)}
    before = [0] * len(instructions)
    reached = [False] * len(instructions)
    todo = [(0, (1 << len(names)) - 1)] if instructions else []
    while todo:
        at, bound = todo.pop()
        if reached[at] and not bound & ~before[at]:
            continue
        reached[at] = True
        bound = before[at] = before[at] | bound
        instruction = instructions[at]
        if instruction.handler is not None:
            todo.append((position_of(index, instruction.handler.target), bound))
        if instruction.opname in _DEFINES:
            bit = 1 << names.setdefault(_slot(instruction.argval), len(names))
            bound = bound & ~bit if instruction.opname in _UNBINDS else bound | bit
        if instruction.target is not None:
            todo.append((position_of(index, instruction.target), bound))
        if falls_through(instruction):
            todo.append((at + 1, bound))
    memo: dict[int, frozenset[str]] = {}
    return [memo.setdefault(bits, frozenset(_named(bits, names))) for bits in before]


def _slot(name: Any) -> str:
    if not isinstance(name, str):
        raise BytecodeError(f"an operation on a local variable names {name!r}")
    return name


def _named(bits: int, names: dict[str, int]) -> Iterator[str]:
    return (name for name, place in names.items() if bits >> place & 1)
