"""Generators that are suspended where the graph ends: made again by generated code, each as far as it was.

In: a generator's frame as evaluation left it. Out: the values that the rest of it takes, and bytecode that makes the generator of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from capture.breaking import Interrupted, begun, generator_at, made_function
from capture.bytecode import build
from capture.lifetimes import lifetimes_of
from capture.resume import taken

from .base import Variable
from .constants import Constant
from .held_locals import held_locals
from .placeholders import NULL
from .reconstruction import Emitter


class Rest:
    """What is left of a generator's frame, which stands at a yield."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        live = lifetimes_of(frame.code).read[frame.op.index]
        local = {name: value for name, value in frame.local.items() if name in live}
        local |= held_locals(frame, live)
        self.bound = frozenset(local)
        first, names, free = taken(frame.code, self.bound)
        self.first = [] if first is None else [self._first(first)]
        self.stack = [value for value in frame.stack if value is not NULL]
        self.locals = [local[name] for name in names]
        self.cells = [frame.cells[name] for name in free]

    @staticmethod
    def is_known(frame: Any) -> bool:
        """Whether that can be told: of a generator that handles no exception, and whose variables are all where its code has them."""
        plain = frame.code.co_flags & inspect.CO_GENERATOR and frame.op.name == "YIELD_VALUE"
        return bool(plain) and frame.handled is None and not frame.program.hides_cells

    def _first(self, name: str) -> Variable:
        """The first argument, as ``super()`` finds it."""
        frame = self.frame
        content = frame.cells[name].content if name in frame.cells else frame.local.get(name)
        return content or Constant(None)  # which what goes on drops

    def values(self) -> Iterator[Variable]:
        """All of them."""
        yield from self.first
        yield from self.stack
        yield from self.locals
        yield from self.cells

    def load(self, e: Emitter) -> None:
        """Push the generator."""
        frame = self.frame
        stack = tuple(value is not NULL for value in frame.stack)
        place = Interrupted(frame.code, frame.globals, frame.op.index, stack, self.bound, False, False, False)
        made = generator_at(place)
        function = e.temp()
        e.emit(build.push_callable(build.load_const(made_function)), build.load_const(made.code))
        e.load_globals(frame.globals)
        e.emit(build.build_tuple(e.load_many(self.cells)), build.call(3), build.store_fast(function))
        e.emit(build.push_callable(build.load_const(begun)), build.push_callable(build.load_fast(function)))
        e.emit(build.call(e.load_many([*self.first, *self.stack, *self.locals])), build.call(1))
