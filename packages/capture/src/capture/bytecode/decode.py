"""A code object in, a list of `Instruction` out: no caches, no EXTENDED_ARG, jumps and handlers by reference."""

from __future__ import annotations

import dis
import opcode
from functools import cache
from types import CodeType
from typing import Any, NamedTuple

from capture.bytecode.dialect import Dialect, current
from capture.bytecode.exception_table import TableEntry, parse_table
from capture.bytecode.instruction import BytecodeError, Handler, Instruction

#: An operation as it is read: its name, its operand, what that means, and its code unit.
Operation = tuple[str, int | None, Any, int]

# Private tables of the standard library: there is no public way to learn cache sizes and operator symbols.
_CACHES: Any = opcode._inline_cache_entries  # type: ignore[attr-defined]
#: By opcode; until 3.12 the library has a list, then a dictionary by name.
CACHE_UNITS: list[int] = (
    _CACHES if isinstance(_CACHES, list) else [_CACHES.get(name, 0) for name in opcode.opname[:256]]
)
_BINARY_SYMBOLS: list[str] = [symbol for _, symbol in opcode._nb_ops]  # type: ignore[attr-defined]


def slot_names(code: CodeType) -> tuple[str, ...]:
    """The name of every fast local, cell and free variable, by the operand that addresses it."""
    own_cells = tuple(name for name in code.co_cellvars if name not in code.co_varnames)
    return code.co_varnames + own_cells + code.co_freevars


def cell_places(code: CodeType) -> frozenset[int]:
    """The operands that address cells and free variables."""
    if not code.co_cellvars and not code.co_freevars:
        return frozenset()
    names = slot_names(code)
    cells = {at for at, name in enumerate(names) if name in code.co_cellvars}
    return frozenset({*cells, *range(len(names) - len(code.co_freevars), len(names))})


def argument_count(code: CodeType) -> int:
    """How many of `co_varnames` are bound at entry: positional, keyword-only, `*args` and `**kwargs`."""
    variadic = bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    return code.co_argcount + code.co_kwonlyargcount + variadic


def argument_names(code: CodeType) -> tuple[str, ...]:
    """The names bound at entry, in the order in which the frame holds them."""
    return code.co_varnames[: argument_count(code)]


@cache
def operand_families() -> dict[str, str]:
    """What each operation's operand indexes: "const", "name", "slot", "jump" or "compare"; others are numbers."""
    families = {}
    for family, opcodes in (
        ("const", opcode.hasconst),
        ("name", opcode.hasname),
        ("slot", (*opcode.haslocal, *opcode.hasfree)),
        ("jump", (*opcode.hasjrel, *opcode.hasjabs)),
        ("compare", opcode.hascompare),
    ):
        families.update(dict.fromkeys((opcode.opname[op] for op in opcodes), family))
    families["BINARY_OP"] = "binary"
    # From 3.14 it tells monitors where the loop's value came from, and jumps nowhere.
    families.pop("END_ASYNC_FOR", None)
    return families


def decode(code: CodeType) -> list[Instruction]:
    """The instructions of `code`, each with its positions, its offset and its exception handler.

    What one operation does for two is two instructions: a pair of moves of locals, a comparison made a bool.
    """
    read = scan(code)
    positions = list(code.co_positions())
    first, units = code.co_firstlineno, len(code.co_code) // 2
    positions += [(first, first, None, None)] * (units - len(positions))  # tools make code without the table
    result = [
        Instruction(name, arg, value, None, None, _positions(dis.Positions, positions[unit]), unit * 2)
        for name, arg, value, unit in read.operations
    ]
    for at, target in read.jumps:
        result[at].target = result[target]
    for entry, covered in read.handlers:
        handler = Handler(result[entry.target], entry.depth, entry.lasti)
        for at in covered:
            result[at].handler = handler
    return result


class Scan(NamedTuple):
    """What `scan` reads. Operations are told by their places in `operations`."""

    operations: list[Operation]
    #: What jumps, and where to.
    jumps: list[tuple[int, int]]
    #: The exception table's entries, whose targets are operations here, and what each covers.
    handlers: list[tuple[TableEntry, list[int]]]


def scan(code: CodeType) -> Scan:
    """What `decode` gives, without an object for each operation: of most of the code that is evaluated none is written."""
    dialect = current()
    raw = code.co_code
    slots, constants, names = slot_names(code), code.co_consts, code.co_names
    kinds, cells, load_closure = _kinds(), cell_places(code), dialect.load_closure
    by_unit: dict[int, int] = {}  # an operation starts at its first EXTENDED_ARG
    jumps: list[tuple[int, int]] = []
    result: list[Operation] = []
    unit, extended, start = 0, 0, -1
    end = len(raw) // 2
    while unit < end:
        op, arg = raw[unit * 2], raw[unit * 2 + 1]
        if op == dis.EXTENDED_ARG:
            start = unit if start < 0 else start
            extended = (extended | arg) << 8
            unit += 1
            continue
        if extended:
            arg, extended = extended | arg, 0
        name, family, takes, divides, units, shift = kinds[op]
        by_unit[unit if start < 0 else start] = len(result)
        start = -1
        if divides:
            for part, operand in _parts(name, arg if takes else None, dialect):
                result.append(_of_part(part, operand, unit, slots, dialect, cells))
        elif not takes:
            result.append((name, None, None, unit))
        elif family is None:
            result.append((name, arg, arg, unit))
        elif family == "slot":
            result.append(("LOAD_CLOSURE" if name == load_closure and arg in cells else name, arg, slots[arg], unit))
        elif family == "const":
            result.append((name, arg, constants[arg], unit))
        elif family == "name":
            result.append((name, arg, names[arg >> shift], unit))
        elif family == "jump":
            jumps.append((len(result), unit + units - arg if "BACKWARD" in name else unit + units + arg))
            result.append((name, arg, None, unit))
        else:
            result.append((name, arg, _operator(family, arg, dialect), unit))
        unit += units
    placed = [(at, _at(by_unit, target)) for at, target in jumps]
    return Scan(result, placed, _handlers(code, by_unit, result))


def _operator(family: str | None, operand: int, dialect: Dialect) -> str:
    return opcode.cmp_op[operand >> dialect.compare_shift] if family == "compare" else _BINARY_SYMBOLS[operand]


def _of_part(
    name: str, operand: int | None, unit: int, slots: tuple[str, ...], dialect: Dialect, cells: frozenset[int]
) -> Operation:
    """One of several operations that are one in the code: a move of a local, or about a comparison."""
    family = operand_families().get(name)
    if operand is None or family is None:
        return name, operand, operand, unit
    if family == "slot":
        return (
            "LOAD_CLOSURE" if name == dialect.load_closure and operand in cells else name,
            operand,
            slots[operand],
            unit,
        )
    return name, operand, _operator(family, operand, dialect), unit


def _parts(name: str, arg: int | None, dialect: Dialect) -> list[tuple[str, int | None]]:
    """The operations that one does the work of, with their operands."""
    if name in dialect.fused and arg is not None:
        first, second = dialect.fused[name]
        return [(first, arg >> 4), (second, arg & 15)]
    if name == "COMPARE_OP" and arg is not None and arg & dialect.compare_to_bool:
        return [(name, arg & ~dialect.compare_to_bool), ("TO_BOOL", None)]
    return [(name, arg)]


@cache
def _kinds() -> list[tuple[str, str | None, bool, bool, int, int]]:
    """By opcode: its name, the family of its operand, whether it has one, whether it may do the work of several, its code
    units, and how many flag bits lie beneath a name's index."""
    families, dialect = operand_families(), current()
    found = []
    for op in range(256):
        name = dialect.read_as.get(opcode.opname[op], opcode.opname[op])
        divides = name in dialect.fused or (name == "COMPARE_OP" and bool(dialect.compare_to_bool))
        units, shift = 1 + CACHE_UNITS[op], dialect.flag_bits.get(name, 0)
        found.append((name, families.get(name), op >= dis.HAVE_ARGUMENT, divides, units, shift))
    return found


#: Makes a named tuple without a call in Python.
_positions = tuple.__new__


def _at(by_unit: dict[int, int], unit: int) -> int:
    if unit not in by_unit:
        raise BytecodeError(f"a jump or handler goes to offset {unit * 2}, where no instruction starts")
    return by_unit[unit]


def _handlers(
    code: CodeType, by_unit: dict[int, int], operations: list[Operation]
) -> list[tuple[TableEntry, list[int]]]:
    found = []
    for entry in parse_table(code.co_exceptiontable):
        covered: list[int] = []
        for unit in range(entry.start, entry.end):
            at = by_unit.get(unit, len(operations))
            while at < len(operations) and operations[at][3] == operations[by_unit[unit]][3]:  # parts of one
                covered.append(at)
                at += 1
        found.append((entry._replace(target=_at(by_unit, entry.target)), covered))
    return found
