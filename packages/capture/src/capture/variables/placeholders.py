"""Stand-ins for values: the interpreter's NULL, and inputs that were not looked at yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from capture.bytecode import Instruction
from capture.sources import Source

from .base import Interpreter, Variable
from .reconstruction import Emitter


class Null(Variable):
    """The interpreter's NULL on the value stack (or an unbound local saved there)."""

    def made_of(self) -> Iterable[Variable]:
        return ()

    def reconstruct(self, e: Emitter) -> None:
        e.emit([Instruction("PUSH_NULL")])


NULL = Null()


class Lazy(Variable):
    """An input value not looked at yet: no guard until it is."""

    def __init__(self, value: Any, source: Source | None) -> None:
        self.value = value
        self.source = source
        self.seen: Variable | None = None

    def realize(self, m: Interpreter) -> Variable:
        if self.seen is None:
            assert self.source is not None
            self.seen = m.builder.wrap(self.value, self.source)
        return self.seen

    def made_of(self) -> Iterable[Variable]:
        return ()

    def reconstruct(self, e: Emitter) -> None:
        assert self.source is not None
        e.load_source(self.source)

    def __repr__(self) -> str:
        return f"<input {self.source.name if self.source else '?'}>"


def real_of(variable: Variable) -> Any:
    """The object that stands behind an input, looked at or not; None for any other."""
    return variable.value if isinstance(variable, Lazy) else getattr(variable, "value", None)


def resolved(variable: Variable) -> Variable:
    """The variable behind an input that was looked at."""
    while isinstance(variable, Lazy) and variable.seen is not None:
        variable = variable.seen
    return variable
