"""How values of the frame are made again later, in code that the graph calls: of values of the graph, and of objects from outside.

In: variables. Out: a `Recipe`; the nodes of the graph that it needs. What can be had in no other way than by the frame is ``Unsupported``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from capture._native import address
from capture.errors import NotConstant, Unsupported
from capture.late_code import Recipe, held

from .base import Interpreter, Variable
from .later_reads import comes_anew
from .mappings import Dict
from .sequences import List, Tuple

_Step = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Any]


class MadeAgain:
    """The steps that make values again; ``free`` are the nodes whose values are given, to which those are added that are needed."""

    def __init__(self, m: Interpreter, free: list[fx.Node]) -> None:
        self._m = m
        self._free = free
        self._steps: list[_Step] = []
        self._objects: list[Callable[[], Any]] = []
        self._known: dict[int, int] = {}
        self._waiting: set[int] = set()

    def step_of(self, variable: Variable) -> int:
        """The step that makes this value; one for what is one object."""
        variable = variable.realize(self._m)
        key = address(variable)
        if key not in self._known:
            if key in self._waiting:
                raise Unsupported("a backward that is given an object that holds itself")
            self._waiting.add(key)
            step = self._step(variable)
            self._waiting.discard(key)
            self._steps.append(step)
            self._known[key] = len(self._steps) - 1
        return self._known[key]

    def recipe(self, wanted: Sequence[int]) -> Recipe:
        """What makes the values of these steps."""
        return Recipe(tuple(self._steps), tuple(self._objects), tuple(wanted))

    def _step(self, variable: Variable) -> _Step:
        m = self._m
        if variable.node is not None:
            return _given(self._place(variable.node))
        real = m.builder.outside(variable)
        if real is not None:
            if comes_anew(variable.source, real):
                raise Unsupported("a backward that is given an argument and reads what may be another when it runs")
            m.guards.note_identity(variable, real)
            self._objects.append(held(real))
            return _from_outside(len(self._objects) - 1)
        kind = variable.python_type()
        if isinstance(variable, (List, Tuple)) and kind in (list, tuple):
            return _sequence(kind, [self.step_of(item) for item in variable.items])
        if isinstance(variable, Dict) and kind is dict:
            return _dictionary([(self.step_of(key), self.step_of(part)) for key, part in m.iteration.pairs(variable)])
        try:
            value = m.builder.to_python(variable)
        except NotConstant as problem:
            raise Unsupported(
                f"a backward that is given {variable!r} and reads what may be another when it runs"
            ) from problem
        return lambda made, free, objects: value

    def _place(self, node: fx.Node) -> int:
        if node not in self._free:
            self._free.append(node)
        return self._free.index(node)


def _given(place: int) -> _Step:
    return lambda made, free, objects: free[place]


def _from_outside(place: int) -> _Step:
    return lambda made, free, objects: objects[place]


def _sequence(kind: type, places: Sequence[int]) -> _Step:
    return lambda made, free, objects: kind(made[place] for place in places)


def _dictionary(places: Sequence[tuple[int, int]]) -> _Step:
    return lambda made, free, objects: {made[key]: made[value] for key, value in places}
