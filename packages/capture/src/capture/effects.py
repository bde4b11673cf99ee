"""Side effects: what the frame changed on objects from outside, applied to the real objects after the graph ran.

All new values are pushed to locals first, so that no source is read after the first change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from capture._native import address

from .bytecode import build
from .emit import Emitter
from .evaluator.globals import ProgramGlobals
from .evaluator.side_effects import SideEffects
from .sources import Source
from .variables.base import Variable
from .variables.constants import Constant
from .variables.functions import Cell
from .variables.held_iterators import Held
from .variables.placeholders import resolved


class Replay:
    """The changes of one attempt: which objects, and the values they need. ``cellvars`` are the cells of the frame itself."""

    def __init__(self, effects: SideEffects, module_globals: ProgramGlobals, cellvars: tuple[str, ...]) -> None:
        self.cellvars = frozenset(cellvars)
        self.targets = [v for v in effects.changed.values() if self.is_outside(v)]
        self.globals = list(module_globals.written.items())
        self.own_globals = module_globals.own

    def is_outside(self, variable: Variable) -> bool:
        """Whether it existed before the frame ran, or outlives it: a change of it is seen."""
        if isinstance(variable, Cell) and variable.name is not None:
            return variable.name not in self.cellvars
        return variable.source is not None

    def __bool__(self) -> bool:
        return bool(self.targets or self.globals)

    def roots(self) -> list[Variable]:
        """Every object changed and every value stored."""
        found: list[Variable] = []
        for target in self.targets:
            found.append(target)
            found.extend(target.written())
        found.extend(v for _, (_, v) in self.globals if v is not None)
        return found

    def passed(self) -> Iterator[Source]:
        """What is at hand where iterators are moved: the last that each passed."""
        for each in self.targets:
            if isinstance(each, Held) and each.moved_over is not None:
                yield each.moved_over

    def emit(self, e: Emitter) -> None:
        """Load everything, then apply in the order of first change."""
        saved: dict[int, str] = {}
        for value in map(resolved, self.roots()):
            if address(value) in saved or isinstance(value, Constant):
                continue
            if isinstance(value, Cell) and value.name is not None:
                continue
            e.load(value)
            saved[address(value)] = name = e.temp()
            e.emit(build.store_fast(name))
            e.temps.setdefault(address(value), name)
        for target in self.targets:
            target.replay(e)
        for (_, name), (namespace, content) in self.globals:
            self.store_global(e, namespace, name, content)

    def store_global(self, e: Emitter, namespace: dict[str, Any], name: str, value: Variable | None) -> None:
        """Write or, with None, delete a global of a module."""
        if value is None:
            # What the frame itself had put there need not have been there before.
            e.emit(build.push_callable(build.load_const(dict.pop)), build.load_const(namespace))
            e.emit(build.load_const(name), build.load_const(None), build.call(3), build.pop())
            return
        e.load(value)
        if namespace is self.own_globals:  # may hold the code that the generated one is kept with: no constant of that
            e.emit(build.store_global(name))
        else:
            e.emit(build.load_const(namespace), build.load_const(name), build.store_subscr())
