"""What sets hold, and in which order real ones give it: by hashes and by all that happened to them.

In: elements, and changes. Out: an order where one is certain, and how code makes a set again that has it.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Hashable, Iterable
from typing import Any

from capture._native import has_holes, same_places
from capture.guards import GuardKind, Predicate
from capture.sources import Const, Source

from .base import Interpreter, Variable
from .constants import Constant, Known
from .hashing import SET_ELEMENT, hash_as
from .lookups import tells_in_its_own_way
from .numbers import Symbolic
from .placeholders import resolved
from .sequences import Tuple
from .slices import Range

#: A real set; None where the elements are not all known.
Twin = set[Any] | frozenset[Any] | None


class Elements(Variable):
    """The elements of a set or frozenset (``cls``): hashed element -> element, in order of insertion.

    Elements that hash as what stands for them lie in a ``twin``, too: a real set to which happens all that happens to the program's, so
    that it has that one's order.
    """

    def __init__(self, entries: dict[Hashable, Variable], cls: type, twin: Twin) -> None:
        self.entries = entries
        self.cls = cls
        self.twin: Twin = cls() if twin is None and not entries else twin
        #: The real set began empty, and elements were only added; in the order of ``entries``.
        self.only_grew = self.in_order = False
        #: All that was ever in it, in order, where single elements were taken out.
        self.past: dict[Hashable, Variable] | None = None
        #: What of that was there at first, if only a literal has the order of it.
        self.literal: frozenset[Any] | None = None
        #: Of a frozen set: whether its key has its hash, once that was asked.
        self.plain_hash: bool | None = None

    def known_order(self) -> list[Variable] | None:
        """The elements in the order in which the real set gives them, if that is certain."""
        if len(self.entries) <= 1:
            return list(self.entries.values())
        return None if self.twin is None else [self.entries[v] for v in self.twin]

    def building_order(self) -> list[Variable] | None:
        """An order in which adding the elements one by one gives a set with the real one's order, now and later; None if none is known."""
        if self.twin is not None and has_holes(self.twin):
            return None
        if self.twin is None or len(self.entries) <= 1:
            return list(self.entries.values()) if len(self.entries) <= 1 or (self.only_grew and self.in_order) else None
        wanted, size = list(self.twin), self.twin.__sizeof__()
        for way in (list(self.entries), wanted, wanted[::-1]):
            rebuilt = self.cls(way)
            alike = not isinstance(rebuilt, set) or same_places(rebuilt, self.twin)  # type: ignore[arg-type]
            if alike and rebuilt.__sizeof__() == size and list(rebuilt) == wanted:
                return [self.entries[v] for v in way]
        return None

    def building(self) -> tuple[list[Variable], list[Variable]] | None:
        """The same, and what to take out again then, of which holes are left; None if neither is known."""
        order = self.building_order()
        if order is not None or self.past is None or self.cls is not set or not isinstance(self.twin, set):
            return None if order is None else (order, [])
        ever = self.past | self.entries
        gone = [key for key in ever if key not in self.entries]
        more = [key for key in ever if self.literal is None or key not in self.literal]
        if not gone or not same_places(with_holes(self.literal or (), more, gone), self.twin):
            return None
        return [ever[key] for key in more], [ever[key] for key in gone]

    def as_constant(self) -> frozenset[Any] | None:
        """A frozen set of constants that gives, copied, a set with the real one's order, as a literal of many has it; None if none does."""
        if (
            self.cls is not set
            or self.twin is None
            or has_holes(self.twin)
            or not all(type(v) is Constant for v in self.entries.values())
        ):
            return None
        kept = frozenset(self.twin)
        copied = set(kept)
        return kept if list(copied) == list(self.twin) and copied.__sizeof__() == self.twin.__sizeof__() else None

    def forget_order(self) -> None:
        """After a change of which the real set's order is not followed."""
        self.twin = None

    def keep_past(self) -> None:
        """Before single elements are taken out."""
        if self.past is None or self.twin is None or not has_holes(self.twin):
            order = None if self.twin is None else self.building_order()
            keys = {id(value): key for key, value in self.entries.items()}
            self.past = dict(self.entries) if order is None else {keys[id(value)]: value for value in order}
            self.literal = self.as_constant() if order is None else None
        else:
            self.past |= self.entries


def with_holes(literal: Iterable[Any], more: list[Any], gone: list[Any]) -> set[Any]:
    """A set that held all these; called from generated code."""
    made = set(literal)
    for each in more:
        made.add(each)
    for each in gone:
        made.discard(each)
    return made


def hashes_as_itself(value: Variable) -> bool:
    """Whether the key that stands for a value has the value's own hash, in this process."""
    if isinstance(value, (Constant, Known)):
        if isinstance(value.value, type) and isinstance(type(value.value).__hash__, types.FunctionType):
            return False
        if isinstance(value.value, enum.Enum):
            return not tells_in_its_own_way(type(value.value))
        return type(value.value) is not types.CodeType
    if isinstance(value, (Range, Symbolic)):
        return True
    if isinstance(value, Tuple):
        return all(hashes_as_itself(resolved(x)) for x in value.items)
    if isinstance(value, Elements):
        if value.cls is set:
            return all(map(hashes_as_itself, value.entries.values()))
        if value.plain_hash is None:  # frozen sets of frozen sets would be gone through again and again
            value.plain_hash = all(map(hashes_as_itself, value.entries.values()))
        return value.plain_hash
    return False


def sought(m: Interpreter, value: Variable) -> Hashable:
    """The key that stands for a value that is looked for in a set: a set as if it were frozen."""
    return frozenset(value.entries) if isinstance(value, Elements) else hash_as(m, value, SET_ELEMENT)


class Given:
    """An operand of a set operation: its elements by key, and as a real object that is iterated and counted alike, if that is known."""

    def __init__(self, m: Interpreter, value: Variable) -> None:
        value = value.realize(m)
        self.entries: dict[Hashable, Variable] = {}
        self.real: Any = None
        kept = value.kept_keys(m)
        #: Whether a set takes them one after the other, and makes no room for them before.
        self.of_set = isinstance(value, Elements)
        self.one_by_one = kept is None and not self.of_set
        if isinstance(value, Elements):  # a set
            self.entries = dict(value.entries)
            self.real = None if value.twin is None else value.twin.copy()
            return
        if kept is not None:  # they are not asked for their hashes again
            self.entries = kept
            self.real = dict.fromkeys(kept) if all(map(hashes_as_itself, kept.values())) else None
            return
        for x in m.iteration.each(value):
            element = x.realize(m)
            self.entries.setdefault(hash_as(m, element, SET_ELEMENT), element)
        if all(map(hashes_as_itself, self.entries.values())):
            self.real = list(self.entries)


def assume_order(m: Interpreter, source: Source, order: tuple[Any, ...]) -> None:
    """An equal set may have another order, by how it came about."""
    if not isinstance(source, Const):
        m.guards.add(
            source, GuardKind.CALLABLE, Predicate(lambda s: tuple(s) == order, f"tuple({{}}) == {order!r}"[:200])
        )
