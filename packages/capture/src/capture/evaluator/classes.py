"""What a capture learns of classes: looked up here, so that each look-up leaves its guard.

Raw look-ups along the MRO are noted by class and name; the guards on them are made once, at the end.
"""

from __future__ import annotations

import abc
import enum
import weakref
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

import torch

from capture import _native
from capture._native import address
from capture.errors import Unsupported
from capture.guards import Guard, GuardKind, Predicate
from capture.labels import place_of
from capture.sources import Attr, ClassEntry, Const, Item, Source
from capture.variables.assumptions import Guards
from capture.variables.changed_classes import ChangedClass
from capture.variables.constants import CONSTANT_TYPES
from capture.variables.lookups import MISSING, PUT, can_change, is_among

from .guards import const_of


class ClassLookups:
    """Look-ups in classes. ``where`` gives the user's line."""

    def __init__(self, guards: Guards, where: Callable[[], str]) -> None:
        self._guards = guards
        self._where = where
        #: By class and name: the class, what it has there, the class that holds it, and the user's line.
        self._entries: dict[tuple[int, str], tuple[type, Any, type, str | None]] = {}
        #: The same as `entry` gives it.
        self.found: dict[tuple[int, str], tuple[Any, type]] = {}
        #: What follows of them, by class and question.
        self._answers: dict[tuple[int, Callable[[Any, type], Any]], Any] = {}
        #: The same of what `super()` finds, by class, where it starts, and name.
        self._above: dict[tuple[int, int, str], tuple[Any, type]] = {}
        #: By class and name, of classes whose instances are read as `object` reads them: that nothing is there, or the function of a method.
        self.plain: dict[tuple[int, str], Any] = {}
        self._changing: dict[int, tuple[type, bool]] = {}
        self._ordered: dict[int, tuple[type, str]] = {}
        self._unregistered: _Unregistered | None = None
        #: The classes that the frame made, by the identity of their prototypes.
        self.made: dict[int, Any] = {}
        #: Of what such a prototype holds that was made with it: its class, the name, and maybe the attribute of what is there.
        self.parts: dict[int, tuple[Any, str, str]] = {}
        #: Of those from outside that are told by what they are like.
        self._alike: list[Any] = []
        #: Those taken for the objects that they are, by statement.
        self._fixed: dict[tuple[str, str], type] = {}
        #: What was looked up in made ones before they were changed, by name.
        self._past: list[tuple[str, tuple[type, Any, type, str | None]]] = []

        #: The changes of classes from outside, the names of all attributes put there, and where look-ups of these are noted.
        self._rewritten: dict[int, ChangedClass] = {}
        self._put_names: set[str] = set()
        self._apart: dict[tuple[int, str], type] = {}
        #: Numbers in classes, by the class that holds one and the name, that are inputs of the graph: not the same each time.
        self._numbers: set[tuple[int, str]] = set()

    def release(self) -> None:
        """Let go of the program's classes."""
        self._rewritten.clear()
        self._apart.clear()
        _left.extend(made.value for made in self.made.values() if made.source is None)
        for made in self.made.values():
            vars(made).clear()
        self.made.clear()
        self.parts.clear()
        self._past.clear()
        self._alike.clear()
        self._fixed.clear()
        self._entries.clear()
        self.found.clear()
        self._answers.clear()
        self._above.clear()
        self.plain.clear()
        self._changing.clear()
        self._ordered.clear()

    def entry(self, cls: type, name: str) -> tuple[Any, type]:
        """The raw class attribute and the class of the MRO that has it; ``MISSING`` if none does."""
        key = (address(cls), name)
        found = self.found.get(key)
        if found is None:
            if name in self._put_names:
                return self._put_entry(cls, name)
            raw, owner = found = _raw_entry(cls, name)
            line = self._where() if self.may_change(cls) else None
            self._entries[key] = (cls, raw, owner, line)
            self.found[key] = found
        return found

    def answer(self, m: Any, cls: type, question: Callable[[Any, type], Any]) -> Any:
        """What follows from look-ups in a class: asked once."""
        key = (address(cls), question)
        if key not in self._answers:
            self._answers[key] = question(m, cls)
        return self._answers[key]

    def may_change(self, cls: type) -> bool:
        """Whether any class along the MRO can change."""
        found = self._changing.get(address(cls))
        if found is None:
            found = self._changing[address(cls)] = (cls, any(map(self._can_change, cls.__mro__)))
        return found[1]

    def _can_change(self, cls: type) -> bool:
        return can_change(cls) and not self.is_made(cls)

    def entry_above(self, cls: type, start: type, name: str) -> tuple[Any, type]:
        """The raw attribute of the first class after ``start`` in the MRO that has it, and that class; ``MISSING`` if none does."""
        key = (address(cls), address(start), name)
        found = self._above.get(key)
        if found is None:
            mro = cls.__mro__
            above = mro[next(i for i, each in enumerate(mro) if each is start) + 1 :]
            found = self._above[key] = self._first_own_entry(above, name) or (MISSING, cls)
        return found

    def _first_own_entry(self, classes: Iterable[type], name: str) -> tuple[Any, type] | None:
        for owner in classes:
            changed = self._rewritten.get(address(owner))
            if changed is not None and name in changed.entries:
                if changed.entries[name] is None:
                    continue
                return PUT, owner
            changes = self._can_change(owner)
            if name in owner.__dict__:
                raw = owner.__dict__[name]
                if changes:
                    self._guards.add(_own(owner, name), *self._what_counts(owner, name, raw))
                return raw, owner
            if changes:
                self._guards.add(Attr(const_of(owner), "__dict__"), GuardKind.NO_KEY, name)
        return None

    # Classes that the frame made

    def add_made(self, made: Any) -> None:
        """The frame made a class, whose bases count from now on."""
        cls = made.value
        self.made[address(cls)] = made
        self._guards.exempt(cls)
        self._guards.exempt_instances(cls)
        for base in cls.__mro__[1:]:
            if not self.is_made(base):
                self.note_order(base)
        self._note_parts(made)

    def _note_parts(self, made: Any) -> None:
        for name, raw in made.value.__dict__.items():
            if name in made.entries or type(raw) in CONSTANT_TYPES or isinstance(raw, (tuple, frozenset)):
                continue  # what others may have, too
            for inner, each in (("", raw), *((inner, getattr(raw, inner, None)) for inner in _WITHIN)):
                if each is not None and (not inner or isinstance(raw, (property, staticmethod, classmethod))):
                    self.parts[address(each)] = made, name, inner
                    self._guards.exempt(each)

    def told_of(self, kept: Container[int]) -> list[Any]:
        """The classes made of those that go on, and know their subclasses; ``kept`` are the variables, by identity, of what goes on."""
        found: list[Any] = []
        for made in self.made.values():
            if made.source is not None:
                continue
            above = [self.made.get(address(base)) for base in made.value.__mro__[1:]]
            bases = [each for each in above if each is not None]
            known = any(each in found or address(each) in kept or each.source is not None for each in bases)
            if known or any(map(self._can_change, made.value.__mro__)):
                found.append(made)
        return found

    # Classes of statements that calls run anew

    def made_anew(self, cls: type) -> bool:
        """Whether another class of its statement was met: it is one of many."""
        statement = place_of(cls)
        if "<locals>" not in statement[1] or issubclass(type(cls), enum.EnumMeta) or issubclass(cls, torch.nn.Module):
            return False  # members, and modules, are told by identity in ways of their own
        first = _statements.get(statement)
        if first is None:
            if len(_statements) >= _MOST_STATEMENTS:
                _statements.clear()
            first = _statements[statement] = weakref.ref(cls)
        if first != _MANY and first() is not cls:
            _statements[statement] = first = _MANY
        return first == _MANY

    def note_fixed(self, cls: type) -> None:
        """One is taken for the object that it is."""
        self._fixed.setdefault(place_of(cls), cls)
        self._check_apart()

    def add_alike(self, made: Any) -> None:
        """Of one, another that is like it will do."""
        cls = made.value
        self._alike.append(made)
        self.made[address(cls)] = made
        others = [each for each in self._alike if each.value.__qualname__ == cls.__qualname__]
        self._guards.distinct([each.source for each in others])
        for base in cls.__mro__[1:]:
            if not self.made_anew(base):
                self.note_order(base)
        self._check_apart()

    def _check_apart(self) -> None:
        """A class that is like another is that other one at some call, for all that is known: then both are told by what they are like."""
        if any((each.value.__module__, each.value.__qualname__) in self._fixed for each in self._alike):
            raise Unsupported("classes of one statement, one of them known as the object that it is")

    def hangs_from_alike(self, source: Source) -> bool:
        """Whether a source is read from such a class."""
        return bool(self._alike) and any(each.source in source.path for each in self._alike)

    def is_made(self, cls: type) -> bool:
        """Whether it is the prototype of one."""
        return address(cls) in self.made

    def made_entry(self, cls: type, name: str) -> Any:
        """The variable of what the frame put into a class, one that it made or one from outside; None for what is there otherwise."""
        made = self.made.get(address(cls)) or self._rewritten.get(address(cls))
        return None if made is None else made.entries.get(name)

    def changed(self, cls: type) -> None:
        """The frame changed one: what was looked up may be otherwise now."""
        self._forget(cls)
        self._note_parts(self.made[address(cls)])

    def _forget(self, cls: type, only: str | None = None) -> None:
        self.plain.clear()
        self._answers.clear()
        self._above.clear()
        for key, found in list(self._entries.items()):
            if is_among(cls, found[0].__mro__) and only in (None, key[1]):
                self._past.append((key[1], self._entries.pop(key)))
                del self.found[key]
        for key in [key for key, each in self._apart.items() if is_among(cls, each.__mro__)]:
            del self._apart[key], self.found[key]

    # Classes from outside that the frame changed

    @property
    def rewritten(self) -> list[type]:
        """Those."""
        return [each.cls for each in self._rewritten.values()]

    def put(self, cls: type, name: str, value: Any) -> ChangedClass:
        """The frame puts a variable into a class from outside, or takes one away, if None; gives what stands for the changes."""
        self._forget(cls, name)
        changed = self._rewritten.get(address(cls))
        if changed is None:
            changed = self._rewritten[address(cls)] = ChangedClass(cls)
            changed.source = const_of(cls)
        changed.entries[name] = value
        self._put_names.add(name)
        return changed

    def note_missing(self, cls: type, name: str) -> None:
        """A class itself has nothing under a name, which is guarded."""
        self._guards.add(Attr(const_of(cls), "__dict__"), GuardKind.NO_KEY, name)

    def _put_entry(self, cls: type, name: str) -> tuple[Any, type]:
        """The raw attribute of a name that the frame put into some class."""
        self.note_order(cls)
        found = self.found[(address(cls), name)] = self._first_own_entry(cls.__mro__, name) or (MISSING, cls)
        self._apart[(address(cls), name)] = cls
        return found

    def number_place(self, owner: type, name: str) -> Source | None:
        """Where a number is read that a class holds and that may change; None for one that cannot, or is the frame's own."""
        if not self._can_change(owner) or self.is_made(owner) or self.hangs_from_alike(const_of(owner)):
            return None
        return _own(owner, name)

    def note_number(self, owner: type, name: str) -> None:
        """A number that a class holds is an input of the graph: any other will do."""
        self._numbers.add((address(owner), name))

    def _what_counts(self, owner: type, name: str, raw: Any) -> tuple[GuardKind, Any]:
        return (GuardKind.TYPE, type(raw)) if (address(owner), name) in self._numbers else _what_counts(raw)

    def note_order(self, cls: type) -> None:
        """The classes along the MRO count: their order stays."""
        if address(cls) not in self._ordered and self.may_change(cls):
            self._ordered[address(cls)] = (cls, self._where())

    def note_unregistered(self, own: type, cls: type) -> None:
        """A class that is asked for by the rules of ``abc`` has not been registered."""
        if self._unregistered is None:
            self._unregistered = _Unregistered()
            predicate = Predicate(self._unregistered.check, "no class asked for was registered with an abstract one")
            self._guards.add(Const(abc.get_cache_token, "abc.get_cache_token"), GuardKind.CALLABLE, predicate)
        self._unregistered.add(own, cls)

    def all(self) -> Iterator[Guard]:
        """The guards that the look-ups come to."""
        found = [*((name, entry) for (_, name), entry in self._entries.items()), *self._past]
        for name, (cls, raw, owner, line) in found:
            if line is None:
                continue
            if self.is_made(cls):
                yield from self._along(cls, name, raw, owner, line)
                continue
            if (address(owner), name) in self._numbers:  # which is read where it lies: nothing may come before it
                self.note_order(cls)
                yield from self._along(cls, name, raw, owner, line)
                continue
            base = const_of(cls)
            if raw is MISSING:
                yield Guard(base, GuardKind.NO_CLASS_ENTRY, name, line)
                continue
            source = ClassEntry(base, name)
            if isinstance(raw, torch.Tensor) and cls is not owner:
                if self.is_made(owner):
                    yield Guard(source, GuardKind.ID, raw, line)
                else:
                    yield Guard(source, GuardKind.SAME_OBJECT, _own(owner, name), line)
            kind, expected = _what_counts(raw)
            yield Guard(source, kind, expected, line)
            if kind is not GuardKind.TYPE and can_change(type(raw)):
                yield Guard(source, GuardKind.TYPE, type(raw), line)
        for cls, line in self._ordered.values():
            if self.is_made(cls):
                continue  # as its bases', which are noted
            order = Attr(const_of(cls), "__mro__")
            yield Guard(order, GuardKind.LEN, len(cls.__mro__), line)
            for i, above in enumerate(cls.__mro__[1:-1], 1):
                yield Guard(Item(order, i), GuardKind.ID, above, line)

    def _along(self, cls: type, name: str, raw: Any, owner: type, line: str) -> Iterator[Guard]:
        """The guards on a look-up where classes are asked one by one, but those that the frame made: up to the one that has it."""
        for base in cls.__mro__:
            if self._can_change(base):
                entries = Attr(const_of(base), "__dict__")
                if raw is MISSING or base is not owner:
                    yield Guard(entries, GuardKind.NO_KEY, name, line)
                else:
                    yield Guard(Item(entries, name), *self._what_counts(owner, name, raw), line)
            if raw is not MISSING and base is owner:
                return


#: Of a statement whose classes were met: the first, or that there were several.
_statements: dict[tuple[str, str], Any] = {}
_MANY = "many"
_MOST_STATEMENTS = 1000


def reset_statements() -> None:
    """Forget which statements made several classes."""
    _statements.clear()


#: Prototypes of evaluations that have ended.
_left: list[type] = []


def dissolve_prototypes() -> None:
    """Take apart the prototypes of evaluations of which nothing is left: their bases are not to tell of them."""
    while _left:  # those made of others first
        _native.dissolve(_left.pop())


#: What may be looked up in a property, a static or a class method.
_WITHIN = ("__func__", "fget", "fset", "fdel")


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


def _own(owner: type, name: str) -> Source:
    """Where what a class itself holds is read."""
    return Item(Attr(const_of(owner), "__dict__"), name)


def _what_counts(raw: Any) -> tuple[GuardKind, Any]:
    """What a look-up that found this rests on: which object it is, but for a tensor.

    One is as good as another there, where nothing but its class decides how it is read; what is read of it is an input, with its own guards.
    """
    if type(raw) in CONSTANT_TYPES and raw == raw:  # a NaN is told from another by which object it is
        return GuardKind.EQUALS, raw
    return (GuardKind.TYPE, type(raw)) if isinstance(raw, torch.Tensor) else (GuardKind.ID, raw)


def _raw_entry(cls: type, name: str) -> tuple[Any, type]:
    """The raw class attribute and the class of the MRO that has it, with nothing noted."""
    try:
        return _native.class_entry(cls, name) or (MISSING, cls)
    except LookupError as error:
        raise Unsupported(str(error)) from None
