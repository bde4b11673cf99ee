"""A code object in, a list of `Instruction` out: no caches, no EXTENDED_ARG, jumps and handlers by reference."""

from __future__ import annotations

import dis
import opcode
from collections.abc import Callable
from functools import cache
from types import CodeType
from typing import Any

from capture.bytecode.dialect import Dialect, current
from capture.bytecode.exception_table import parse_table
from capture.bytecode.instruction import BytecodeError, Handler, Instruction

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
    return families


def decode(code: CodeType) -> list[Instruction]:
    """The instructions of `code`, each with its positions, its offset and its exception handler.

    What one operation does for two is two instructions: a pair of moves of locals, a comparison made a bool.
    """
    dialect = current()
    raw = code.co_code
    positions = list(code.co_positions())
    meaning = _meanings(code, dialect)
    kinds = _kinds()
    cells = cell_places(code)
    by_unit: dict[int, list[Instruction]] = {}  # an operation starts at its first EXTENDED_ARG
    jumps: list[tuple[Instruction, int]] = []
    result: list[Instruction] = []
    unit, extended, start = 0, 0, -1
    end = len(raw) // 2
    while unit < end:
        op, low = raw[unit * 2], raw[unit * 2 + 1]
        start = unit if start < 0 else start
        arg = extended << 8 | low
        if op == dis.EXTENDED_ARG:
            extended = arg
            unit += 1
            continue
        after = unit + 1 + CACHE_UNITS[op]
        name, family, takes, divides = kinds[op]
        at = _positions(dis.Positions, positions[unit])
        if not divides:
            operand = arg if takes else None
            each = Instruction(name, operand, None, None, None, at, unit * 2)
            if family == "jump":
                jumps.append((each, after - arg if "BACKWARD" in name else after + arg))
            elif takes:
                each.argval = meaning[family](name, arg) if family is not None else arg
                if name == dialect.load_closure and arg in cells:
                    each.opname = "LOAD_CLOSURE"
            by_unit[start] = [each]
            result.append(each)
        else:
            families = operand_families()
            parts = by_unit[start] = []
            for part, operand in _parts(name, arg if takes else None, dialect):
                each = Instruction(part, operand, None, None, None, at, unit * 2)
                of_part = families.get(part)
                if operand is not None:
                    each.argval = meaning[of_part](part, operand) if of_part in meaning else operand
                if part == dialect.load_closure and operand is not None and operand in cells:
                    each.opname = "LOAD_CLOSURE"
                parts.append(each)
            result += parts
        unit, extended, start = after, 0, -1
    for instruction, target in jumps:
        instruction.target = _at(by_unit, target)
    _attach_handlers(code, by_unit)
    return result


def _parts(name: str, arg: int | None, dialect: Dialect) -> list[tuple[str, int | None]]:
    """The operations that one does the work of, with their operands."""
    if name in dialect.fused and arg is not None:
        first, second = dialect.fused[name]
        return [(first, arg >> 4), (second, arg & 15)]
    if name == "COMPARE_OP" and arg is not None and arg & dialect.compare_to_bool:
        return [(name, arg & ~dialect.compare_to_bool), ("TO_BOOL", None)]
    return [(name, arg)]


def _meanings(code: CodeType, dialect: Dialect) -> dict[str | None, Callable[[str, int], Any]]:
    slots, constants, names = slot_names(code), code.co_consts, code.co_names
    operators = opcode.cmp_op
    flag_bits, shift = dialect.flag_bits, dialect.compare_shift
    return {
        "const": lambda name, operand: constants[operand],
        "name": lambda name, operand: names[operand >> flag_bits.get(name, 0)],
        "slot": lambda name, operand: slots[operand],
        "compare": lambda name, operand: operators[operand >> shift],
        "binary": lambda name, operand: _BINARY_SYMBOLS[operand],
    }


@cache
def _kinds() -> list[tuple[str, str | None, bool, bool]]:
    """By opcode: its name, the family of its operand, whether it has one, and whether it may do the work of several."""
    families, dialect = operand_families(), current()
    found = []
    for op in range(256):
        name = opcode.opname[op]
        divides = name in dialect.fused or (name == "COMPARE_OP" and bool(dialect.compare_to_bool))
        found.append((name, families.get(name), op >= dis.HAVE_ARGUMENT, divides))
    return found


#: Makes a named tuple without a call in Python.
_positions = tuple.__new__


def _at(by_unit: dict[int, list[Instruction]], unit: int) -> Instruction:
    if unit not in by_unit:
        raise BytecodeError(f"a jump or handler goes to offset {unit * 2}, where no instruction starts")
    return by_unit[unit][0]


def _attach_handlers(code: CodeType, by_unit: dict[int, list[Instruction]]) -> None:
    entries = parse_table(code.co_exceptiontable)
    if not entries:
        return
    handlers = [Handler(_at(by_unit, e.target), e.depth, e.lasti) for e in entries]
    for entry, handler in zip(entries, handlers, strict=True):
        for unit in range(entry.start, entry.end):
            for instruction in by_unit.get(unit, ()):
                instruction.handler = handler
