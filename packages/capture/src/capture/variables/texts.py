"""Texts in which a symbolic number or a tensor is written out: what such a one says is asked when it is looked at, which guards the number,
and ends the graph before a tensor was written.

The message of a check that holds (`check(n % 8 == 0, f"{n} is not ...")`) never is, nor is what goes to a logger that is told to be silent.
"""

from __future__ import annotations

from capture.errors import Unsupported

from .base import Interpreter, Variable
from .constants import Constant
from .numbers import Symbolic
from .placeholders import Lazy
from .reconstruction import CannotReconstruct, Emitter


class Written(Lazy):
    """A text that is not written yet."""

    def __init__(self) -> None:
        super().__init__(None, None)

    def reconstruct(self, e: Emitter) -> None:
        e.load(self.realize(e.m))

    def __repr__(self) -> str:
        return "<a text that is not written yet>"


class WrittenNumber(Written):
    """``format(number, spec)``."""

    def __init__(self, number: Symbolic, spec: str) -> None:
        super().__init__()
        self.number = number
        self.spec = spec

    def realize(self, m: Interpreter) -> Variable:
        if self.seen is None:
            self.seen = Constant(m.builder.fold(format, [self.number.specialise(m), self.spec]))
        return self.seen


class WrittenTensor(Written):
    """``format(tensor)``: only the run can tell."""

    WHY = "formatting a tensor"

    def realize(self, m: Interpreter) -> Variable:
        raise Unsupported(self.WHY, self.step)

    def reconstruct(self, e: Emitter) -> None:
        raise CannotReconstruct(self, self.WHY)


class WrittenTogether(Written):
    """Several texts one after the other, one of them not written yet."""

    def __init__(self, parts: list[Variable]) -> None:
        super().__init__()
        self.parts = parts

    def realize(self, m: Interpreter) -> Variable:
        if self.seen is None:
            self.seen = Constant(m.builder.fold("".join, [[m.builder.to_python(part) for part in self.parts]]))
        return self.seen

    def reconstruct(self, e: Emitter) -> None:
        for part in self.parts:
            if isinstance(part, WrittenTensor):
                part.reconstruct(e)
        super().reconstruct(e)
