"""Texts in which a symbolic number is written out: what such a one says is asked, and guarded, when it is looked at.

The message of an assertion that holds (`assert n % 8 == 0, f"{n} is not ..."`) never is.
"""

from __future__ import annotations

from .base import Interpreter, Variable
from .constants import Constant
from .numbers import Symbolic
from .placeholders import Lazy
from .reconstruction import Emitter


class Written(Lazy):
    """A text that is not written yet."""

    def __init__(self) -> None:
        super().__init__(None, None)

    def reconstruct(self, e: Emitter) -> None:
        e.load(self.realize(e.m))

    def __repr__(self) -> str:
        return "<a text with a symbolic number>"


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


class WrittenTogether(Written):
    """Several texts one after the other, one of them not written yet."""

    def __init__(self, parts: list[Variable]) -> None:
        super().__init__()
        self.parts = parts

    def realize(self, m: Interpreter) -> Variable:
        if self.seen is None:
            self.seen = Constant(m.builder.fold("".join, [[m.builder.to_python(part) for part in self.parts]]))
        return self.seen
