"""Exceptions by which variables and the interpreter tell each other how the program goes on."""

from __future__ import annotations

from .base import Variable


class StopIter(Exception):
    """Signal of symbolic iterators: exhausted; ``value`` is what a generator returned."""

    def __init__(self, value: Variable | None = None) -> None:
        super().__init__()
        self.value = value


class SymbolicRaise(Exception):
    """A user exception raised while evaluating; ``exception`` is the variable of the exception object."""

    def __init__(self, exception: Variable) -> None:
        super().__init__(repr(exception))
        self.exception = exception
