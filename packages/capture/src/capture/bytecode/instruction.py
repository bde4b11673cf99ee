"""One bytecode instruction as an object: operands by meaning, jumps by reference, its exception handler attached.

Lists of these flow out of `decode`, through the evaluator, into `assemble`.
"""

from __future__ import annotations

from dis import Positions
from typing import Any

from symshapes import dataclass

__all__ = ["BytecodeError", "Handler", "Instruction", "Positions"]


class BytecodeError(Exception):
    """Instructions that cannot be one code object: a missing target, an unknown name, an inconsistent stack."""


@dataclass(frozen=True, eq=False, slots=True)
class Handler:
    """An exception-table entry. Instructions that hold the same (or an equal) one form its range.

    On an exception the stack is cut to `depth` values; the instruction's offset is pushed if `lasti`; then the
    exception; and execution goes on at `target`.
    """

    target: Instruction
    depth: int
    lasti: bool = False

    def same(self, other: Handler | None) -> bool:
        """Whether both describe one entry, so that neighbours covered by them share a range."""
        return (
            other is not None
            and self.target is other.target
            and self.depth == other.depth
            and self.lasti == other.lasti
        )


@dataclass(eq=False, slots=True)
class Instruction:
    """`argval` is the operand's meaning: a constant, a name, an operator's symbol, or the plain number.

    `arg` is the raw operand as decoded. `assemble` takes constants and names from `argval` and, of `arg`, only the
    flag bits that share the operand with a name (LOAD_GLOBAL's "push a NULL", LOAD_ATTR's "load a method"); for
    every other operation it takes `arg`. A jump has `target` and needs neither; its direction is settled by
    `assemble`. Compared and hashed by identity.
    """

    opname: str
    arg: int | None = None
    argval: Any = None
    target: Instruction | None = None
    handler: Handler | None = None
    positions: Positions | None = None
    offset: int | None = None  # bytes into the code it was decoded from

    @property
    def lineno(self) -> int | None:
        """The source line, if it has one."""
        return self.positions.lineno if self.positions is not None else None

    def __repr__(self) -> str:
        where = "" if self.offset is None else f"{self.offset} "
        if self.target is not None:
            operand = f" to {self.target.offset} {self.target.opname}"
        elif self.argval is not None:
            operand = f" {self.argval!r}"
        else:
            operand = "" if self.arg is None else f" {self.arg}"
        return f"<{where}{self.opname}{operand}>"
