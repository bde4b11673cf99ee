"""The guards of one attempt: what must hold for the capture to be used again, each noted once with the user's line.

In: sources and what was found there, as variables are built and asked. Out: ``Guard``s.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from capture._native import address
from capture.errors import Unsupported
from capture.guards import Guard, GuardKind, Predicate
from capture.labels import label_of
from capture.sources import Attr, Const, DictValueAt, Item, Local, Source
from capture.variables.assumptions import Sourced
from capture.variables.constants import CONSTANT_TYPES
from capture.variables.functions import Function
from capture.variables.lookups import can_change
from capture.variables.made_annotations import made_annotations
from capture.variables.objects import Object
from capture.variables.placeholders import Lazy

#: Kinds of which a source may have several guards, which expect different things.
_SEVERAL = frozenset(
    {
        GuardKind.HAS_KEY,
        GuardKind.NO_KEY,
        GuardKind.NO_KEYS,
        GuardKind.EMPTY_AT,
        GuardKind.HAS_ATTR,
        GuardKind.NO_ATTR,
        GuardKind.SAME_OBJECT,
        GuardKind.DISTINCT,
        GuardKind.SHAPE,
        GuardKind.ANSWER,
        GuardKind.CALLABLE,
    }
)


def const_of(value: Any) -> Const:
    """The source of an object of fixed identity, labelled with its name."""
    return Const(value, label_of(value))


class GuardTable:
    """Guards by source and kind. ``where`` gives the user's line."""

    def __init__(self, where: Callable[[], str]) -> None:
        self._where = where
        self._table: dict[Any, Guard] = {}
        #: Entries that the program read, where they are: what guards they come to is known once all is evaluated.
        self._reached: dict[tuple[Source, GuardKind, Any], Lazy] = {}
        #: Objects that were computed for this capture alone, by identity.
        self._exempt: dict[int, Any] = {}
        self._prototypes: dict[int, type] = {}
        #: The arguments that are known as the objects that they are, by identity.
        self.arguments: dict[int, Local] = {}
        self._noted: set[tuple[int, str]] = set()
        self._codes: dict[int, types.CodeType] = {}
        #: Guards an input's class by what it is made of, if it is one of many; whether it did.
        self.is_alike: Callable[[Source, type], bool] | None = None

    def add(self, source: Source | None, kind: GuardKind, expected: Any = None, line: str = "") -> None:
        """Add a guard once, of the user's line unless another is given; none on objects that were computed for this capture alone."""
        if source is not None and self._exempt and type(source.root) is Const and self.is_exempt(source):
            return
        key: tuple[Any, ...] = (source, kind, expected) if kind in _SEVERAL else (source, kind)
        if key not in self._table:
            self._table[key] = Guard(source, kind, expected, line or self._where())

    def replace(self, source: Source | None, kind: GuardKind, expected: Any) -> None:
        """Have one that is there already, of a kind of which a source has one, expect more."""
        self._table[(source, kind)] = Guard(source, kind, expected, self._where())

    def exempt(self, value: Any) -> None:
        """Nothing else can change an object that was just made for real: no guard on what hangs from it."""
        self._exempt[address(value)] = value

    def exempt_instances(self, cls: type) -> None:
        """The same of the instances of a class that was."""
        self._prototypes[address(cls)] = cls

    def is_exempt(self, source: Source) -> bool:
        """Whether a source is read from such an object, or from an instance of such a class."""
        if not self._exempt:
            return False
        root = source.root
        return type(root) is Const and (
            address(root.value) in self._exempt or address(type(root.value)) in self._prototypes
        )

    def holds(self, source: Source | None, kind: GuardKind) -> bool:
        """Whether there is a guard of this kind, of which a source has one at most."""
        return (source, kind) in self._table

    def makes_last(self, source: Source) -> bool:
        """Whether a guard says that what a source reads lives on: see ``LASTING``."""
        return (source, GuardKind.ID) in self._table or (source, GuardKind.BOUND) in self._table

    def is_fixed(self, source: Source | None) -> bool:
        """Whether a source always reads one object. A function keeps its cells."""
        if isinstance(source, Item) and isinstance(source.base, Attr) and source.base.attr == "__closure__":
            source = source.base.base
        return isinstance(source, Const) or self.holds(source, GuardKind.ID)

    def all(self) -> list[Guard]:
        """Those added so far, and that what was read and not looked at further is there."""
        return [*self._table.values(), *self._presence()]

    @property
    def count(self) -> int:
        """How many were added so far."""
        return len(self._table)

    @property
    def reached_count(self) -> int:
        """How many entries the program read so far."""
        return len(self._reached)

    def line_of(self, source: Source | None) -> str:
        """Where it was assumed what a source is; empty where it was not."""
        for kind in (GuardKind.EQUALS, GuardKind.TENSOR, GuardKind.TYPE):
            found = self._table.get((source, kind))
            if found is not None:
                return found.user_line
        return ""

    def first(self, count: int) -> Iterator[Guard]:
        """So many, in the order in which they were added."""
        return islice(self._table.values(), count)

    def first_reached(self, count: int) -> Iterator[tuple[tuple[Source, GuardKind, Any], Lazy]]:
        """So many entries that the program read: what holds one, and the key."""
        return islice(self._reached.items(), count)

    def release(self) -> None:
        """Let go of the program's objects."""
        self._table = {}
        self.is_alike = None
        self._reached.clear()
        self._exempt.clear()
        self._prototypes.clear()
        self.arguments.clear()

    # What the program read, and may never look at: passed on, replaced, deleted

    def reach(self, entry: Sourced, table: Source, key: Any) -> None:
        """Note that the program read a dictionary's entry, which must be there even if its value never counts."""
        if isinstance(entry, Lazy) and entry.seen is None and not isinstance(entry.source, DictValueAt):
            self._reached[(table, GuardKind.HAS_KEY, key)] = entry

    def reach_entry(self, entry: Lazy, table: Source, key: str) -> None:
        """The same of an attribute that was just read, and nobody has looked at."""
        self._reached[(table, GuardKind.HAS_KEY, key)] = entry

    def reach_content(self, content: Sourced) -> None:
        """The same of what a cell or a slot holds."""
        source = content.source
        if isinstance(content, Lazy) and content.seen is None and source is not None and not isinstance(source, Local):
            self._reached[(source, GuardKind.READABLE, None)] = content

    def _presence(self) -> Iterator[Guard]:
        looked_at = {guard.source for guard in self._table.values()}
        for (source, kind, key), entry in self._reached.items():
            if entry.seen is None and entry.source not in looked_at and not self.is_exempt(source):
                yield Guard(source, kind, key)

    # Inputs and their attributes

    def of_type(self, source: Source | None, cls: type) -> None:
        """An input is of exactly this class."""
        if source is None:
            raise Unsupported(f"{cls.__name__} of unknown origin")
        if not isinstance(source, Const) and self.is_alike is not None and self.is_alike(source, cls):
            return
        if not isinstance(source, Const) or can_change(cls):
            self.add(source, GuardKind.TYPE, cls)

    def predicate(self, owner: Sourced, check: Callable[[Any], object], text: str, subject: object = None) -> None:
        """A Python check on an input; none on objects of fixed identity that only guards can see change."""
        if owner.source is None:
            raise Unsupported("a condition on an object made in the frame")
        self.add(owner.source, GuardKind.CALLABLE, Predicate(check, text, subject))

    def no_attribute(self, owner: Sourced, name: str) -> None:
        """An input has no such attribute."""
        source = owner.source
        if isinstance(owner, Object):
            self.not_shadowed(owner, name)
        elif source is not None and not isinstance(source, Const):
            self.add(source, GuardKind.NO_ATTR, name)

    def not_shadowed(self, owner: Object, name: str) -> None:
        """The instance's own dictionary does not hold ``name``."""
        if owner.source is None or name in owner.attrs:
            return
        owner.instance_dict()
        if not owner.lacks_dict:
            self.add(owner.dict_source(owner.source), GuardKind.NO_KEY, name)

    def dict_keys(self, owner: Object) -> None:
        """The instance's own dictionary has the names that it has."""
        assert owner.source is not None
        self.add(Attr(owner.source, "__dict__"), GuardKind.DICT_KEYS, tuple(owner.instance_dict()))

    def distinct(self, sources: list[Source]) -> None:
        """Several sources read different objects."""
        if len(sources) > 1:
            self.add(sources[0], GuardKind.DISTINCT, tuple(sources[1:]))

    def is_first(self, value: Any, fact: str) -> bool:
        """Whether this is asked for the first time, of an object of fixed identity: then the fact is to be guarded."""
        key = (address(value), fact)
        if key in self._noted:
            return False
        self._noted.add(key)
        return True

    def note_type(self, value: Any) -> None:
        """An object of fixed identity keeps its class."""
        if (address(value), "__class__") in self._noted:
            return
        cls = type(value)
        # The class of a Python module can be replaced, although its class itself cannot change.
        if (can_change(cls) or issubclass(cls, types.ModuleType)) and self.is_first(value, "__class__"):
            self.add(const_of(value), GuardKind.TYPE, cls)

    def is_object(self, source: Source, value: Any) -> None:
        """An input is this very object."""
        self.add(source, GuardKind.ID, value)
        if type(source) is Local:
            self.arguments[address(value)] = source

    # Functions

    def note_identity(self, variable: Sourced, value: Any) -> None:
        """Which object an input is counts."""
        if variable.source is not None and not isinstance(variable.source, Const):
            self.is_object(variable.source, value)

    def note_code(self, function: Function) -> None:
        """What a function runs stays."""
        base = function.base
        if base is not None and self.is_first(function, "__code__"):
            self.add(Attr(base, "__code__"), GuardKind.ID, function.code)

    def note_defaults(self, function: Function) -> None:
        """How many defaults a function has, and of which keyword-only parameters; their values are read one by one."""
        base, real = function.base, function.real
        if base is None or real is None or not self.is_first(function, "__defaults__"):
            return
        self._note_size(Attr(base, "__defaults__"), real.__defaults__)
        if real.__code__.co_kwonlyargcount:
            source = Attr(base, "__kwdefaults__")
            if real.__kwdefaults__ is None:
                self.add(source, GuardKind.EQUALS, None)
            else:
                self.add(source, GuardKind.DICT_KEYS, tuple(real.__kwdefaults__))

    def _note_size(self, source: Source, value: tuple[Any, ...] | None) -> None:
        if value is None:
            self.add(source, GuardKind.EQUALS, None)
        else:
            self.add(source, GuardKind.LEN, len(value))

    def note_signature(self, function: Function) -> None:
        """All that ``inspect.signature`` reads of a function, and of those that it wraps."""
        real: Any = function.real
        self.note_identity(function, real)
        base = function.base or const_of(real)
        while isinstance(real, types.FunctionType) and self.is_first(real, "signature"):
            self.add(Attr(base, "__code__"), GuardKind.ID, real.__code__)
            made_annotations(real)
            for name in ("__defaults__", "__kwdefaults__", "__annotations__"):
                self.add(Attr(base, name), GuardKind.ID, getattr(real, name))
            for name in ("__kwdefaults__", "__annotations__"):
                if getattr(real, name) is not None:
                    self._equal_entries(Attr(base, name), getattr(real, name))
            for name in ("__signature__", "__wrapped__", "__text_signature__"):
                if name in real.__dict__:
                    self.add(Attr(base, name, via_dict=True), GuardKind.ID, real.__dict__[name])
                else:
                    self.add(Attr(base, "__dict__"), GuardKind.NO_KEY, name)
            real, base = real.__dict__.get("__wrapped__"), Attr(base, "__wrapped__", via_dict=True)

    def _equal_entries(self, source: Source, entries: dict[Any, Any]) -> None:
        self.add(source, GuardKind.DICT_KEYS, tuple(entries))
        for key, value in entries.items():
            kind = GuardKind.EQUALS if type(value) in CONSTANT_TYPES else GuardKind.ID
            self.add(Item(source, key), kind, value)

    def code_of(self, real: types.FunctionType) -> types.CodeType:
        """What a function runs, that is understood without being called; it stays."""
        found = self._codes.get(address(real))
        if found is None:  # where a program looks on (`sys.addaudithook`) each reading of it is told
            found = self._codes[address(real)] = real.__code__
            self.add(Attr(const_of(real), "__code__"), GuardKind.ID, found)
        return found
