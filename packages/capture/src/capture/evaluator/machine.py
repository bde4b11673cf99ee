"""The symbolic machine: its parts, each made of those that it needs."""

from __future__ import annotations

from typing import Any

from .builder import Inputs, VariableBuilder
from .calls import FunctionCalls
from .classes import ClassLookups
from .errors import ProgramErrors
from .globals import ProgramGlobals
from .guards import GuardTable
from .identity import ObjectIdentity
from .iteration import LanguageIteration
from .operators import LanguageOperators
from .recorder import GraphRecorder
from .side_effects import SideEffects
from .state import EvaluationState


class Machine:
    """Evaluates one frame's bytecode over variables, for one capture attempt. ``dynamic`` says which sizes are symbols."""

    def __init__(self, root_globals: dict[str, Any], dynamic: bool | None) -> None:
        self._inputs: Inputs = {}
        self.state = EvaluationState()
        self.effects = SideEffects(self.state)
        self.errors = ProgramErrors(self.state, self.effects)
        self.guards = GuardTable(self.state.where)
        self.classes = ClassLookups(self.guards, self.state.where)
        self.identity = ObjectIdentity(self.guards, self.effects, self._inputs)
        self.builder = VariableBuilder(self, self.guards, self.effects, self.errors, self._inputs)
        self.globals = ProgramGlobals(root_globals, self.guards, self.builder, self.effects, self.errors, self._inputs)
        self.recorder = GraphRecorder(self, self.state, self.effects, self.errors, self.guards, self.builder, dynamic)
        self.calls = FunctionCalls(self, self.errors, self.recorder)
        self.operators = LanguageOperators(self)
        self.iteration = LanguageIteration(self)

    def release(self) -> None:
        """Let go of everything. The fakes' autograd graphs would hide the cycles from the garbage collector."""
        self._inputs.clear()
        self.recorder.release()
        self.guards.release()
        self.classes.release()
        self.identity.release()
        self.globals.release()
        self.effects.release()
        self.state.frames.clear()
        self.errors.handled = None
