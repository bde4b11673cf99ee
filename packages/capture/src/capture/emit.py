"""Bytecode that rebuilds the program's state after a graph ran; each variable says how its value is made again.

In: variables reached from the stack, locals and effects. Out: instructions that push them, each object made once.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any

import torch

from capture._native import address

from . import _torch
from .bytecode import Instruction, build
from .guards import GuardKind
from .names import Names
from .sources import Const, Global, Local, Source
from .trace_rules import are_of_module
from .variables import iterators
from .variables.base import Interpreter, Variable
from .variables.constants import Real
from .variables.functions import Cell
from .variables.payloads import whole
from .variables.placeholders import resolved
from .variables.reconstruction import CannotReconstruct


def _begins_empty(variable: Variable) -> bool:
    """Whether one can be made before what it is made of."""
    return type(variable).reconstruct_empty is not Variable.reconstruct_empty


def _begins_with(whole: list[Instruction], start: list[Instruction]) -> bool:
    """Whether one reading goes on from another, whatever kind of local it starts at."""
    local = ("LOAD_FAST", "LOAD_DEREF")
    return len(whole) > len(start) and all(
        a.argval is b.argval and (a.opname == b.opname or (a.opname in local and b.opname in local))
        for a, b in zip(whole, start, strict=False)
    )


#: What has the globals of the code that defined it, or leads there.
_HOLDING = (FunctionType, type)


class Emitter:
    """Collects instructions. ``plan`` first finds what is reachable; then ``load`` pushes values."""

    def __init__(self, m: Interpreter, cellvars: tuple[str, ...], names: Names) -> None:
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
        #: What is given by moving what goes over it, and only held.
        self.late: set[Source] = set()
        self.results: list[Variable] = []
        self.cells: list[Cell] = []
        self.made: list[str] = []
        #: Whether something refers to the frame that may outlive it: what its own locals have is not to be held by it.
        self.leaves_frame = False
        #: What the frame hands out unfinished, in words.
        self.suspended: list[str] = []
        #: Whether what the frame changed outside has its new content.
        self.changed = True
        #: By identity, what is made of an iterator that has to be made after that, and these iterators themselves.
        self.waiting: set[int] = set()
        #: By identity, what is being made.
        self._making: set[int] = set()
        self._moves: list[tuple[str, Callable[[], None]]] = []
        #: The frame's globals where they are of no module. These may hold the code that the generated one is kept with, and constants of code
        #: are nothing that the collector sees: they, and what leads to them, are read through the frame instead.
        self._transient: dict[str, Any] | None = None if are_of_module(m.globals.own) else m.globals.own
        #: By the address of a function or class, which of these globals it is.
        self._named: dict[int, str] = {}
        if self._transient is not None:
            written = {name for _, name in m.globals.written}
            for name, value in list(self._transient.items()):
                if type(name) is str and name not in written and issubclass(type(value), _HOLDING):
                    self._named[address(value)] = name

    # Planning

    def plan(self, roots: Iterable[Variable]) -> None:
        """Count uses, find cycles, collect the graph's results and the frame's cells that are needed."""
        path: dict[int, Variable] = {}
        for root in roots:
            self._visit(resolved(root), path)

    def _visit(self, variable: Variable, path: dict[int, Variable]) -> None:
        variable = whole(variable)
        self.m.effects.later.changes(variable, hands_out=True)
        key = address(variable)
        if key in path:
            # Of the whole circle, since any of it may be what is loaded first.
            around = [*path.items()][[*path].index(key) :]
            self.cyclic |= {at for at, each in around if _begins_empty(each)} or {key}
            self.uses[key] += 1
            return
        if key in self.uses:
            self.uses[key] += 1
            return
        self.uses[key] = 1
        if isinstance(variable, Cell) and variable.name is not None:
            self.cells.append(variable)
            if variable.content is not None and variable.name in self.cellvars:
                path[key] = variable
                self._visit(resolved(variable.content), path)
                del path[key]
            return
        if self.is_input(variable):
            for part in self._classes_of(variable):
                self._visit(part, path)
            return
        if variable.node is not None:
            value = variable.node.meta.get("val")
            if isinstance(value, torch.Tensor) and _torch.is_wrapped(value):
                raise CannotReconstruct(variable, "a tensor of a function transform (vmap, grad, ...) that outlives it")
            self.results.append(variable)
            for part in variable.attached():
                self._visit(resolved(part), path)
            return
        if variable.runs_later:
            self.suspended.append(repr(variable))
        path[key] = variable
        waits = isinstance(variable, iterators.Iterator) and variable.waits_for(self.m)
        for part in map(resolved, (*variable.made_of(), *self._classes_of(variable))):
            self._visit(part, path)
            waits = waits or address(whole(part)) in self.waiting
        if waits:
            self.waiting.add(key)
        del path[key]

    def _classes_of(self, variable: Variable) -> Iterator[Variable]:
        """The classes that the frame made and a variable knows by their prototypes."""
        made = self.m.classes.made
        if not made:
            return
        source = variable.source
        root = source.root if source is not None else None
        known = [getattr(variable, name, None) for name in ("cls", "start", "owner")]
        for each in (
            *known,
            variable.value if isinstance(variable, Real) else None,
            root.value if isinstance(root, Const) else None,
        ):
            for real in (each, type(each)):
                part = self.m.classes.parts.get(address(real))
                found = made.get(address(real)) if part is None else part[0]
                if found is not None and found is not variable:
                    yield found

    def look(self, variable: Variable) -> tuple[Variable, bool, Iterable[Variable]]:
        """What ``held_locals`` is told, once all is planned that others need."""
        variable = whole(resolved(variable))
        return variable, address(variable) in self.uses, self._classes_of(variable)

    def is_input(self, variable: Variable) -> bool:
        """Whether the value is read from its source."""
        return variable.source is not None

    # Emission

    def emit(self, *parts: Iterable[Instruction]) -> None:
        """Add instructions."""
        for part in parts:
            if not self.m.classes.made and not self.m.guards.arguments and not self._named:
                self.out.extend(part)
                continue
            for instruction in part:
                if instruction.opname != "LOAD_CONST" or not self._load_of_call(instruction.argval):
                    self.out.append(instruction)

    def _load_of_call(self, value: Any) -> bool:
        """Push an object of this call, which the code would keep alive as a constant of its own."""
        argument = self.m.guards.arguments.get(address(value))
        if argument is None and address(value) in self._named:
            argument = Global(self._named[address(value)])
            self.m.guards.add(argument, GuardKind.ID, value)
        if argument is None:
            return bool(self.m.classes.made) and self._load_made(value)
        self.load_source(argument)
        return True

    def _load_made(self, value: Any) -> bool:
        """Push what a prototype, or a part of one, stands for, if a value is that."""
        classes = self.m.classes
        made, name, inner = classes.parts.get(address(value)) or (classes.made.get(address(value)), "", "")
        member = made is None and isinstance(value, enum.Enum) and classes.made.get(address(type(value)))
        made = made or member
        if not made:
            return False
        if address(made) not in self.uses and made.source is None:
            raise CannotReconstruct(made, f"{made!r}, which is reached from where that is not seen")
        self.load(made)
        if name:
            self.emit(build.load_attr("__dict__"), build.load_const(name), build.binary_subscr())
        if inner:
            self.emit(build.load_attr(inner))
        if member:
            named = value._name_ in type(value).__members__
            if not named:
                raise CannotReconstruct(made, f"{value!r}, a member without a name of {made!r}")
            self.emit(build.load_const(value._name_), build.binary_subscr())
        return True

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
        self.emit(self.reading(source))
        is_local = isinstance(source, Local) and source.local not in self.cellvars
        if not is_local and (self.save_sources or self.shared.get(source, 0) > 1):
            name = self.temp()
            self.emit(build.copy(1), build.store_fast(name))
            self.source_temps[source] = name

    def preload_source(self, source: Source) -> None:
        """Have an input as it is now in a local; an argument is in one that no effect writes to."""
        if source in self.source_temps or source in self.late:
            return
        if isinstance(source, Local) and source.local not in self.cellvars:
            return
        self.emit(self.reading(source))
        self.have(source)

    def reads_through_frame(self, namespace: dict[str, Any]) -> bool:
        """Whether globals may be no constant of the code: they are the frame's, and of no module."""
        return namespace is self._transient

    def load_globals(self, namespace: dict[str, Any]) -> None:
        """Push the globals of a function."""
        own = self.reads_through_frame(namespace)
        self.emit(build.call_function(build.load_const(globals)) if own else build.load_const(namespace))

    def takes_passed(self, source: Source) -> bool:
        """Whether what lies there is not at hand yet, and needed for nothing but to be held: it may be read late."""
        return source in self.late and source not in self.source_temps

    def have(self, source: Source) -> None:
        """Take off the stack what lies there, for who needs it."""
        self.source_temps[source] = name = self.temp()
        self.emit(build.store_fast(name))

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
        variable = whole(resolved(variable))
        key = address(variable)
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
        if key in self.waiting and not self.changed:
            raise CannotReconstruct(variable, "an iterator over what the frame changed, which is reached from outside")
        if self.cyclic and isinstance(variable, iterators.Iterator) and not variable.runs_later:
            over = map(whole, map(resolved, variable.made_of()))
            if not self.cyclic.isdisjoint(map(address, over)):  # not filled yet: it would begin anew, or end
                raise CannotReconstruct(variable, "an iterator over what holds it")
        if key in self.cyclic:
            variable.reconstruct_empty(self)
            self.keep(variable)
            variable.fill(self)
            return
        if key in self._making:  # a second one would be made
            raise CannotReconstruct(variable, "part of a circle, which is reached from another side")
        self._making.add(key)
        variable.reconstruct(self)
        self._making.discard(key)
        if self.uses.get(key, 1) > 1 and not isinstance(variable, Real):
            self.keep(variable)

    def keep(self, variable: Variable) -> None:
        """Store the top in a local for further uses; it stays on the stack."""
        name = self.temps[address(variable)] = self.temp()
        self.emit(build.copy(1), build.store_fast(name))

    def move(self, container: Variable, moving: Callable[[], None]) -> None:
        """Move the iterator on top of the stack: where it stands is a place in the container's new content."""
        if self.changed or not self.m.effects.has_changed_input(container):
            moving()
            return
        name = self.temp()
        self.emit(build.copy(1), build.store_fast(name))
        self._moves.append((name, moving))

    def all_changed(self) -> None:
        """Note that what the frame changed outside has its new content from here on."""
        self.changed = True
        for name, moving in self._moves:
            self.emit(build.load_fast(name))
            moving()
            self.emit(build.pop())

    def call(self, function: Any, args: list[Variable]) -> None:
        """Push ``function(*args)`` of a real function."""
        self.emit(build.push_callable(build.load_const(function)))
        for arg in args:
            self.load(arg)
        self.emit(build.call(len(args)))

    def call_discarding(self, function: Any, args: list[Variable]) -> None:
        """The same without its result."""
        self.call(function, args)
        self.emit(build.pop())

    def call_with_list(self, method: Any, owner: Variable, values: list[Variable]) -> None:
        """Call a method that takes one iterable, ``list.extend`` or such, with a list of values; without its result."""
        self.emit(build.push_callable(build.load_const(method)))
        self.load(owner)
        self.load_list(values)
        self.emit(build.call(2), build.pop())

    def load_many(self, values: Iterable[Variable]) -> int:
        """Push values one after the other; how many."""
        count = 0
        for value in values:
            self.load(value)
            count += 1
        return count

    def load_list(self, values: list[Variable]) -> None:
        """Push a new list of values."""
        self.load_many(values)
        self.emit(build.build_list(len(values)))
