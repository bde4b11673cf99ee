"""Exceptions of the program under evaluation: raised by what it does, and being handled by it."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from capture.errors import Unsupported
from capture.guards import GuardKind
from capture.variables.base import Interpreter, SymbolicRaise, Variable
from capture.variables.constants import Constant
from capture.variables.exceptions import ExceptionObject

from .side_effects import SideEffects
from .state import EvaluationState


class ProgramErrors:
    """Raises in the program, and knows which exception it is handling, and at which step that was raised."""

    def __init__(self, state: EvaluationState, effects: SideEffects) -> None:
        self._state = state
        self._effects = effects
        self._handled_outside = sys.exception() is not None
        #: What is being handled, by the frame itself and then by each generator that is running, as the interpreter keeps it.
        self.slots: list[Variable | None] = [None]

    @property
    def handled(self) -> Variable | None:
        """The exception that is being handled; None where only the frame's callers may handle one."""
        return next((value for value in reversed(self.slots) if value is not None), None)

    def current(self, m: Interpreter) -> Variable | None:
        """The exception that is being handled, by whomever; guards that nothing is outside the frame either."""
        if self.handled is None and self.current_outside(m):
            raise Unsupported("the exception that a caller is handling")
        return self.handled

    def current_outside(self, m: Interpreter) -> bool:
        """Whether the frame's callers are handling one; guarded if not."""
        if not self._handled_outside:
            m.guards.add(None, GuardKind.ANSWER, (sys.exception, (), None))
        return self._handled_outside

    def chain(self, exception: Any) -> None:
        """An exception is raised while another is handled, which becomes its context; a circle that this would close is opened."""
        handled: Any = self.handled
        if handled is None or handled is exception:
            return
        link, met = handled, set()
        while link is not None and id(link) not in met:  # the program may have closed one itself
            met.add(id(link))
            if link.context is exception:
                link.context = None
                break
            link = link.context
        exception.context = handled

    def release(self) -> None:
        """Let go of the program's objects."""
        self.slots = [None]

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
        exception.origin, exception.thrown = self._state.step, True
        self.chain(exception)
        raise SymbolicRaise(exception)
