"""Parts of the interpreter that hold what the program has: its objects and which of them are one, what it changed, its globals; and what
leads from real values to variables and back.

``Any`` stands for values of families that are defined above.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from capture.sources import Source

V = TypeVar("V")
"""What stands for a value of the program: ``base.Variable``, of which nothing here knows more."""
V_contra = TypeVar("V_contra", contravariant=True)
"""The same where parts are only given some."""


class Identity(Protocol[V_contra]):
    """Which inputs are one object, and which are not."""

    #: Whether ``id`` of an object is an element or a key of something.
    has_ids: bool
    #: Counts the program's questions whether literals are one object.
    literals_told: int

    @property
    def hashed(self) -> int:
        """How many inputs are keys of something."""

    def key(self, variable: V_contra) -> Hashable:
        """The key of an object that is hashed and compared as such: two of them stay two."""

    def distinct(self, first: V_contra, *others: V_contra) -> None:
        """Inputs that are different objects stay so, where no guard on their identity says it."""

    def hangs_from_bound(self, source: Source) -> bool:
        """Whether a source is read from a module that may be any one of its equals."""

    def lives_on(self, source: Source) -> bool:
        """Whether a source hangs from an object of fixed identity, or from a bound module."""


class Effects(Protocol[V_contra]):
    """What the program makes and changes, and what the generated code must do again."""

    #: Counts whatever may change the state of the evaluation beyond the root frame's stack.
    activity: int
    #: Counts what an evaluation leaves behind: changes of objects, and calls in the graph.
    changes: int
    #: Counts changes that a ``__hash__`` may tell of.
    rewritten: int
    #: Calls of functions that remember: to be made again, made before the frame ran, and of those told apart.
    remembered: list[Any]
    #: Calls that tell the outside something, before anything is changed.
    announced: list[Any]
    #: The context variables that were met; the contexts that the frame has entered, each in the one before.
    context_variables: list[Any]
    contexts: list[Any]
    #: The objects that these calls may change, by address.
    listeners: dict[int, Any]
    ran_ahead: set[Any]
    #: What was changed, by the identities of the variables.
    changed: dict[int, Any]
    #: Where it is noted what is read from outside the frame; None: nowhere.
    reads: list[Any] | None

    def noting_reads(self) -> AbstractContextManager[list[Any]]:
        """Meanwhile what is read from outside the frame is noted, by what it really is; of a global that the frame wrote, the variable."""

    counted: set[Any]
    times: dict[Any, int]
    to_come: dict[int, Any]
    limits: dict[int, Any]
    #: What code reads that runs after the frame did.
    later: Any

    @property
    def other_changes(self) -> int:
        """Counts what an evaluation leaves behind beside changes of tracked objects."""

    def created(self, variable: Any) -> Any:
        """Note at which step a value was made."""

    def mutated(self, variable: V_contra) -> None:
        """Note a change of a tracked object."""

    def has_changed(self, variable: V_contra) -> bool:
        """Whether a change of it was noted."""

    def has_changed_input(self, variable: V_contra) -> bool:
        """Whether it is from outside the frame, where a change of it is made after the graph."""

    def has_changed_inputs(self) -> bool:
        """Whether anything from outside the frame was changed."""

    def has_rewritten_inputs(self) -> bool:
        """Whether anything from outside the frame was changed that a ``__hash__`` may tell of."""

    def let_go(self) -> Iterable[tuple[int, Any]]:
        """The objects that were held from outside where the frame began, and by that are not any more; each with a step before that."""

    def apart(self) -> AbstractContextManager[Callable[[], bool]]:
        """Meanwhile changes are noted apart; gives what tells whether anything was changed that was there before."""


class Globals(Protocol[V]):
    """Globals of the program's modules."""

    #: By dictionary and name; None for a deleted one.
    written: dict[tuple[int, str], tuple[dict[str, Any], V | None]]

    #: Those of the captured frame.
    own: dict[str, Any]

    def read(self, namespace: dict[str, Any], name: str) -> V:
        """A global that exists, as the program has it now."""

    def write(self, namespace: dict[str, Any], name: str, value: V | None) -> None:
        """Write a global; None deletes it."""

    def imported(self, name: str) -> V:
        """A module that is imported already."""


class Builder(Protocol[V]):
    """Between real values and variables."""

    def wrap(self, value: Any, source: Source | None) -> V:
        """The variable of a real value read from ``source``; guards what it is. None: its identity is fixed."""

    def stands_for(self, value: Any, variable: V) -> None:
        """A real object, which nobody else has, is what a variable is looked up by."""

    def read_from(self, value: Any, source: Source) -> None:
        """Where an object is read from, which is known as part of another: its identity is not fixed."""

    def place_of(self, value: Any) -> Source | None:
        """That; None if its identity is fixed."""

    def met(self, value: Any) -> V | None:
        """The variable of a real object that was looked at already."""

    def some_met(self, values: Iterable[Any]) -> bool:
        """Whether any of these was."""

    def outside(self, variable: V) -> Any:
        """The real object behind an input that was looked at; None for any other."""

    def identified(self, variable: Any, source: Source | None) -> Any:
        """A variable of a known object, which ``source`` must go on to read."""

    def known(self, value: Any) -> V:
        """A real object of fixed identity: no guard on which one it is."""

    def computed(self, value: Any) -> V:
        """An object that was just made for real, which nothing else can change."""

    def from_python(self, value: Any) -> V:
        """A value that was computed for real: fresh containers, literals, or an object of fixed identity."""

    def to_python(self, variable: V) -> Any:
        """The real value; raises ``NotConstant``."""

    def is_constant(self, variable: V) -> bool:
        """Whether the real value is known entirely."""

    def is_none(self, variable: V) -> bool:
        """Whether it is known to be None."""

    def fold(self, function: Any, args: list[Any], kwargs: dict[str, Any] | None = None) -> Any:
        """Compute for real; an exception becomes the program's."""

    def made(self, value: Any) -> Any:
        """The same text or number, which was made just now: a run makes another, which is equal and not the same."""

    def is_made(self, value: object) -> bool:
        """Whether a value is a text or number that was made so, or by ``fold``."""

    def new_tuple(self, items: list[V]) -> Any:
        """A new tuple."""

    def new_dict(self, values: dict[str, V]) -> Any:
        """A new dictionary with these strings for keys."""

    def new_method(self, function: V, owner: V) -> Any:
        """A function bound to an object."""

    def cell_at(self, real: types.CellType, content: Source, source: Source) -> Any:
        """The variable of a real cell, which ``source`` reads, and ``content`` what it holds."""

    def fill_cell(self, cell: Any, real: types.CellType, content: Source) -> None:
        """Give a cell what the real one holds."""

    def referent(self, value: weakref.ref[Any], source: Source | None) -> V:
        """What a weak reference refers to: read through it, for nothing may keep that alive."""

    def input_entry(self, owner: Any, name: str, value: Any) -> V:
        """An entry of an input's dictionary."""

    def input_attribute(self, owner: Any, name: str, value: Any) -> V:
        """An entry of an input's dictionary or slots."""

    def class_attribute(self, value: Any) -> V:
        """A function or other object stored in a class."""

    def class_value(self, owner: type, name: str, raw: Any) -> V:
        """A plain value stored in a class, of which the look-up has noted which one it is."""

    def are_empty(self, tables: Iterable[tuple[Any, Source]]) -> bool:
        """Guard of dictionaries, up to the first that is not, that they are empty, without looking at them further."""
