"""What code reads that runs after the frame did: a backward of the program's own, a hook on gradients.

Such code is evaluated with the frame, and made a graph, so that what it reads counts as it is then. In: what is read, while it is
evaluated. Out: what may be another by the time the code runs, as facts (`capture.late_code`), which are known again then, or else
``Unsupported``; where the frame itself, or whoever it is handed to, changes it afterwards, the frame is evaluated again. What a checkpoint
computes is read now and again then: plain values count, and such in containers, that some code is seen to change.
"""

from __future__ import annotations

import collections
import enum
import sys
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from capture._native import address
from capture._torch import OpOverload, OpOverloadPacket
from capture.errors import EvaluateAgain, Unsupported
from capture.late_code import Fact, attribute, cell_content, content, entry
from capture.rebinding import is_settled, is_settled_attribute, is_settled_content, is_settled_variable
from capture.sources import Item, Local, Source
from capture.trace_rules import is_library_line

from .base import Interpreter, Variable

#: What is written down, and not changed as the program runs.
_CODE = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.ModuleType, type, enum.Enum, torch.dtype, torch.layout, torch.memory_format, OpOverload, OpOverloadPacket,
)  # fmt: skip
#: Containers whose content changes in place.
_HOLDING = (list, dict, set, bytearray, collections.deque)
#: Longer ones are no settings: they are not gone through each time.
_LONG = 1000
#: What has no content that is looked at by itself.
_PLAIN = (int, float, complex, str, bytes, tuple, frozenset, type(None))


class LaterReads:
    """What was read so in one attempt. ``ran_ahead`` keeps, for the attempts after it, of whom it was wrong."""

    def __init__(self, ran_ahead: set[Any]) -> None:
        self._ran_ahead = ran_ahead
        #: Whether such code is being evaluated.
        self.active = False
        #: Whether code is that runs now, and again later.
        self.twice = False
        #: Whether either is: what is read is read later, too.
        self.concerned = False
        self._by: Hashable | None = None
        self._count = 0
        #: What is to be known again as the code that is being evaluated starts; None where it cannot look.
        self._facts: dict[Any, Fact] | None = None
        #: Made in the frame, and read so: by whom, by the identity of the variable; the same of what runs twice.
        self._relied: dict[int, tuple[Variable, Hashable]] = {}
        self._relied_twice: dict[int, tuple[Variable, Hashable]] = {}
        self._settled: dict[tuple[Any, ...], bool] = {}
        #: Objects from outside that are looked at again: what others do with them is seen then.
        self._looked_at: dict[int, tuple[Variable, Hashable]] = {}
        #: Globals that were read so, and those that no code gives another value.
        self._names: dict[tuple[int, str], Hashable] = {}
        self._stay: set[tuple[int, str]] = set()

    def release(self) -> None:
        """Let go of the program's objects."""
        self._relied.clear()
        self._relied_twice.clear()
        self._looked_at.clear()

    @contextmanager
    def reading_twice(self) -> Iterator[None]:
        """Meanwhile code is evaluated that runs now, and again later."""
        self._count += 1
        by = "code that runs twice", self._count
        if by in self._ran_ahead:
            raise Unsupported("a checkpoint that reads what the program changes before it is computed again")
        before, self._by, twice, self.twice = self._by, self._by or by, self.twice, True
        self.concerned = True
        try:
            yield
        finally:
            self._by, self.twice = before, twice
            self.concerned = self.active or twice

    @contextmanager
    def reading(self, *, looks: bool = False) -> Iterator[dict[Any, Fact]]:
        """Meanwhile code is evaluated that runs later. Gives what it takes for granted, of code that `looks` again as it starts."""
        self._count += 1
        by = "code that runs later", self._count
        if by in self._ran_ahead:
            raise Unsupported("a backward or hook that reads what the program changes before it runs")
        facts: dict[Any, Fact] = {}
        before, self._by, self.active = (self._by, self._facts, self.active), by, True
        self.concerned = True
        self._facts = facts if looks and not before[2] and not self.twice else None
        try:
            yield facts
        finally:
            self._by, self._facts, self.active = before
            self.concerned = self.active or self.twice

    # While it is evaluated

    def named(self, m: Interpreter, namespace: dict[str, Any], name: str, value: Variable) -> None:
        """It reads a global."""
        if not self.concerned:
            return
        assert self._by is not None
        key = address(namespace), name
        if key not in self._stay and not is_settled(namespace, name):
            who = "backward or hook" if self.active else "checkpoint"
            problem = f"a {who} that reads the global {name!r}, which the program changes"
            if name not in namespace or key in m.globals.written:
                raise Unsupported(problem)
            self._take(key, namespace, entry(name), problem)
        else:
            self._stay.add(key)
        self._names[key] = self._by
        if self.active:
            self._held(m, value, f"the global {name!r}")
        else:
            self._held_twice(m, value, [namespace], name)

    def of_object(self, m: Interpreter, owner: Variable, cls: type, name: str, value: Variable) -> None:
        """It reads an attribute that an object itself has, or its class."""
        what = f"attribute {name!r} of a {cls.__name__}"
        if owner.source is None:
            self.relies(owner)
            self.kept(m, value, what)
        elif self.active:
            self._take_place(m, owner, name, attribute(name), _late(what))
            self._held(m, value, what)
        else:
            self.of_class(m, cls, name, value)

    def misses(self, m: Interpreter, owner: Variable, name: str, *, nowhere: bool) -> None:
        """It asks an object for an attribute that the object itself does not have; `nowhere`: nor do its classes."""
        if self.active and owner.source is not None and (nowhere or self._facts is not None):
            self._take_place(m, owner, name, attribute(name), _late(f"attribute {name!r} of an object"))

    def of_class(self, m: Interpreter, cls: type, name: str, value: Variable) -> None:
        """It reads an attribute that is stored in a class, or in an object of one, outside the frame."""
        if self.active:
            self.bound(m, value, f"attribute {name!r} of class {cls.__name__}")
        elif self.twice:
            if _is_plain(value.realize(m)) and not self._is_settled(m, cls, name):
                raise Unsupported(
                    f"a checkpoint that reads attribute {name!r} of a {cls.__name__}, which the program changes"
                )
            self._held_twice(m, value, cls, name)

    def _is_settled(self, m: Interpreter, cls: type, name: str) -> bool:
        found = self._settled.get((cls, name))
        if found is None:
            found = self._settled[(cls, name)] = is_settled_attribute(_own_modules(cls), name)
        return found

    def _held_twice(self, m: Interpreter, value: Variable, where: type | Sequence[dict[str, Any]], name: str) -> None:
        """A checkpoint reads what may be a container from outside, which code of these modules, or of a class's, may have by this name."""
        if not self.twice or value.source is None:
            return
        value = value.realize(m)
        kind = _kind(value)
        if kind is None or not issubclass(kind, _HOLDING):
            return
        real = m.builder.outside(value)
        key = "content", kind, name
        found = self._settled.get(key)
        if found is None and real is not None and len(real) < _LONG and _holds_plain(real):
            modules = _own_modules(where) if isinstance(where, type) else where
            modules = _programs([*modules, m.state.frame.globals])
            found = self._settled[key] = is_settled_content(modules, name, kind)
        if found is False:
            raise Unsupported(f"a checkpoint that reads what {name!r} holds, which the program changes")

    def bound(self, m: Interpreter, value: Variable, what: str) -> None:
        """It reads what a place has that may have something else later."""
        if self.active and not _is_code(value.realize(m)):
            raise Unsupported(_late(what))

    def of_cell(self, m: Interpreter, cell: Variable, value: Variable) -> None:
        """It reads what a cell from outside holds."""
        what = "a variable of a function around it"
        if self.active and not _is_code(value.realize(m)):
            self._take_place(m, cell, "", cell_content, _late(what))
            self._held(m, value, what)

    def of_cell_twice(self, m: Interpreter, name: str, value: Variable) -> None:
        """A checkpoint reads a variable of a function around its own, from outside."""
        modules = [m.state.frame.globals]
        self._held_twice(m, value, modules, name)
        if _is_plain(value.realize(m)) and not is_settled_variable(modules, name):
            raise Unsupported(
                f"a checkpoint that reads the variable {name!r} of a function around it, which the program changes"
            )

    def kept(self, m: Interpreter, value: Variable, what: str) -> None:
        """It reads what a place has that goes on having it."""
        if self.active:
            self._held(m, value, what)

    def _held(self, m: Interpreter, value: Variable, what: str) -> None:
        value = value.realize(m)
        kind = _kind(value)
        if kind is not None and issubclass(kind, _HOLDING):
            if value.source is None:
                self.relies(value)
            else:
                problem = f"a backward or hook that reads {what}, whose content may be another when it runs"
                self._take_place(m, value, None, content, problem)
        if kind is not None and issubclass(kind, (*_HOLDING, tuple)):
            for part in list(value.contents(m)):
                if part is not value:
                    self._held(m, part, what)

    # What is known again as it starts

    def _take_place(
        self, m: Interpreter, owner: Variable, name: str | None, look: Callable[[Any], Sequence[Any]], problem: str
    ) -> None:
        """Take for granted what an object from outside has, of which the frame goes on to be about that one."""
        real = m.builder.outside(owner)
        if self._facts is None or real is None or m.effects.has_changed(owner) or comes_anew(owner.source, real):
            raise Unsupported(problem)
        if name is None and (not hasattr(real, "__len__") or len(real) > _LONG):
            raise Unsupported(problem)
        m.guards.note_identity(owner, real)
        self._take((address(real), name), real, look, problem)
        if self._by is not None:
            self._looked_at.setdefault(address(owner), (owner, self._by))

    def _take(self, key: Hashable, owner: Any, look: Callable[[Any], Sequence[Any]], problem: str) -> None:
        if self._facts is None:
            raise Unsupported(problem)
        if key not in self._facts:
            self._facts[key] = Fact.of(owner, look)

    def relies(self, value: Variable) -> None:
        """It reads what hangs from an object of the frame's own."""
        if self._by is not None:
            relied = self._relied if self.active else self._relied_twice
            relied.setdefault(address(value), (value, self._by))

    # Afterwards

    def changes(self, variable: Variable, *, hands_out: bool = False) -> None:
        """The frame changes an object, or hands it out."""
        if not self._relied and not self._relied_twice and not self._looked_at:
            return
        found = self._relied.get(address(variable))
        if found is None and not hands_out:
            found = self._relied_twice.get(address(variable)) or self._looked_at.get(address(variable))
        if found is not None and not self.concerned:
            self._again(found[1])

    def renames(self, namespace: dict[str, Any], name: str) -> None:
        """The frame gives a global another value."""
        found = self._names.get((address(namespace), name))
        if found is not None and not self.concerned:
            self._again(found)

    def _again(self, by: Hashable) -> None:
        self._ran_ahead.add(by)
        raise EvaluateAgain("what is read by code that runs later was changed")


def comes_anew(source: Source | None, value: Any) -> bool:
    """Whether it is an argument, and no module: each call may bring another, of which the frame would be captured again."""
    place = source.base if isinstance(source, Item) else source
    return isinstance(place, Local) and not isinstance(value, torch.nn.Module)


def _own_modules(cls: type) -> list[dict[str, Any]]:
    """The globals of the modules that a class and its bases are from; not of libraries."""
    modules = {each.__module__ for each in cls.__mro__}
    return _programs(vars(sys.modules[each]) for each in modules if each in sys.modules)


def _programs(modules: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the program, not of libraries."""
    return [each for each in modules if (path := each.get("__file__")) and not is_library_line(path)]


def _holds_plain(container: Any) -> bool:
    """Whether it holds plain values, or containers, which may hold some; of a dictionary the keys are names."""
    values = dict.values(container) if isinstance(container, dict) else content(container)
    return any(isinstance(each, (*_PLAIN, *_HOLDING)) for each in values)


def _late(what: str) -> str:
    return f"a backward or hook that reads {what}, which may be another when it runs"


def _kind(value: Variable) -> type | None:
    try:
        return value.python_type()
    except Unsupported:
        return None


def _is_plain(value: Variable) -> bool:
    kind = _kind(value)
    return kind is not None and issubclass(kind, _PLAIN)


def _is_code(value: Variable) -> bool:
    kind = _kind(value)
    return kind is not None and issubclass(kind, _CODE)
