"""Which lines a capture evaluated, for tracers: the replacement passes the same lines, in the frames of the same functions.

In: operations as they are evaluated, only where a tracer watches. Out: instructions that do nothing, at those lines.
"""

from __future__ import annotations

import builtins
import inspect
from dataclasses import field
from dis import Positions
from types import CodeType, FunctionType
from typing import Any

from symshapes import dataclass

from . import _native
from .bytecode import Instruction, assemble, build

#: Lines told of one capture; beyond them (long loops, unrolled) only those not told before.
_MOST_LINES = 10_000
#: What prepares a frame belongs to no line.
_SET_UP = frozenset({"RESUME", "MAKE_CELL", "COPY_FREE_VARS", "RETURN_GENERATOR"})
_PLAIN = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS


@dataclass
class Visit:
    """One run of a code object: line numbers, and the runs of what it called, in order."""

    code: CodeType
    steps: list[int | Visit] = field(default_factory=list)
    told: set[int] = field(default_factory=set)
    last: int = 0

    def line(self, number: int) -> None:
        """Evaluation is at this line."""
        if number == self.last:
            return
        self.last = number
        if len(self.steps) < _MOST_LINES or number not in self.told:
            self.told.add(number)
            self.steps.append(number)

    def call(self, code: CodeType) -> Visit:
        """Evaluation goes on in a function called from here."""
        made = Visit(code)
        if len(self.steps) < _MOST_LINES:
            self.steps.append(made)
        return made


class Watched(list[Any]):
    """Operations that tell a visit their lines when they are taken out."""

    def __init__(self, operations: list[Any], visit: Visit) -> None:
        super().__init__(operations)
        self.visit = visit

    def __getitem__(self, index: Any) -> Any:
        operation = super().__getitem__(index)
        if operation.name not in _SET_UP:
            self.visit.line(operation.line)
        return operation


def passing(visit: Visit) -> list[Instruction]:
    """Instructions that pass the lines of a visit, and those of what it called within functions of their names."""
    out: list[Instruction] = []
    here = Positions(visit.code.co_firstlineno, visit.code.co_firstlineno, 0, 0)
    for step in visit.steps:
        if isinstance(step, int):
            here = Positions(step, step, 0, 0)
            new = [Instruction("NOP")]
        else:
            new = [*build.push_callable(build.load_const(_passing_function(step))), *build.call(0), *build.pop()]
        for instruction in new:
            instruction.positions = here
        out += new
    return out


def _passing_function(visit: Visit) -> FunctionType:
    body = passing(visit)
    end = [*build.load_const(None), *build.return_value()]
    start = build.prologue((), ())
    first = Positions(visit.code.co_firstlineno, visit.code.co_firstlineno, 0, 0)
    for instruction in start:
        instruction.positions = first
    for instruction in end:
        instruction.positions = body[-1].positions if body else first
    code = assemble(
        [*start, *body, *end],
        like=visit.code,
        argnames=(),
        varnames=(),
        cellvars=(),
        freevars=(),
        flags=_PLAIN,
    )
    _native.mark_skip(code)
    return FunctionType(code, {"__builtins__": builtins})
