"""Bytecode that rebuilds the program's state after a graph ran; how each kind is rebuilt is said in ``rebuild``.

In: variables reached from the stack, locals and effects. Out: instructions that push them, each object made once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .bytecode import Instruction, build
from .errors import CaptureError
from .evaluator.machine import Machine
from .names import Names
from .sources import Source
from .variables.base import Lazy, Variable
from .variables.constants import Constant, Known
from .variables.functions import Cell, Generator
from .variables.iterators import Filter, Map
from .variables.numbers import Symbolic
from .variables.tensors import Tensor


@dataclass(frozen=True)
class Kind:
    """How variables of one kind are rebuilt: what they consist of, and how they are pushed.

    A kind that may contain itself is also made ``empty`` first, and completed by ``fill``.
    """

    parts: Callable[[Any], Iterable[Variable]]
    make: Callable[[Emitter, Any], None]
    empty: Callable[[Emitter, Any], None] | None = None
    fill: Callable[[Emitter, Any], None] | None = None


#: What runs code of the program when it is iterated.
_RUNS_LATER = (Generator, Map, Filter)

KINDS: dict[type[Variable], Kind] = {}


def kind_of(variable: Variable) -> Kind:
    """The kind that the variable's class, or a base of it, was registered as."""
    for cls in type(variable).__mro__:
        if cls in KINDS:
            return KINDS[cls]
    raise CannotRebuild(variable, f"{variable!r} cannot be rebuilt after a graph break")


def method_of(cls: type, name: str) -> Any:
    """A method of a real class, unbound."""
    return getattr(cls, name)


def _begins_with(whole: list[Instruction], start: list[Instruction]) -> bool:
    """Whether one reading goes on from another, whatever kind of local it starts at."""
    local = ("LOAD_FAST", "LOAD_DEREF")
    return len(whole) > len(start) and all(
        a.argval is b.argval and (a.opname == b.opname or (a.opname in local and b.opname in local))
        for a, b in zip(whole, start, strict=False)
    )


def resolved(variable: Variable) -> Variable:
    """The variable behind an input that was looked at."""
    while isinstance(variable, Lazy) and variable.seen is not None:
        variable = variable.seen
    return variable


class CannotRebuild(CaptureError):
    """Signal: a live value cannot be rebuilt by code; it must be made for real at the step that created it."""

    def __init__(self, variable: Variable, why: str) -> None:
        super().__init__(why)
        self.variable = variable
        self.why = why


class Emitter:
    """Collects instructions. ``plan`` first finds what is reachable; then ``load`` pushes values."""

    def __init__(self, m: Machine, cellvars: tuple[str, ...], names: Names) -> None:
        self.m = m
        self.names = names
        self.cellvars = frozenset(cellvars)
        self.out: list[Instruction] = []
        self.uses: dict[int, int] = {}
        self.cyclic: set[int] = set()
        self.temps: dict[int, str] = {}
        self.source_temps: dict[Source, str] = {}
        self.save_sources = False
        self.shared: dict[Source, int] = {}
        self.results: list[Variable] = []
        self.cells: list[Cell] = []
        self.made: list[str] = []

    # Planning

    def plan(self, roots: Iterable[Variable]) -> None:
        """Count uses, find cycles, collect the graph's results and the frame's cells that are needed."""
        path: set[int] = set()
        for root in roots:
            self._visit(resolved(root), path)

    def _visit(self, variable: Variable, path: set[int]) -> None:
        key = id(variable)
        if key in path:
            self.cyclic.add(key)
            self.uses[key] += 1
            return
        if key in self.uses:
            self.uses[key] += 1
            return
        self.uses[key] = 1
        if isinstance(variable, Cell) and variable.name is not None:
            self.cells.append(variable)
            if variable.content is not None and variable.name in self.cellvars:
                path.add(key)
                self._visit(resolved(variable.content), path)
                path.discard(key)
            return
        if self.is_input(variable):
            return
        if isinstance(variable, Tensor | Symbolic):
            self.results.append(variable)
            return
        if isinstance(variable, _RUNS_LATER):
            self.m.effects.suspended.append(repr(variable))
        path.add(key)
        for part in kind_of(variable).parts(variable):
            self._visit(resolved(part), path)
        path.discard(key)

    def is_input(self, variable: Variable) -> bool:
        """Whether the value is read from its source."""
        return variable.source is not None

    # Emission

    def emit(self, *parts: Iterable[Instruction]) -> None:
        for part in parts:
            self.out.extend(part)

    def temp(self) -> str:
        """A fresh local."""
        self.made.append(self.names.temporary(len(self.made)))
        return self.made[-1]

    def share(self, sources: Iterable[Source]) -> None:
        """Note which places several of these are read from: such a place is read once."""
        for source in sources:
            parent = source.parent
            while parent is not None:
                first = parent not in self.shared
                self.shared[parent] = self.shared.get(parent, 0) + 1
                if not first:
                    break
                parent = parent.parent

    def load_source(self, source: Source) -> None:
        """Push an input, or a part of one that was saved."""
        saved = self.source_temps.get(source)
        if saved is not None:
            self.emit(build.load_fast(saved))
            return
        self.out.extend(self.reading(source))
        if self.save_sources or self.shared.get(source, 0) > 1:
            name = self.temp()
            self.emit(build.copy(1), build.store_fast(name))
            self.source_temps[source] = name

    def reading(self, source: Source) -> list[Instruction]:
        """Instructions that read a source, from its parent's saved value if that is shared."""
        whole = source.load()
        for instruction in whole:
            if instruction.opname == "LOAD_FAST" and instruction.argval in self.cellvars:
                instruction.opname = "LOAD_DEREF"
        parent = source.parent
        if parent is None or self.shared.get(parent, 0) < 2:
            return whole
        start = parent.load()
        if not _begins_with(whole, start):
            return whole
        self.load_source(parent)
        return whole[len(start) :]

    def load(self, variable: Variable) -> None:
        """Push a value."""
        variable = resolved(variable)
        key = id(variable)
        name = self.temps.get(key)
        if name is not None:
            self.emit(build.load_fast(name))
            return
        if isinstance(variable, Cell) and variable.name is not None:
            self.emit(build.load_closure(variable.name))
            return
        if variable.source is not None:
            self.load_source(variable.source)
            return
        kind = kind_of(variable)
        if key in self.cyclic:
            if kind.empty is None or kind.fill is None:
                raise CannotRebuild(variable, f"{variable!r} contains itself")
            kind.empty(self, variable)
            self.keep(variable)
            kind.fill(self, variable)
            return
        kind.make(self, variable)
        if self.uses.get(key, 1) > 1 and not isinstance(variable, Constant | Known):
            self.keep(variable)

    def keep(self, variable: Variable) -> None:
        """Store the top in a local for further uses; it stays on the stack."""
        name = self.temps[id(variable)] = self.temp()
        self.emit(build.copy(1), build.store_fast(name))

    def call(self, function: Any, args: list[Variable]) -> None:
        """Push ``function(*args)`` of a real function."""
        self.emit(build.push_callable(build.load_const(function)))
        for arg in args:
            self.load(arg)
        self.emit(build.call(len(args)))

    def call_discarding(self, function: Any, args: list[Variable]) -> None:
        self.call(function, args)
        self.emit(build.pop())

    def load_many(self, values: Iterable[Variable]) -> int:
        count = 0
        for value in values:
            self.load(value)
            count += 1
        return count

    def load_list(self, values: list[Variable]) -> None:
        self.load_many(values)
        self.emit(build.build_list(len(values)))
