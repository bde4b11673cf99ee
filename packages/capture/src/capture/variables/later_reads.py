"""What code reads that runs after the frame did: a backward of the program's own, a hook on gradients.

Such code is evaluated with the frame, and made a graph, so that what it reads counts as it is then. In: what is read, while it is
evaluated. Out: ``Unsupported`` where that may be another by the time the code runs; where the frame itself, or whoever it is
handed to, changes it afterwards, the frame is evaluated again. What a checkpoint computes is read now and again then: plain values
count that some code is seen to change.
"""

from __future__ import annotations

import collections
import enum
import sys
import types
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from capture._native import address
from capture._torch import OpOverload, OpOverloadPacket
from capture.errors import EvaluateAgain, Unsupported
from capture.rebinding import is_settled, is_settled_attribute
from capture.trace_rules import is_library_line

from .base import Interpreter, Variable

#: What is written down, and not changed as the program runs.
_CODE = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.ModuleType, type, enum.Enum, torch.dtype, torch.layout, torch.memory_format, OpOverload, OpOverloadPacket,
)  # fmt: skip
#: Containers whose content changes in place.
_HOLDING = (list, dict, set, bytearray, collections.deque)
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
        self._by: Hashable | None = None
        self._count = 0
        #: Made in the frame, and read so: by whom, by the identity of the variable; the same of what runs twice.
        self._relied: dict[int, tuple[Variable, Hashable]] = {}
        self._relied_twice: dict[int, tuple[Variable, Hashable]] = {}
        self._settled: dict[tuple[type, str], bool] = {}
        self._names: dict[tuple[int, str], Hashable] = {}

    def release(self) -> None:
        """Let go of the program's objects."""
        self._relied.clear()
        self._relied_twice.clear()

    @property
    def concerned(self) -> bool:
        """Whether what is read is read later, too."""
        return self.active or self.twice

    @contextmanager
    def reading_twice(self) -> Iterator[None]:
        """Meanwhile code is evaluated that runs now, and again later."""
        self._count += 1
        by = "code that runs twice", self._count
        if by in self._ran_ahead:
            raise Unsupported("a checkpoint that reads what the program changes before it is computed again")
        before, self._by, twice, self.twice = self._by, self._by or by, self.twice, True
        try:
            yield
        finally:
            self._by, self.twice = before, twice

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Meanwhile code is evaluated that runs later."""
        self._count += 1
        by = "code that runs later", self._count
        if by in self._ran_ahead:
            raise Unsupported("a backward or hook that reads what the program changes before it runs")
        before, self._by, self.active = self._by, by, True
        try:
            yield
        finally:
            self._by, self.active = before, before is not None

    # While it is evaluated

    def named(self, m: Interpreter, namespace: dict[str, Any], name: str, value: Variable) -> None:
        """It reads a global."""
        if not self.concerned:
            return
        assert self._by is not None
        key = address(namespace), name
        if key not in self._names and not is_settled(namespace, name):
            who = "backward or hook" if self.active else "checkpoint"
            raise Unsupported(f"a {who} that reads the global {name!r}, which the program changes")
        self._names[key] = self._by
        if self.active:
            self._held(m, value, f"the global {name!r}")

    def of_object(self, m: Interpreter, owner: Variable, cls: type, name: str, value: Variable) -> None:
        """It reads an attribute that an object itself has, or its class."""
        what = f"attribute {name!r} of a {cls.__name__}"
        if owner.source is None:
            self.relies(owner)
            self.kept(m, value, what)
        elif self.active:
            self.bound(m, value, what)
        else:
            self.of_class(m, cls, name, value)

    def of_class(self, m: Interpreter, cls: type, name: str, value: Variable) -> None:
        """It reads an attribute that is stored in a class, or in an object of one, outside the frame."""
        if self.active:
            self.bound(m, value, f"attribute {name!r} of class {cls.__name__}")
        elif self.twice and _is_plain(value.realize(m)) and not self._is_settled(m, cls, name):
            raise Unsupported(
                f"a checkpoint that reads attribute {name!r} of a {cls.__name__}, which the program changes"
            )

    def _is_settled(self, m: Interpreter, cls: type, name: str) -> bool:
        found = self._settled.get((cls, name))
        if found is None:
            modules = {each.__module__ for each in cls.__mro__}
            known = [vars(sys.modules[each]) for each in modules if each in sys.modules]
            file = [each.get("__file__") for each in known]
            own = [each for each, path in zip(known, file, strict=True) if path and not is_library_line(path)]
            found = self._settled[(cls, name)] = is_settled_attribute(own, name)
        return found

    def bound(self, m: Interpreter, value: Variable, what: str) -> None:
        """It reads what a place has that may have something else later."""
        if self.active and not _is_code(value.realize(m)):
            raise Unsupported(f"a backward or hook that reads {what}, which may be another when it runs")

    def kept(self, m: Interpreter, value: Variable, what: str) -> None:
        """It reads what a place has that goes on having it."""
        if self.active:
            self._held(m, value, what)

    def _held(self, m: Interpreter, value: Variable, what: str) -> None:
        value = value.realize(m)
        kind = _kind(value)
        if kind is not None and issubclass(kind, _HOLDING):
            if value.source is not None:
                raise Unsupported(f"a backward or hook that reads {what}, whose content may be another when it runs")
            self.relies(value)
        if kind is not None and issubclass(kind, (*_HOLDING, tuple)):
            for part in list(value.contents(m)):
                if part is not value:
                    self._held(m, part, what)

    def relies(self, value: Variable) -> None:
        """It reads what hangs from an object of the frame's own."""
        if self._by is not None:
            relied = self._relied if self.active else self._relied_twice
            relied.setdefault(address(value), (value, self._by))

    # Afterwards

    def changes(self, variable: Variable, *, hands_out: bool = False) -> None:
        """The frame changes an object, or hands it out."""
        found = self._relied.get(address(variable))
        if found is None and not hands_out:
            found = self._relied_twice.get(address(variable))
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
