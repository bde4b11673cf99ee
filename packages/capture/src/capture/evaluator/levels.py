"""Levels of function transforms (vmap, grad, jvp): entered for real while the program is evaluated, and by calls in the graph.

In: what torch's own Python of `torch.func` does to enter and leave them. Out: calls in the graph, each level's number the value of the
call that entered it. Between them operations are evaluated on fakes that torch's interpreters wrap, as they wrap tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import fx

from capture._torch import LEAVE_LEVEL, composed_in_python, saved_tensor_hooks, why_no_saved_tensor_hooks
from capture.errors import Unsupported
from capture.variables.base import Args, Variable
from capture.variables.constants import Constant
from symshapes import levels_kept

from .recorder import GraphRecorder
from .side_effects import SideEffects
from .state import EvaluationState

# A backend that drops calls nobody reads shall not drop these.
for _leave in LEAVE_LEVEL:
    fx.node.has_side_effect(_leave)


def leaving_levels(graph: Callable[..., Any]) -> Callable[..., Any]:
    """A graph that is run call by call: where one raises, the levels that it has entered are left."""

    def run(*inputs: Any) -> Any:
        with levels_kept():
            return graph(*inputs)

    return run


class Level(Variable):
    """A level's number: an integer for the program, the value of the call that entered it for the graph."""

    def __init__(self, node: fx.Node, number: int) -> None:
        self.entered_by = node
        self.number = number

    def as_argument(self, m: Any) -> tuple[Any, Any]:
        return self.entered_by, self.number


class TransformLevels:
    """The levels that one attempt has entered, outermost first."""

    def __init__(self, m: Any, state: EvaluationState, effects: SideEffects, recorder: GraphRecorder) -> None:
        self._m = m
        self._state = state
        self._effects = effects
        self._recorder = recorder
        self._entered: list[tuple[int, fx.Node]] = []
        #: The step at which the outermost one was entered.
        self.since = 0
        #: Whether the program's saved-tensor hooks are in force, which an evaluation does not see.
        self.under_hooks = saved_tensor_hooks(False) is not None or why_no_saved_tensor_hooks() is not None

    @property
    def inside(self) -> bool:
        """Whether any level is entered: the graph cannot end here."""
        return bool(self._entered)

    @property
    def on_symbols(self) -> AbstractContextManager[Any]:
        """What operations run in: within levels, where sizes are symbols, in what takes them."""
        symbolic = self._entered and self._recorder.dynamic_sizes.env.symbols()
        return composed_in_python() if symbolic else nullcontext()

    def enter(self, function: Callable[..., int], args: Args) -> Variable:
        """Enter a level; the number that it has."""
        if self._recorder.graph.checkpoint is not None:
            raise Unsupported("a function transform within a checkpoint")
        if not self._entered:
            self.since = self._state.step
        node, number = self._call(function, args)
        self._entered.append((number, node))
        return Constant(number)

    def leave(self, function: Callable[..., int]) -> Variable:
        """Leave the innermost level."""
        self._entered.pop()
        return Constant(self._call(function, [])[1])

    def set(self, function: Callable[..., Any], args: Args) -> None:
        """Set what holds within levels."""
        if not self._entered:
            raise Unsupported(f"{function.__name__} outside of a function transform")
        self._call(function, args)

    def level(self, number: Variable) -> Level:
        """A level that is entered, as an argument of an operation."""
        wanted = self._m.builder.to_python(number)
        node = next((node for entered, node in self._entered if entered == wanted), None)
        if node is None:
            raise Unsupported("a function transform's level that is not entered")
        return Level(node, wanted)

    def _call(self, function: Callable[..., Any], args: Args) -> tuple[fx.Node, Any]:
        given = [arg.realize(self._m).as_argument(self._m) for arg in args]
        self._effects.left_behind()
        line = self._state.where()
        node = self._recorder.graph.call("call_function", function, tuple(pair[0] for pair in given), {}, line)
        node.meta |= {"step": self._state.step, "effect": "other", "lasts": False}
        node.meta["val"] = result = function(*(pair[1] for pair in given))
        return node, result
