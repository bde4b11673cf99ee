"""Exceptions of the program under evaluation: raised by what it does, and being handled by it."""

from __future__ import annotations

from typing import Any, NoReturn

from capture.variables.base import SymbolicRaise, Variable
from capture.variables.constants import Constant
from capture.variables.exceptions import ExceptionObject

from .side_effects import SideEffects
from .state import EvaluationState


class ProgramErrors:
    """Raises in the program, and knows which exception it is handling."""

    def __init__(self, state: EvaluationState, effects: SideEffects) -> None:
        self._state = state
        self._effects = effects
        #: None: the one that was being handled where the frame begins, if any; or `restored`, which that took the place of.
        self.handled: Variable | None = None
        self.restored: Variable | None = None

    def handling(self, raised: Variable) -> Variable | None:
        """What an exception that is raised now has for its context; None: what is handled where the frame begins."""
        found = self.handled or self.restored
        return None if found is raised else found

    def make_exception(self, cls: type, args: list[Variable]) -> Variable:
        """A new exception object."""
        made: Variable = self._effects.created(ExceptionObject(cls, args))
        return made

    def throw(self, cls: type, message: str) -> NoReturn:
        """Raise an exception in the program under evaluation."""
        self.throw_value(cls, [Constant(message)])

    def throw_value(self, cls: type, args: list[Variable]) -> NoReturn:
        """The same with any arguments."""
        exception: Any = self.make_exception(cls, args)
        exception.origin = self._state.step
        raise SymbolicRaise(exception)
