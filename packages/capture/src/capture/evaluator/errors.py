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
    """Raises in the program, and knows which exception it is handling."""

    def __init__(self, state: EvaluationState, effects: SideEffects) -> None:
        self._state = state
        self._effects = effects
        self._handled_outside = sys.exception() is not None
        #: What is being handled, by the frame itself and then by each generator that is running, as the interpreter keeps it.
        #: None: what was being handled where the frame begins, if anything; or `restored`, which that took the place of.
        self.slots: list[Variable | None] = [None]
        self.restored: Variable | None = None

    @property
    def handled(self) -> Variable | None:
        """The exception that is being handled; None where only the frame's callers may handle one."""
        for value in reversed(self.slots):
            if value is not None:
                return value
        return None

    def current(self, m: Interpreter) -> Variable | None:
        """The exception that is being handled, by whomever; guards that nothing is outside the frame either."""
        if self.handled is None and (self.restored is not None or self.current_outside(m)):
            raise Unsupported("the exception that was being handled where the frame begins")
        return self.handled

    def current_outside(self, m: Interpreter) -> bool:
        """Whether the frame's callers are handling one; guarded if not."""
        if not self._handled_outside:
            m.guards.add(None, GuardKind.ANSWER, (sys.exception, (), None))
        return self._handled_outside

    def handling(self, raised: Variable) -> Variable | None:
        """What an exception that is raised now has for its context; None: what is handled where the frame begins.

        A circle that this would close is opened.
        """
        found: Any = self.handled or self.restored
        if found is raised:
            return None
        link, met = found, set()
        while link is not None and id(link) not in met:  # the program may have closed one itself
            met.add(id(link))
            following = getattr(link, "context", None)
            if following is raised:
                link.context = None
                break
            link = following
        return found

    def release(self) -> None:
        """Let go of the program's objects."""
        self.slots, self.restored = [None], None

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
        raise SymbolicRaise(exception)
