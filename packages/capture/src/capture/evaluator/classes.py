"""What a capture learns of classes: looked up here, so that each look-up leaves its guard.

Raw look-ups along the MRO are noted by class and name; the guards on them are made once, at the end.
"""

from __future__ import annotations

import abc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from capture.guards import Guard, GuardKind, Predicate
from capture.sources import Attr, ClassEntry, Const, Item
from capture.variables.assumptions import Guards
from capture.variables.constants import CONSTANT_TYPES
from capture.variables.lookups import MISSING, can_change

from .guards import const_of


class ClassLookups:
    """Look-ups in classes. ``where`` gives the user's line."""

    def __init__(self, guards: Guards, where: Callable[[], str]) -> None:
        self._guards = guards
        self._where = where
        #: By class and name: the class, what it has there, the class that holds it, and the user's line.
        self._entries: dict[tuple[int, str], tuple[type, Any, type, str | None]] = {}
        self._changing: dict[int, tuple[type, bool]] = {}
        self._ordered: dict[int, tuple[type, str]] = {}
        self._unregistered: _Unregistered | None = None

    def release(self) -> None:
        """Let go of the program's classes."""
        self._entries.clear()
        self._changing.clear()
        self._ordered.clear()

    def entry(self, cls: type, name: str) -> tuple[Any, type]:
        """The raw class attribute and the class of the MRO that has it; ``MISSING`` if none does."""
        key = (id(cls), name)
        found = self._entries.get(key)
        if found is None:
            raw, owner = _raw_entry(cls, name)
            line = self._where() if self.may_change(cls) else None
            found = self._entries[key] = (cls, raw, owner, line)
        return found[1], found[2]

    def may_change(self, cls: type) -> bool:
        """Whether any class along the MRO can change."""
        found = self._changing.get(id(cls))
        if found is None:
            found = self._changing[id(cls)] = (cls, any(map(can_change, cls.__mro__)))
        return found[1]

    def own_entry(self, owner: type, name: str) -> Any:
        """What the class itself holds under a name, whatever the others of an MRO do."""
        raw = owner.__dict__[name]
        if can_change(owner):
            source = Item(Attr(const_of(owner), "__dict__"), name)
            self._guards.add(source, GuardKind.EQUALS if type(raw) in CONSTANT_TYPES else GuardKind.ID, raw)
        return raw

    def note_no_own_entry(self, owner: type, name: str) -> None:
        """The class itself holds nothing under a name."""
        if can_change(owner):
            self._guards.add(Attr(const_of(owner), "__dict__"), GuardKind.NO_KEY, name)

    def note_order(self, cls: type) -> None:
        """The classes along the MRO count: their order stays."""
        if id(cls) not in self._ordered and self.may_change(cls):
            self._ordered[id(cls)] = (cls, self._where())

    def note_unregistered(self, own: type, cls: type) -> None:
        """A class that is asked for by the rules of ``abc`` has not been registered."""
        if self._unregistered is None:
            self._unregistered = _Unregistered()
            predicate = Predicate(self._unregistered.check, "no class asked for was registered with an abstract one")
            self._guards.add(Const(abc.get_cache_token, "abc.get_cache_token"), GuardKind.CALLABLE, predicate)
        self._unregistered.add(own, cls)

    def all(self) -> Iterator[Guard]:
        """The guards that the look-ups come to."""
        for (_, name), (cls, raw, _, line) in self._entries.items():
            if line is None:
                continue
            base = const_of(cls)
            if raw is MISSING:
                yield Guard(base, GuardKind.NO_CLASS_ENTRY, name, line)
                continue
            source = ClassEntry(base, name)
            kind = GuardKind.EQUALS if type(raw) in CONSTANT_TYPES else GuardKind.ID
            yield Guard(source, kind, raw, line)
            if can_change(type(raw)):
                yield Guard(source, GuardKind.TYPE, type(raw), line)
        for cls, line in self._ordered.values():
            order = Attr(const_of(cls), "__mro__")
            yield Guard(order, GuardKind.LEN, len(cls.__mro__), line)
            for i, above in enumerate(cls.__mro__[1:-1], 1):
                yield Guard(Item(order, i), GuardKind.ID, above, line)


class _Unregistered:
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


def _raw_entry(cls: type, name: str) -> tuple[Any, type]:
    """The raw class attribute and the class of the MRO that has it, with nothing noted."""
    for owner in cls.__mro__:
        if name in owner.__dict__:
            return owner.__dict__[name], owner
    return MISSING, cls
