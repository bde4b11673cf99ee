"""What a capture learns of classes and functions: looked up here, so that each look-up leaves its guard.

Raw look-ups along the MRO are noted by class and name; the guards on them are made once, at the end.
"""

from __future__ import annotations

import abc
import types
import weakref
from collections.abc import Iterator
from typing import Any

from capture.guards import Guard, GuardKind, Predicate
from capture.sources import Attr, ClassEntry, Const, Item, Source
from capture.variables.assumptions import Sourced
from capture.variables.constants import CONSTANT_TYPES
from capture.variables.functions import Function
from capture.variables.lookups import MISSING

from .state import State

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_IMMUTABLE_TYPE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE


def can_change(cls: type) -> bool:
    """Whether a class's own dictionary can be written to, and objects of it be given another class."""
    return cls.__flags__ & (_HEAP_TYPE | _IMMUTABLE_TYPE) == _HEAP_TYPE


class Facts(State):
    """Look-ups in classes, and what else is read of objects whose identity is guarded."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        #: By class and name: the class, what it has there, the class that holds it, and the user's line.
        self.class_facts: dict[tuple[int, str], tuple[type, Any, type, str | None]] = {}
        self.changing: dict[int, tuple[type, bool]] = {}
        self.ordered: dict[int, tuple[type, str]] = {}
        self.noted: set[tuple[int, str]] = set()
        self.unregistered: Unregistered | None = None

    # Classes

    def entry(self, cls: type, name: str) -> tuple[Any, type]:
        """The raw class attribute and the class of the MRO that has it; ``MISSING`` if none does."""
        key = (id(cls), name)
        found = self.class_facts.get(key)
        if found is None:
            raw, owner = raw_entry(cls, name)
            line = self.where() if self.may_change(cls) else None
            found = self.class_facts[key] = (cls, raw, owner, line)
        return found[1], found[2]

    def may_change(self, cls: type) -> bool:
        """Whether any class along the MRO can change."""
        found = self.changing.get(id(cls))
        if found is None:
            found = self.changing[id(cls)] = (cls, any(map(can_change, cls.__mro__)))
        return found[1]

    def own_entry(self, owner: type, name: str) -> Any:
        """What the class itself holds under a name, whatever the others of an MRO do."""
        raw = owner.__dict__[name]
        if can_change(owner):
            source = Item(Attr(Const(owner, _label(owner)), "__dict__"), name)
            self.add(source, GuardKind.EQUALS if type(raw) in CONSTANT_TYPES else GuardKind.ID, raw)
        return raw

    def note_no_own_entry(self, owner: type, name: str) -> None:
        if can_change(owner):
            self.add(Attr(Const(owner, _label(owner)), "__dict__"), GuardKind.NO_KEY, name)

    def note_order(self, cls: type) -> None:
        """The classes along the MRO count: their order stays."""
        if id(cls) not in self.ordered and self.may_change(cls):
            self.ordered[id(cls)] = (cls, self.where())

    def note_unregistered(self, own: type, cls: type) -> None:
        """A class that is asked for by the rules of ``abc`` has not been registered."""
        if self.unregistered is None:
            self.unregistered = Unregistered()
            predicate = Predicate(self.unregistered.check, "no class asked for was registered with an abstract one")
            self.add(Const(abc.get_cache_token, "abc.get_cache_token"), GuardKind.CALLABLE, predicate)
        self.unregistered.add(own, cls)

    def note_type(self, value: Any) -> None:
        """An object of fixed identity keeps its class."""
        cls = type(value)
        # The class of a Python module can be replaced, although its class itself cannot change.
        if can_change(cls) or issubclass(cls, types.ModuleType):
            self.note(value, "__class__", lambda base: self.add(base, GuardKind.TYPE, cls))

    def note(self, value: Any, what: str, state: Any) -> None:
        """State a fact about an object of fixed identity, once."""
        key = (id(value), what)
        if key not in self.noted:
            self.noted.add(key)
            state(Const(value, _label(value)))

    def class_guards(self) -> Iterator[Guard]:
        """The guards that the look-ups in classes come to, and those that entries are there."""
        yield from self.presence_guards()
        for (_, name), (cls, raw, _, line) in self.class_facts.items():
            if line is None:
                continue
            base = Const(cls, _label(cls))
            if raw is MISSING:
                yield Guard(base, GuardKind.NO_CLASS_ENTRY, name, line)
                continue
            source = ClassEntry(base, name)
            kind = GuardKind.EQUALS if type(raw) in CONSTANT_TYPES else GuardKind.ID
            yield Guard(source, kind, raw, line)
            if can_change(type(raw)):
                yield Guard(source, GuardKind.TYPE, type(raw), line)
        for cls, line in self.ordered.values():
            order = Attr(Const(cls, _label(cls)), "__mro__")
            yield Guard(order, GuardKind.LEN, len(cls.__mro__), line)
            for i, above in enumerate(cls.__mro__[1:-1], 1):
                yield Guard(Item(order, i), GuardKind.ID, above, line)

    # Functions

    def note_identity(self, variable: Sourced, value: Any) -> None:
        """Which object an input is counts."""
        if variable.source is not None and not isinstance(variable.source, Const):
            self.add(variable.source, GuardKind.ID, value)

    def note_code(self, function: Function) -> None:
        """What a function runs stays."""
        base = function.base
        if base is not None and (id(function), "__code__") not in self.noted:
            self.noted.add((id(function), "__code__"))
            self.add(Attr(base, "__code__"), GuardKind.ID, function.code)

    def note_defaults(self, function: Function) -> None:
        """How many defaults a function has, and of which keyword-only parameters; their values are read one by one."""
        base, real = function.base, function.real
        if base is None or real is None or (id(function), "__defaults__") in self.noted:
            return
        self.noted.add((id(function), "__defaults__"))
        self.note_size(Attr(base, "__defaults__"), real.__defaults__)
        if real.__code__.co_kwonlyargcount:
            source = Attr(base, "__kwdefaults__")
            if real.__kwdefaults__ is None:
                self.add(source, GuardKind.EQUALS, None)
            else:
                self.add(source, GuardKind.DICT_KEYS, tuple(real.__kwdefaults__))

    def note_size(self, source: Source, value: tuple[Any, ...] | None) -> None:
        if value is None:
            self.add(source, GuardKind.EQUALS, None)
        else:
            self.add(source, GuardKind.LEN, len(value))

    def note_signature(self, function: Function) -> None:
        """All that ``inspect.signature`` reads of a function, and of those that it wraps."""
        real: Any = function.real
        self.note_identity(function, real)
        base = function.base or Const(real, _label(real))
        while isinstance(real, types.FunctionType) and (id(real), "signature") not in self.noted:
            self.noted.add((id(real), "signature"))
            self.add(Attr(base, "__code__"), GuardKind.ID, real.__code__)
            for name in ("__defaults__", "__kwdefaults__", "__annotations__"):
                self.add(Attr(base, name), GuardKind.ID, getattr(real, name))
            for name in ("__kwdefaults__", "__annotations__"):
                if getattr(real, name) is not None:
                    self.guard_equal_entries(Attr(base, name), getattr(real, name))
            for name in ("__signature__", "__wrapped__", "__text_signature__"):
                if name in real.__dict__:
                    self.add(Attr(base, name, via_dict=True), GuardKind.ID, real.__dict__[name])
                else:
                    self.add(Attr(base, "__dict__"), GuardKind.NO_KEY, name)
            real, base = real.__dict__.get("__wrapped__"), Attr(base, "__wrapped__", via_dict=True)

    def guard_equal_entries(self, source: Source, entries: dict[Any, Any]) -> None:
        self.add(source, GuardKind.DICT_KEYS, tuple(entries))
        for key, value in entries.items():
            kind = GuardKind.EQUALS if type(value) in CONSTANT_TYPES else GuardKind.ID
            self.add(Item(source, key), kind, value)

    def note_code_of(self, real: types.FunctionType) -> None:
        """The same for a function that is understood without being called."""
        self.note(real, "__code__", lambda base: self.add(Attr(base, "__code__"), GuardKind.ID, real.__code__))


class Unregistered:
    """Pairs of classes, the first no subclass of the second as ``abc`` tells; its answers stay until a registration."""

    def __init__(self) -> None:
        self.token: object = abc.get_cache_token()
        self.pairs: list[tuple[weakref.ref[type], weakref.ref[type]]] = []

    def add(self, own: type, cls: type) -> None:
        self.pairs.append((weakref.ref(own), weakref.ref(cls)))

    def check(self, get_token: Any) -> bool:
        """Whether that is still so."""
        token = get_token()
        if token == self.token:
            return True
        for first, second in self.pairs:
            own, cls = first(), second()
            if own is not None and cls is not None and issubclass(own, cls):
                return False
        self.token = token
        return True


def raw_entry(cls: type, name: str) -> tuple[Any, type]:
    """The raw class attribute and the class of the MRO that has it, with nothing noted."""
    for owner in cls.__mro__:
        if name in owner.__dict__:
            return owner.__dict__[name], owner
    return MISSING, cls


def _label(value: Any) -> str:
    label = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    return label if isinstance(label, str) else ""
