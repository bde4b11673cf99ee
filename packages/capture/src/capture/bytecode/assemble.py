"""Instructions in, a code object out: operand tables, jump sizes, stack size, line and exception tables."""

from __future__ import annotations

import opcode
import struct
from collections.abc import Sequence
from dis import Positions
from types import CodeType
from typing import Any

from capture._native import address
from capture.bytecode.decode import CACHE_UNITS, argument_names, operand_families
from capture.bytecode.dialect import Dialect, current
from capture.bytecode.exception_table import TableEntry, write_table
from capture.bytecode.flow import index_of, position_of, reraised_places, stack_size
from capture.bytecode.instruction import BytecodeError, Handler, Instruction
from capture.bytecode.line_table import write_line_table
from symshapes import dataclass

CO_VARARGS, CO_VARKEYWORDS = 0x04, 0x08
# 3.14 lists LOAD_DEREF among what is about locals.
_CELL_OPERATIONS = frozenset({"LOAD_CLOSURE", "LOAD_DEREF", *(opcode.opname[op] for op in opcode.hasfree)})


def assemble(
    instructions: Sequence[Instruction],
    *,
    like: CodeType,
    name: str | None = None,
    argnames: Sequence[str] | None = None,
    varnames: Sequence[str] | None = None,
    cellvars: Sequence[str] | None = None,
    freevars: Sequence[str] | None = None,
    flags: int | None = None,
    first_line: int | None = None,
) -> CodeType:
    """A code object that runs `instructions`; what is not given is as in `like` (file, name, flags...).

    `argnames` makes all parameters positional, in that order, and drops `*args` and `**kwargs` from the flags: the
    convention of a replacement, whose `argnames` are `argument_names(like)`. Locals that no list names are added.
    Constants are told apart by type and bits. The instructions themselves are left as they are.
    Raises `BytecodeError` if they cannot be one code object.
    """
    dialect = current()
    if flags is None:
        flags = like.co_flags if argnames is None else like.co_flags & ~(CO_VARARGS | CO_VARKEYWORDS)
    arguments = argument_names(like) if argnames is None else tuple(argnames)
    if varnames is None:
        varnames = like.co_varnames if argnames is None else arguments
    slots = _Slots(
        tuple(varnames),
        like.co_cellvars if cellvars is None else tuple(cellvars),
        like.co_freevars if freevars is None else tuple(freevars),
        arguments,
    )
    slots.claim(instructions, like)
    tables = _Tables(like, slots, dialect)
    lines = _lower(instructions, tables, dialect)
    if dialect.places_apart:
        put = reraised_places(instructions)
        for line in lines:
            if line.of is not None and not put.get(line.of, True):
                line.operand = 0
    lines = _joined(lines, dialect)
    _lay_out(lines)
    changes: dict[str, Any] = {}
    if argnames is not None:
        changes = {"co_argcount": len(arguments), "co_posonlyargcount": 0, "co_kwonlyargcount": 0}
    if name is not None:
        changes.update(co_name=name, co_qualname=name)
    first = like.co_firstlineno if first_line is None else first_line
    return like.replace(
        co_code=b"".join(line.encode() for line in lines),
        co_consts=tuple(tables.consts),
        co_names=tuple(tables.names),
        co_nlocals=len(slots.varnames),
        co_varnames=tuple(slots.varnames),
        co_cellvars=slots.cells,
        co_freevars=slots.free,
        co_flags=flags,
        co_firstlineno=first,
        co_stacksize=stack_size(instructions),
        co_linetable=write_line_table(((line.units, line.positions) for line in lines), first),
        co_exceptiontable=write_table(_ranges(lines)),
        **changes,
    )


@dataclass(slots=True)
class _Line:
    """One operation on its way to bytes. Targets are places among the lines until the layout is known."""

    opname: str
    operand: int
    target: _Line | None
    handler: Handler | None
    handler_line: _Line | None
    positions: Positions | None
    of: Instruction | None = None
    offset: int | None = None  # where it was decoded from
    start: int = 0  # in code units
    prefixes: int = 0  # EXTENDED_ARGs in front

    @property
    def opcode(self) -> int:
        return opcode.opmap[self.opname]

    @property
    def units(self) -> int:
        return self.prefixes + 1 + CACHE_UNITS[self.opcode]

    def encode(self) -> bytes:
        out = bytearray()
        for shift in range(8 * self.prefixes, 0, -8):
            out += bytes((opcode.opmap["EXTENDED_ARG"], self.operand >> shift & 0xFF))
        out += bytes((self.opcode, self.operand & 0xFF))
        return bytes(out) + bytes(2 * CACHE_UNITS[self.opcode])


def _lower(instructions: Sequence[Instruction], tables: _Tables, dialect: Dialect) -> list[_Line]:
    """Lines with operands, except those of jumps. A conditional jump that cannot go backward becomes two."""
    index = index_of(instructions)
    lines: list[_Line] = []
    first_of: list[_Line] = []  # by instruction
    jumps: list[tuple[_Line, Instruction]] = []
    for at, instruction in enumerate(instructions):
        target = instruction.target
        line = _Line(
            instruction.opname,
            tables.operand(instruction),
            None,
            instruction.handler,
            None,
            instruction.positions,
            instruction,
            instruction.offset,
        )
        lines.append(line)
        first_of.append(line)
        if target is None:
            continue
        if position_of(index, target) <= at and line.opname in dialect.inverse:
            line.opname = dialect.inverse[line.opname]
            jumps.append((line, instructions[at + 1]))
            line = _Line("JUMP_BACKWARD", 0, None, line.handler, None, line.positions)
            lines.append(line)
        elif position_of(index, target) <= at:
            line.opname = dialect.backward.get(line.opname, line.opname)
        else:
            line.opname = dialect.forward.get(line.opname, line.opname)
        jumps.append((line, target))
    for line, target in jumps:
        line.target = first_of[position_of(index, target)]
    for line in lines:
        if line.handler is not None:
            line.handler_line = first_of[position_of(index, line.handler.target)]
    return lines


def _joined(lines: list[_Line], dialect: Dialect) -> list[_Line]:
    """The same with those made one again that `decode` took apart; the compiler knows when a pair pays."""
    fused = {parts: name for name, parts in dialect.fused.items()}
    reached = {address(line.target) for line in lines} | {address(line.handler_line) for line in lines}
    out: list[_Line] = []
    for line in lines:
        before = out[-1] if out else line
        apart = before is not line and before.offset is not None and before.offset == line.offset
        pair = fused.get((before.opname, line.opname)) if apart else None
        if not apart or address(line) in reached or not _same_handler(before, line):
            out.append(line)
        elif pair is not None and max(before.operand, line.operand) < 16:
            before.opname, before.operand = pair, before.operand << 4 | line.operand
        elif (before.opname, line.opname) == ("COMPARE_OP", "TO_BOOL"):
            before.operand |= dialect.compare_to_bool
        else:
            out.append(line)
    for line in out:
        if line.opname == "LOAD_CLOSURE":
            line.opname = dialect.load_closure
    return out


def _same_handler(one: _Line, other: _Line) -> bool:
    return one.handler is other.handler or (one.handler is not None and one.handler.same(other.handler))


def _lay_out(lines: list[_Line]) -> None:
    """Give every line its place and every jump its distance; a line only ever grows, so this ends."""
    for line in lines:
        line.prefixes = _prefixes(line.operand)
    settled = False
    while not settled:
        settled = True
        at = 0
        for line in lines:
            line.start = at
            at += line.units
        for line in lines:
            if line.target is None:
                continue
            distance = line.target.start - (line.start + line.units)
            line.operand = -distance if "BACKWARD" in line.opname else distance
            if line.operand < 0:
                raise BytecodeError(f"{line.opname} cannot jump in the direction of its target")
            if _prefixes(line.operand) > line.prefixes:
                line.prefixes = _prefixes(line.operand)
                settled = False


def _prefixes(operand: int) -> int:
    return max(0, (operand.bit_length() - 1) // 8)


def _ranges(lines: list[_Line]) -> list[TableEntry]:
    """Exception-table entries: neighbours with the same handler share one."""
    entries: list[TableEntry] = []
    previous: Handler | None = None
    for line in lines:
        handler, target = line.handler, line.handler_line
        if handler is not None and target is not None:
            if handler.same(previous):
                entries[-1] = entries[-1]._replace(end=line.start + line.units)
            else:
                end = line.start + line.units
                entries.append(TableEntry(line.start, end, target.start, handler.depth, handler.lasti))
        previous = handler
    return entries


class _Slots:
    """Where each local, cell and free variable lies among the fast locals."""

    def __init__(
        self, varnames: tuple[str, ...], cells: tuple[str, ...], free: tuple[str, ...], arguments: tuple[str, ...]
    ) -> None:
        if varnames[: len(arguments)] != arguments:
            raise BytecodeError(f"the locals {varnames} do not start with the parameters {arguments}")
        # The compiler gives a cell that is also a plain local for a while (an inlined comprehension's variable) one
        # place among the locals; `code.replace` can make such a place only among the cells.
        self.varnames = [each for each in varnames if each in arguments or each not in cells]
        self.cells, self.free = cells, free
        self.own_cells = [each for each in cells if each not in arguments]
        self._place = {name: at for at, name in enumerate(self.varnames)}
        self._cell_place = {name: at for at, name in enumerate(self.own_cells)}
        self._free_place = {name: at for at, name in enumerate(free)}

    def claim(self, instructions: Sequence[Instruction], like: CodeType) -> None:
        """Make room for the locals that no list names. From 3.12 a free variable's name may be a local's too."""
        for instruction in instructions:
            if operand_families().get(instruction.opname) != "slot" or instruction.opname in _CELL_OPERATIONS:
                continue
            name = instruction.argval
            if name in self._place or name in self._cell_place:
                continue
            if name not in self.free or (name in like.co_varnames and name not in like.co_cellvars):
                self._place[name] = len(self.varnames)
                self.varnames.append(name)

    def of(self, name: str, *, cell: bool) -> int:
        """The operand that addresses `name`, as a cell or as a plain local."""
        start = len(self.varnames)
        places = []
        local, own, free = self._place.get(name), self._cell_place.get(name), self._free_place.get(name)
        if local is not None:
            places.append((cell and name not in self.cells, local))
        if own is not None:
            places.append((not cell, start + own))
        if free is not None:
            places.append((not cell, start + len(self.own_cells) + free))
        if not places:
            raise BytecodeError(f"{name!r} is neither a local nor a cell nor a free variable")
        return min(places)[1]


class _Tables:
    """Constants and names, in `like`'s order, so that decoding and assembling gives the same operands."""

    def __init__(self, like: CodeType, slots: _Slots, dialect: Dialect) -> None:
        self.consts: list[Any] = list(like.co_consts)
        self.names: list[str] = list(like.co_names)
        self.slots = slots
        self.dialect = dialect
        self._const_index: dict[Any, int] = {}
        self._by_identity: dict[int, int] = {}
        for at, const in enumerate(self.consts):
            self._const_index.setdefault(const_key(const), at)
            self._by_identity.setdefault(address(const), at)
        self._name_index = {name: at for at, name in enumerate(self.names)}

    def operand(self, instruction: Instruction) -> int:
        """The number to encode; 0 for a jump, which waits for the layout."""
        if instruction.opname not in opcode.opmap:
            raise BytecodeError(f"this Python has no operation {instruction.opname}")
        family = operand_families().get(instruction.opname)
        if family == "jump":
            if instruction.target is None:
                raise BytecodeError(f"{instruction!r} jumps nowhere")
            return 0
        if family == "const":
            return self._const(instruction.argval)
        if family == "name":
            bits = self.dialect.flag_bits.get(instruction.opname, 0)
            return self._name(instruction) << bits | (instruction.arg or 0) & (1 << bits) - 1
        if family == "slot":
            return self.slots.of(instruction.argval, cell=instruction.opname in _CELL_OPERATIONS)
        if instruction.opname == "COPY_FREE_VARS":
            return len(self.slots.free)
        return instruction.arg or 0

    def _const(self, value: Any) -> int:
        at = self._by_identity.get(address(value))
        if at is None:
            at = self._const_index.setdefault(const_key(value), len(self.consts))
            if at == len(self.consts):
                self.consts.append(value)
            self._by_identity[address(self.consts[at])] = at
        return at

    def _name(self, instruction: Instruction) -> int:
        if not isinstance(instruction.argval, str):
            raise BytecodeError(f"{instruction!r} needs a name")
        at = self._name_index.setdefault(instruction.argval, len(self.names))
        if at == len(self.names):
            self.names.append(instruction.argval)
        return at


def const_key(value: Any) -> Any:
    """Equal for constants that one slot can serve: same type and bits, down through tuples; else the identity, as of what equals nothing."""
    kind = type(value)
    if value is None or value is Ellipsis or kind in (int, bool, str, bytes):
        return kind, value
    if kind in (float, complex) and value != value:
        return "object", address(value)
    if kind is float:
        return kind, struct.pack("d", value)
    if kind is complex:
        return kind, struct.pack("dd", value.real, value.imag)
    if kind is tuple:
        return kind, tuple(const_key(each) for each in value)
    if kind is frozenset:
        return kind, frozenset(const_key(each) for each in value)
    return "object", address(value)
