"""A code object prepared for evaluation: operations by index, with their handlers, jump targets and exception table."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any

from capture.bytecode import Instruction, decode
from capture.code_map import CodeMap

if TYPE_CHECKING:
    from .frame import Frame
    from .machine import Machine

Handler = Callable[["Machine", "Frame", "Op"], str | None]


class Op:
    """One operation. ``target`` is the index jumped to, ``catch`` the index of its exception handler."""

    __slots__ = ("arg", "catch", "depth", "handler", "index", "lasti", "line", "name", "target", "value")

    def __init__(self, index: int, instruction: Instruction, handler: Handler) -> None:
        self.index = index
        self.name = instruction.opname
        self.arg = instruction.arg or 0
        self.value: Any = instruction.argval
        self.line = instruction.lineno
        self.handler = handler
        self.target = -1
        self.catch = -1
        self.depth = 0
        self.lasti = False


class Program:
    """The operations of ``code``; ``instructions`` are the same by index, for code generation."""

    def __init__(self, code: CodeType) -> None:
        from .opcodes import handler_of

        self.instructions = decode(code)
        index = {id(instruction): i for i, instruction in enumerate(self.instructions)}
        self.ops: list[Op] = []
        line = code.co_firstlineno
        for i, instruction in enumerate(self.instructions):
            op = Op(i, instruction, handler_of(instruction.opname))
            line = op.line = op.line or line
            if instruction.target is not None:
                op.target = index[id(instruction.target)]
            if instruction.handler is not None:
                op.catch = index[id(instruction.handler.target)]
                op.depth = instruction.handler.depth
                op.lasti = instruction.handler.lasti
            self.ops.append(op)


_programs: CodeMap[Program] = CodeMap()


def program_of(code: CodeType) -> Program:
    """The program of a code object, decoded once."""
    found = _programs.get(code)
    if found is None:
        found = _programs[code] = Program(code)
    return found


def reset_programs() -> None:
    """Forget decoded programs."""
    _programs.clear()
