"""Parts of the interpreter that know no variable: the state of the evaluation, and what it assumes of the program's objects.

Variables see them through these Protocols; what they need of a variable is where it is read.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from capture.guards import GuardKind
from capture.sources import Source


class Sourced(Protocol):
    """A variable: where its value is read again; None for what the program made itself."""

    source: Source | None


class State(Protocol):
    """How far the evaluation is, and in which frame."""

    #: Whether a body is evaluated only to see what it does.
    probing: bool
    #: How deep in arms of an `if` of which the run takes one: what is evaluated may never be done.
    in_arms: int
    #: Meanwhile, by function and key, what functions that remember gave: each runs once for a key.
    probed: dict[Any, Any]
    #: Whether it comes to its end as it has taken very many of an iterator's elements.
    took_many: bool
    #: What the program is told when it asks whether a compiler traces it, and whether it has asked.
    says_compiling: bool
    asked_compiling: bool
    frames: list[Any]
    #: The classes that are asked below autograd of which tensors were met.
    followed: set[type]
    #: Counts the root frame's operations.
    step: int

    @property
    def moment(self) -> Any:
        """What differs for any two operations of the program."""

    @property
    def frame(self) -> Any:
        """The innermost frame."""

    def where(self) -> str:
        """The user's line."""

    def holds(self, wanted: Any) -> bool:
        """Whether a frame is seen to hold an object, or something that is made of it."""

    def may_be_gone(self, value: object) -> bool:
        """Whether the captured frame was given an object that no frame is seen to hold any more."""

    def count_instructions(self, count: int) -> None:
        """Raises ``Unsupported`` where an evaluation takes too long."""


class Guards(Protocol):
    """What must hold for the capture to be used again."""

    @property
    def arguments(self) -> Mapping[int, Source]:
        """The arguments that are known as the objects that they are, by identity."""

    def add(self, source: Source | None, kind: GuardKind, expected: Any = None) -> None:
        """Add a guard once; none on objects that were computed for this capture alone."""

    def replace(self, source: Source | None, kind: GuardKind, expected: Any) -> None:
        """Have one that is there already, of a kind of which a source has one, expect more."""

    def of_type(self, source: Source | None, cls: type) -> None:
        """An input is of exactly this class."""

    def predicate(self, owner: Sourced, check: Callable[[Any], object], text: str, subject: object = None) -> None:
        """A Python check on an input; none on objects of fixed identity that only guards can see change."""

    def no_attribute(self, owner: Sourced, name: str) -> None:
        """An input has no such attribute."""

    def not_shadowed(self, owner: Any, name: str) -> None:
        """The instance's own dictionary does not hold ``name``."""

    def dict_keys(self, owner: Any) -> None:
        """The instance's own dictionary has the names that it has."""

    def reach(self, entry: Sourced, table: Source, key: Any) -> None:
        """Note that the program read a dictionary's entry, which must be there even if its value never counts."""

    def reach_content(self, content: Sourced) -> None:
        """The same of what a cell or a slot holds."""

    def note_identity(self, variable: Sourced, value: Any) -> None:
        """Which object an input is counts."""

    def distinct(self, sources: list[Source]) -> None:
        """Several sources read different objects."""

    def exempt(self, value: Any) -> None:
        """Nothing else can change an object that was just made for real: no guard on what hangs from it."""

    def exempt_instances(self, cls: type) -> None:
        """The same of the instances of a class that was."""

    def note_type(self, value: Any) -> None:
        """An object of fixed identity keeps its class."""

    def note_code(self, function: Any) -> None:
        """What a function runs stays."""

    def is_first(self, value: Any, fact: str) -> bool:
        """Whether this is asked for the first time, of an object of fixed identity: then the fact is to be guarded."""

    def code_of(self, real: types.FunctionType) -> types.CodeType:
        """What a function runs, that is understood without being called; it stays."""

    def note_defaults(self, function: Any) -> None:
        """How many defaults a function has, and of which keyword-only parameters; their values are read one by one."""

    def note_signature(self, function: Any) -> None:
        """All that ``inspect.signature`` reads of a function, and of those that it wraps."""


class Classes(Protocol):
    """Look-ups in classes along the MRO, each of which leaves a guard."""

    #: What ``entry`` gave, by class and name.
    found: dict[tuple[int, str], tuple[Any, type]]

    def entry(self, cls: type, name: str) -> tuple[Any, type]:
        """The raw class attribute and the class of the MRO that has it; ``MISSING`` if none does. Leaves a guard."""

    #: By class and name, of classes whose instances are read as ``object`` reads them: ``MISSING`` where no class along the MRO has
    #: anything there, or the function of a method, as look-ups have found and noted.
    plain: dict[tuple[int, str], Any]

    def entry_above(self, cls: type, start: type, name: str) -> tuple[Any, type]:
        """The raw attribute of the first class after ``start`` in the MRO that has it, and that class; ``MISSING`` if none does."""

    def answer(self, m: Any, cls: type, question: Callable[[Any, type], Any]) -> Any:
        """What follows from look-ups in a class: asked once."""

    def may_change(self, cls: type) -> bool:
        """Whether any class along the MRO can change."""

    def note_order(self, cls: type) -> None:
        """The classes along the MRO count: their order stays."""

    def note_unregistered(self, own: type, cls: type) -> None:
        """A class that is asked for by the rules of ``abc`` has not been registered."""

    # Classes that the frame made: nothing else can change them

    #: By the identity of their prototypes.
    made: dict[int, Any]
    #: Of what such a prototype holds that was made with it: its class, the name, and maybe the attribute of what is there.
    parts: dict[int, tuple[Any, str, str]]

    def add_made(self, made: Any) -> None:
        """The frame made a class, whose bases count from now on."""

    def is_made(self, cls: type) -> bool:
        """Whether it is the prototype of one."""

    def made_entry(self, cls: type, name: str) -> Any:
        """The variable of what the frame put into a class, one that it made or one from outside; None for what is there otherwise."""

    @property
    def rewritten(self) -> list[type]:
        """The classes from outside that the frame changed."""

    def put(self, cls: type, name: str, value: Any) -> Any:
        """The frame puts a variable into a class from outside, or takes one away, if None; gives what stands for the changes."""

    def note_number(self, owner: type, name: str) -> None:
        """A number that a class holds is an input of the graph: any other will do."""

    def note_missing(self, cls: type, name: str) -> None:
        """A class itself has nothing under a name, which is guarded."""

    def number_place(self, owner: type, name: str) -> Source | None:
        """Where a number is read that a class holds and that may change; None for one that cannot, or is the frame's own."""

    def changed(self, cls: type) -> None:
        """The frame changed one: what was looked up may be otherwise now."""

    # Classes of statements that calls run anew

    def made_anew(self, cls: type) -> bool:
        """Whether another class of its statement was met: it is one of many."""

    def note_fixed(self, cls: type) -> None:
        """One is taken for the object that it is."""

    def add_alike(self, made: Any) -> None:
        """Of one, another that is like it will do."""

    def hangs_from_alike(self, source: Source) -> bool:
        """Whether a source is read from such a class."""
