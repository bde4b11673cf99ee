"""Where a function reads or deletes a variable of its own that is in a cell and may have no value.

In: code objects. Out: the places of such operations. What goes on in the middle of the function is handed the cells, as free
variables, of which the interpreter says something else where one is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import CodeType

from . import _native
from .bytecode import Instruction, argument_names, build, decode, falls_through
from .identity_map import IdentityMap

_READS = frozenset({"LOAD_DEREF", "DELETE_DEREF"})

_known: IdentityMap[CodeType, frozenset[int]] = IdentityMap()


def unset_reads(code: CodeType) -> frozenset[int]:
    """The indices of operations that read or delete a cell of the function's own which may be empty then."""
    if not code.co_cellvars:
        return frozenset()
    found = _known.get(code)
    if found is None:
        found = _known[code] = frozenset(_unset_reads(code))
    return found


def with_checks(
    body: Iterable[Instruction], original: list[Instruction], unset: Iterable[int]
) -> list[list[Instruction]]:
    """Operations of a function, each with what is checked before it where it is among those of ``unset_reads``."""
    found = {id(original[at]) for at in unset}
    return [checked(each) if id(each) in found else [each] for each in body]


def checked(read: Instruction) -> list[Instruction]:
    """The operation, after what raises for an empty cell as for a local without a value."""
    name = read.argval
    check = build.call_function(build.load_const(_native.check_bound), build.load_closure(name), build.load_const(name))
    check += build.pop()
    # Jumps to the operation find this first.
    again = Instruction(read.opname, argval=name)
    read.opname, read.arg, read.argval = "NOP", None, None
    for each in (*check, again):
        each.handler, each.positions = read.handler, read.positions
    return [read, *check, again]


def _unset_reads(code: CodeType) -> Iterator[int]:
    instructions = decode(code)
    own = frozenset(code.co_cellvars)
    always = own & _deleted_within(code)
    empty = _may_be_empty(instructions, own, own.difference(argument_names(code)))
    for at, each in enumerate(instructions):
        if each.opname in _READS and (each.argval in empty[at] or each.argval in always):
            yield at


def _deleted_within(code: CodeType) -> set[str]:
    """The free variables that functions within delete, whenever they run."""
    found: set[str] = set()
    for within in code.co_consts:
        if isinstance(within, CodeType) and within.co_freevars:
            deleted = {each.argval for each in decode(within) if each.opname == "DELETE_DEREF"}
            found |= (deleted | _deleted_within(within)) & set(within.co_freevars)
    return found


def _may_be_empty(instructions: list[Instruction], own: frozenset[str], first: frozenset[str]) -> list[frozenset[str]]:
    """Which of the cells may be empty before each operation, on any way there."""
    index = {id(each): at for at, each in enumerate(instructions)}
    begins = next((at for at, each in enumerate(instructions) if each.opname == "RESUME"), 0)
    before: list[frozenset[str] | None] = [None] * len(instructions)
    todo = [(0, first)]
    while todo:
        at, empty = todo.pop()
        known = before[at]
        if known is not None and empty <= known:
            continue
        empty = before[at] = empty if known is None else known | empty
        each = instructions[at]
        if each.handler is not None:
            todo.append((index[id(each.handler.target)], empty))
        if each.opname in ("STORE_DEREF", "LOAD_DEREF"):
            empty -= {each.argval}
        elif at > begins and each.opname in ("DELETE_DEREF", "MAKE_CELL", "STORE_FAST"):
            # A comprehension's cell is made where the function's was, which is put back after it.
            empty |= own & {each.argval}
        if each.target is not None:
            todo.append((index[id(each.target)], empty))
        if falls_through(each):
            todo.append((at + 1, empty))
    return [each or frozenset() for each in before]
