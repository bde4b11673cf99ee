"""The symbolic machine: its parts, each made of those that it needs."""

from __future__ import annotations

from typing import Any

from capture.history import History
from symshapes import dataclass

from .builder import Inputs, VariableBuilder
from .calls import FunctionCalls
from .classes import ClassLookups
from .custom_gradients import CustomGradients
from .dynamic import DynamicSizes
from .errors import ProgramErrors
from .function_modes import FunctionModes
from .globals import ProgramGlobals
from .guards import GuardTable
from .identity import ObjectIdentity
from .iteration import LanguageIteration
from .levels import TransformLevels
from .operators import LanguageOperators
from .recorder import GraphRecorder
from .refusals import Refusals
from .repeats import Repeats
from .side_effects import SideEffects
from .state import EvaluationState
from .subgraphs import Subgraphs


@dataclass(frozen=True)
class Experience:
    """What earlier attempts at a frame, and a session's earlier captures, found out."""

    refusals: Refusals
    #: What they met where they read sizes and numbers.
    history: History
    #: Calls of functions that remember, which were made before the frame ran.
    ran_ahead: set[Any]
    #: What the program is told when it asks whether a compiler traces it.
    says_compiling: bool
    #: Whether numbers that change may be symbols.
    symbolic_numbers: bool
    #: Whether parameters are to be constants of the graph.
    freezes: bool = False


class Machine:
    """Evaluates one frame's bytecode over variables, for one capture attempt. ``dynamic`` says which sizes are symbols."""

    def __init__(self, root_globals: dict[str, Any], dynamic: bool | None, experience: Experience) -> None:
        self._inputs: Inputs = {}
        self.state = EvaluationState(experience.says_compiling, experience.freezes)
        self.effects = SideEffects(self.state, experience.ran_ahead)
        self.errors = ProgramErrors(self.state, self.effects)
        self.guards = GuardTable(self.state.where)
        self.classes = ClassLookups(self.guards, self.state.where)
        self.identity = ObjectIdentity(self.guards, self.effects, self._inputs)
        self.builder = VariableBuilder(self, self.guards, self.effects, self.errors, self._inputs)
        self.guards.is_alike = self.builder.is_alike
        self.globals = ProgramGlobals(root_globals, self.guards, self.builder, self.effects, self.errors, self._inputs)
        numbers = DynamicSizes(dynamic, experience.history, experience.symbolic_numbers, self.state.where)
        self.recorder = GraphRecorder(
            self, self.state, self.effects, self.errors, self.guards, self.builder, numbers, experience.refusals
        )
        self._repeats = Repeats(self, self.state, self.effects, self.guards, self.builder, self.recorder, self._inputs)
        self.calls = FunctionCalls(self, self.errors, self.recorder, self._repeats)
        self.operators = LanguageOperators(self)
        self.iteration = LanguageIteration(self)
        self.levels = TransformLevels(self, self.state, self.effects, self.recorder)
        self.modes = FunctionModes(self, self.state)
        self.subgraphs = Subgraphs(self, self.state, self.effects, self.globals, self.recorder)
        self.custom_gradients = CustomGradients(self, self.recorder, self.subgraphs)

    def release(self) -> None:
        """Let go of everything. The fakes' autograd graphs would hide the cycles from the garbage collector."""
        self._inputs.clear()
        self.builder.release()
        self.recorder.release()
        self.guards.release()
        self.identity.release()
        self.globals.release()
        self.effects.release()
        self.state.release()
        self.errors.release()
        self.calls.release()
        self._repeats.release()
        self.classes.release()
        vars(self).clear()  # some parts refer to this: it goes at once, with its parts, whenever garbage is collected
