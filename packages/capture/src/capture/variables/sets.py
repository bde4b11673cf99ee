"""Sets and frozen sets. Changes are tracked for replay."""

from __future__ import annotations

import enum
import itertools
import types
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from capture._native import has_holes, placed, same_places
from capture.bytecode import build
from capture.errors import NotConstant, Unsupported
from capture.guards import GuardKind, Predicate
from capture.sources import Const, Source

from .base import Args, Interpreter, Kwargs, Variable
from .building import builds, converts
from .constants import CONSTANT_TYPES, BoundBuiltin, Constant, Known
from .handlers import handles
from .identities import check_ids
from .iterators import Iterator, StopIter, begun
from .lookups import shown_type, tells_in_its_own_way
from .numbers import Symbolic
from .operations import COMPARE
from .own_keys import check_kept
from .placeholders import resolved
from .reconstruction import CannotReconstruct, Emitter, method_of
from .sequences import DUNDERS, Tuple, builtin_method
from .slices import Range
from .unseen import UnseenElements, hashes_plainly

#: A real set; None where the elements are not all known.
Twin = set[Any] | frozenset[Any] | None


class Set(Variable):
    """A set or frozenset (``cls``): hashed element -> element, in order of insertion.

    Iteration order of a real set is by hash and history: iterating is allowed where that is certain. Elements that hash as what stands for
    them lie in a ``twin``, too: a real set to which happens all that happens to the program's, so that it has that one's order.
    """

    may_tell_hashes = False

    def __init__(self, entries: dict[Hashable, Variable], cls: type = set, twin: Twin = None) -> None:
        self.entries = entries
        self.cls = cls
        self.twin: Twin = cls() if twin is None and not entries else twin
        #: The real set began empty, and elements were only added; in the order of ``entries``.
        self.only_grew = self.in_order = False
        #: All that was ever in it, in order, where single elements were taken out.
        self.past: dict[Hashable, Variable] | None = None
        #: What of that was there at first, if only a literal has the order of it.
        self.literal: frozenset[Any] | None = None
        #: Where the real set, which ``entries`` are in the order of, is read again.
        self.read_from: Source | None = None
        #: What one from outside holds, from which single elements were taken and to which single ones came.
        self.found: dict[Hashable, Variable] | None = None
        #: One from outside: where it is read, and itself, which nothing changes meanwhile.
        self.outside: tuple[Source, set[Any]] | None = None
        #: It was emptied, and nobody knows from where on pop() seeks.
        self.pops_anywhere = False
        #: What was done to one from outside, element by element; None once other things were.
        self.log: list[tuple[str, Variable | None]] | None = None
        #: Of a frozen set: whether its key has its hash, once that was asked.
        self.plain_hash: bool | None = None

    @classmethod
    def of(cls, m: Interpreter, elements: Iterable[Variable], kind: type = set, *, in_order: bool = False) -> Set:
        """A new set of these elements."""
        entries: dict[Hashable, Variable] = {}
        for element in elements:
            real = element.realize(m)
            entries.setdefault(real.hash_key(m), real)
        known = in_order and all(map(hashes_as_itself, entries.values()))
        made = cls(entries, kind, kind(list(entries)) if known else None)
        made.only_grew, made.in_order = True, in_order
        m.effects.created(made)
        return made

    def python_type(self) -> type:
        return self.cls

    def as_python(self, m: Interpreter) -> Any:
        if self.source is not None:
            raise NotConstant(self)
        order, literal = self.building_order(), self.as_constant()
        if order is None and literal is None:
            raise NotConstant(self)  # what is computed of it may go by its order
        return set(literal or ()) if order is None else self.cls(m.builder.to_python(x) for x in order)

    def hash_key(self, m: Interpreter) -> Hashable:
        if self.cls is set:
            m.errors.throw(TypeError, "unhashable type: 'set'")
        return frozenset(self.entries)

    def truth(self, m: Interpreter) -> bool:
        return bool(self.entries)

    def length(self, m: Interpreter) -> Variable:
        return Constant(len(self.entries))

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
        if not gone or not same_places(_with_holes(self.literal or (), more, gone), self.twin):
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

    def kept_keys(self, m: Interpreter) -> dict[Hashable, Variable]:
        return dict(self.entries)

    def ordered(self, m: Interpreter) -> list[Variable]:
        """The elements in the order in which the real set gives them."""
        if self.read_from is None:
            self.follow(m)
        order = self.known_order()
        if order is not None:
            return order
        if self.read_from is None:
            raise Unsupported("iteration over a set, whose order is not known")
        _assume_order(m, self.read_from, tuple(map(m.builder.to_python, self.entries.values())))
        return list(self.entries.values())

    def iterate(self, m: Interpreter) -> Variable:
        return m.effects.created(SetIterator(self, self.ordered(m)))

    def contains(self, m: Interpreter, value: Variable) -> bool:
        real = value.realize(m)
        if not real.may_be_among(m, self.entries):
            return False
        key = sought(m, real)
        check_ids(m, (key,), self.entries)
        return key in self.entries

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if not hasattr(self.cls, name):
            m.errors.throw(AttributeError, f"{shown_type(self.cls)!r} object has no attribute {name!r}")
        if hasattr(self, "py_" + name) or name in SET_ALGEBRA or name in DUNDERS:
            return BoundBuiltin(self, name)
        raise Unsupported(f"{self.cls.__name__}.{name}")

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        algebra = SET_ALGEBRA.get(name)
        if algebra is not None:
            result: Variable = self
            for other in args:
                result = algebra(m, result, Given(m, other))
            return result if args else SET_ALGEBRA["union"](m, self, Set({}))
        return builtin_method(self, m, name, args, kwargs)

    def follow(self, m: Interpreter) -> None:
        """Go on with the places that the elements of one from outside have, which are guarded, if all that was done to it is known."""
        if self.twin is not None or self.outside is None or self.log is None:
            return
        source, real = self.outside
        changes = [(name, None if value is None else value.realize(m)) for name, value in self.log]
        if not all(value is None or hashes_as_itself(value) for _, value in changes):
            return
        if not all(x in (self.found or {}) and hashes_as_itself((self.found or {})[x]) for x in real):
            return
        kept, twin = placed(real), placed(real)
        for name, value in changes:
            getattr(twin, name)(*(() if value is None else (value.hash_key(m),)))
        text = f"the places in {{}} are those in {real!r}"[:200]
        m.guards.add(source, GuardKind.CALLABLE, Predicate(lambda s: same_places(s, kept), text))
        _assume_order(m, source, tuple(kept))
        self.twin = twin

    def note(self, name: str, value: Variable | None = None) -> None:
        """Note what is done to one element."""
        if self.log is not None:
            self.log.append((name, value))

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

    def changed(self, m: Interpreter) -> Variable:
        """Note a change. Gives None, as the methods that change a set do."""
        self.read_from = None
        m.effects.mutated(self)
        return Constant(None)

    def py_add(self, m: Interpreter, value: Variable) -> Variable:
        """``set.add``."""
        key = value.hash_key(m)
        check_ids(m, (key,), self.entries)
        if self.twin is not None and hashes_as_itself(value):
            self.twin.add(key)  # type: ignore[union-attr]
        else:
            self.forget_order()
        self.entries.setdefault(key, value)
        self.note("add", value)
        return self.changed(m)

    def py_discard(self, m: Interpreter, value: Variable) -> Variable:
        """``set.discard``."""
        key = sought(m, value)
        check_ids(m, (key,), self.entries)
        self.keep_past()
        self.entries.pop(key, None)
        if self.twin is not None:
            self.twin.discard(key)  # type: ignore[union-attr]
        self.note("discard", value)
        self.only_grew = False
        return self.changed(m)

    def py_remove(self, m: Interpreter, value: Variable) -> Variable:
        """``set.remove``; raises ``KeyError`` in the program."""
        if not self.contains(m, value):
            m.errors.throw_value(KeyError, [value])
        return self.py_discard(m, value)

    def py_pop(self, m: Interpreter) -> Variable:
        """``set.pop`` of one whose order is known; raises ``KeyError`` in the program if it is empty."""
        if self.pops_anywhere and self.log is not None:
            self.twin, self.pops_anywhere = None, False
        self.follow(m)
        order = self.known_order()
        if order is None or (self.pops_anywhere and len(order) > 1):
            raise Unsupported("an element taken from a set, whose order is not known")
        if not order:
            m.errors.throw(KeyError, "pop from an empty set")
        if self.twin is not None:
            key = self.twin.pop()  # type: ignore[union-attr]
        else:
            key = next(iter(self.entries))
        self.note("pop")
        self.keep_past()
        self.only_grew = False
        value = self.entries.pop(key)
        self.changed(m)
        return value

    def py_clear(self, m: Interpreter) -> Variable:
        """``set.clear``."""
        self.entries.clear()
        self.past = None
        self.note("clear")
        if self.log is None:
            self.found = None
        if isinstance(self.twin, set):
            self.twin.clear()  # what pop() gives next is still sought from where it was
        else:
            self.twin, self.pops_anywhere = self.cls(), self.outside is not None
        return self.changed(m)

    def py_copy(self, m: Interpreter) -> Variable:
        """``set.copy``."""
        if self.cls is frozenset:
            return self
        return m.effects.created(Set(dict(self.entries), self.cls, None if self.twin is None else self.twin.copy()))

    def py_update(self, m: Interpreter, *others: Variable) -> Variable:
        """``set.update``."""
        self.in_order = False
        for other in others:
            given = Given(m, other)
            check_ids(m, self.entries, given.entries)
            if self.twin is not None and given.real is not None:
                self.twin.update(given.real)  # type: ignore[union-attr]
            else:
                self.forget_order()
            for key, x in given.entries.items():
                self.entries.setdefault(key, x)
                self.note("add", x)
            if not given.one_by_one:
                self.found = self.log = None
        return self.changed(m)

    def become(self, m: Interpreter, result: Any) -> Variable:
        """Take over what an operation came to, which the real one does in place."""
        self.entries, self.twin, self.found, self.past = result.entries, result.twin, None, None
        self.log = None
        self.only_grew = self.in_order = False
        return self.changed(m)

    def py_intersection_update(self, m: Interpreter, *others: Variable) -> Variable:
        """``set.intersection_update``, which takes over the elements of a new set."""
        return self.become(m, self.method(m, "intersection", list(others), {}) if others else self.py_copy(m))

    def py_difference_update(self, m: Interpreter, *others: Variable) -> Variable:
        """``set.difference_update``."""
        for other in others:
            self._apply(m, "difference_update", Given(m, other), lambda own, given: own.keys() - given.keys())
        return Constant(None)

    def py_symmetric_difference_update(self, m: Interpreter, other: Variable) -> Variable:
        """``set.symmetric_difference_update``."""
        return self._apply(
            m, "symmetric_difference_update", Given(m, other), lambda own, given: own.keys() ^ given.keys()
        )

    def _apply(
        self, m: Interpreter, name: str, given: Given, kept: Callable[[dict[Hashable, Any], dict[Hashable, Any]], Any]
    ) -> Variable:
        check_ids(m, self.entries, given.entries)
        self.keep_past()
        if self.twin is not None and given.real is not None:
            getattr(self.twin, name)(given.real)
        else:
            self.forget_order()
        left = kept(self.entries, given.entries)
        self.found = self.log = None
        self.entries = {k: v for k, v in (given.entries | self.entries).items() if k in left}
        self.only_grew = self.in_order = False
        return self.changed(m)

    def py_issubset(self, m: Interpreter, other: Variable) -> Variable:
        """``set.issubset``."""
        return Constant(self._beside(m, other).keys() >= self.entries.keys())

    def py_issuperset(self, m: Interpreter, other: Variable) -> Variable:
        """``set.issuperset``."""
        return Constant(self._beside(m, other).keys() <= self.entries.keys())

    def py_isdisjoint(self, m: Interpreter, other: Variable) -> Variable:
        """``set.isdisjoint``."""
        return Constant(self.entries.keys().isdisjoint(self._beside(m, other)))

    def _beside(self, m: Interpreter, other: Variable) -> dict[Hashable, Variable]:
        found = Set.of(m, unordered(m, other)).entries
        check_ids(m, self.entries, found)
        return found

    def made_of(self) -> Iterable[Variable]:
        building = self.building()
        check_kept(self, self.entries)
        if building is None and self.as_constant() is not None:
            return ()
        if building is None:
            raise CannotReconstruct(self, "a set whose order depends on more than its elements")
        return [*building[0], *building[1]]

    def reconstruct(self, e: Emitter) -> None:
        building = self.building()
        if building is None:
            e.emit(build.push_callable(build.load_const(set)), build.load_const(self.as_constant()), build.call(1))
            return
        order, gone = building
        if gone:
            e.emit(build.push_callable(build.load_const(_with_holes)), build.load_const(self.literal or ()))
            e.load_list(order)
            e.load_list(gone)
            e.emit(build.call(3))
            return
        if self.cls is set:
            e.emit(build.build_set(e.load_many(order)))
            return
        e.emit(build.push_callable(build.load_const(self.cls)))
        e.load_list(order)
        e.emit(build.call(1))

    def written(self) -> Iterable[Variable]:
        check_kept(self, self.entries)
        if self.found is None:
            building = self.building()
            in_order = building is not None and not (building[1] and self.literal)
            if not in_order and all(map(hashes_as_itself, self.entries.values())):
                raise CannotReconstruct(self, "a set whose order depends on more than its elements")
            return list(self.entries.values()) if building is None else [*building[0], *building[1]]
        return [value for _, value in self.log or () if value is not None]

    def replay(self, e: Emitter) -> None:
        if self.found is None:
            e.call_discarding(set.clear, [self])
            elements, gone = self.building() or (list(self.entries.values()), [])
            e.call_with_list(set.update, self, elements)
            for each in gone:
                e.call_discarding(set.discard, [self, each])
            return
        # Its order is by all that ever happened to it.
        for name, group in itertools.groupby(self.log or (), lambda done: done[0]):
            values = [value for _, value in group]
            if name == "add":
                e.call_with_list(set.update, self, [value for value in values if value is not None])
                continue
            for value in values:
                e.call_discarding(getattr(set, name), [self] if value is None else [self, value])

    def binary(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        if symbol not in SET_OPERATORS or not isinstance(other, Set):
            return None
        return SET_ALGEBRA[SET_OPERATORS[symbol]](m, self, other)

    def inplace(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        if self.cls is not set or symbol[:-1] not in SET_OPERATORS:
            return None
        if not isinstance(other, Set):
            return None  # a new set, if the other takes it
        self.method(m, IN_PLACE[symbol], [other], {})
        return self

    def compare(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        if not isinstance(other, Set):
            return None
        check_ids(m, self.entries, other.entries)
        return Constant(COMPARE[symbol][0](set(self.entries), set(other.entries)))


def _with_holes(literal: Iterable[Any], more: list[Any], gone: list[Any]) -> set[Any]:
    """A set that held all these; called from generated code."""
    made = set(literal)
    for each in more:
        made.add(each)
    for each in gone:
        made.discard(each)
    return made


class SetIterator(Iterator):
    """Over a set, in its order; a change of size meanwhile is the user's error."""

    cls: type = type(iter(set()))

    def __init__(self, owner: Set, elements: list[Variable]) -> None:
        self.owner = owner
        self.elements = elements
        self.position = 0
        self.size = len(elements)

    def next(self, m: Interpreter) -> Variable:
        if self.size < 0:
            raise StopIter
        if len(self.owner.entries) != self.size:
            m.errors.throw(RuntimeError, "Set changed size during iteration")
        if self.position == self.size:
            self.size = -1
            raise StopIter
        value = self.elements[self.position]
        self.position += 1
        if sought(m, value) not in self.owner.entries:
            raise Unsupported("a set's elements changed during iteration")
        return value

    def made_of(self) -> Iterable[Variable]:
        if self.size >= 0 and len(self.owner.entries) != self.size:
            raise CannotReconstruct(self, "an iterator over a set that was changed")
        return (self.owner,) if self.size >= 0 else ()

    def waits_for(self, m: Interpreter) -> bool:
        return m.effects.has_changed_input(self.owner)

    def reconstruct(self, e: Emitter) -> None:
        if self.size < 0:
            e.emit(build.push_callable(build.load_const(iter)), build.load_const(frozenset()), build.call(1))
            return
        e.emit(build.push_callable(build.load_const(begun)))
        e.call(method_of(self.owner.cls, "__iter__"), [self.owner])
        e.emit(build.load_const(self.position), build.call(2))


def unordered(m: Interpreter, value: Variable) -> list[Variable]:
    """Elements of anything iterable where their order does not matter."""
    return list(value.entries.values()) if isinstance(value, Set) else m.iteration.elements(value)


def sought(m: Interpreter, value: Variable) -> Hashable:
    """The key that stands for a value that is looked for in a set: a set as if it were frozen."""
    return frozenset(value.entries) if isinstance(value, Set) else value.hash_key(m)


def hashes_as_itself(value: Variable) -> bool:
    """Whether the key that stands for a value has the value's own hash, in this process."""
    if isinstance(value, Constant | Known):
        if isinstance(value.value, type) and isinstance(type(value.value).__hash__, types.FunctionType):
            return False
        if isinstance(value.value, enum.Enum):
            return not tells_in_its_own_way(type(value.value))
        return type(value.value) is not types.CodeType
    if isinstance(value, Range | Symbolic):
        return True
    if isinstance(value, Tuple):
        return all(hashes_as_itself(resolved(x)) for x in value.items)
    if isinstance(value, Set):
        if value.cls is set:
            return all(map(hashes_as_itself, value.entries.values()))
        if value.plain_hash is None:  # frozen sets of frozen sets would be gone through again and again
            value.plain_hash = all(map(hashes_as_itself, value.entries.values()))
        return value.plain_hash
    return False


class Given:
    """An operand of a set operation: its elements by key, and as a real object that is iterated and counted alike, if that is known."""

    def __init__(self, m: Interpreter, value: Variable) -> None:
        value = value.realize(m)
        self.entries: dict[Hashable, Variable] = {}
        self.real: Any = None
        kept = value.kept_keys(m)
        #: Whether a set takes them one after the other, and makes no room for them before.
        self.one_by_one = kept is None and not isinstance(value, Set)
        if isinstance(value, Set):
            self.entries = dict(value.entries)
            self.real = None if value.twin is None else value.twin.copy()
            return
        if kept is not None:  # they are not asked for their hashes again
            self.entries = kept
            self.real = dict.fromkeys(kept) if all(map(hashes_as_itself, kept.values())) else None
            return
        for x in m.iteration.elements(value):
            element = x.realize(m)
            self.entries.setdefault(element.hash_key(m), element)
        if all(map(hashes_as_itself, self.entries.values())):
            self.real = list(self.entries)


def _algebra(
    name: str, keep: Callable[[Any, Any], dict[Hashable, Variable]]
) -> Callable[[Interpreter, Any, Any], Variable]:
    def combine(m: Interpreter, left: Any, right: Any) -> Variable:
        """``right`` is a set, or what a method was given."""
        check_ids(m, left.entries, right.entries)
        known = right.twin if isinstance(right, Set) else right.real
        twin = None if left.twin is None or known is None else getattr(left.twin, name)(known)
        return m.effects.created(Set(keep(left, right), left.cls, twin))

    return combine


#: Named and operator forms of the set operations.
SET_ALGEBRA: dict[str, Callable[[Interpreter, Any, Any], Variable]] = {
    "union": _algebra(
        "union", lambda a, b: {**a.entries, **{k: v for k, v in b.entries.items() if k not in a.entries}}
    ),
    "intersection": _algebra("intersection", lambda a, b: {k: v for k, v in a.entries.items() if k in b.entries}),
    "difference": _algebra("difference", lambda a, b: {k: v for k, v in a.entries.items() if k not in b.entries}),
    "symmetric_difference": _algebra(
        "symmetric_difference",
        lambda a, b: {
            **{k: v for k, v in a.entries.items() if k not in b.entries},
            **{k: v for k, v in b.entries.items() if k not in a.entries},
        },
    ),
}
#: The methods that the in-place operators come to.
IN_PLACE = {
    "|=": "update", "&=": "intersection_update", "-=": "difference_update", "^=": "symmetric_difference_update",
}  # fmt: skip
SET_OPERATORS = {"|": "union", "&": "intersection", "-": "difference", "^": "symmetric_difference"}


class InputSet(UnseenElements, Set):
    """A set from outside. What is in it counts from when that is looked at: until then the program may only add to it."""

    _put_in = "update"
    _content = (
        "entries",
        "twin",
        "only_grew",
        "in_order",
        "read_from",
        "found",
        "past",
        "literal",
        "outside",
        "log",
        "pops_anywhere",
    )

    def __init__(self, m: Interpreter, see: Callable[[InputSet], None]) -> None:
        self.cls = set
        self._m = m
        self._see = see
        #: What the program added to one that it has not looked at.
        self._more: list[Variable] = []

    def _looked(self) -> None:
        for value in self._more:
            super().py_add(self._m, value.realize(self._m))

    def py_add(self, m: Interpreter, value: Variable) -> Variable:
        if self._see is None or not hashes_plainly(m, value):
            return super().py_add(m, value)
        self._more.append(value)
        m.effects.mutated(self)
        return Constant(None)


@builds(set, frozenset)
def _build_set(m: Interpreter, value: Any, source: Source | None) -> Variable:
    if type(value) is set and source is not None and not isinstance(source, Const):
        m.guards.of_type(source, set)
        return InputSet(m, lambda made: vars(made).update(vars(_see_all(m, value, source))))
    return _see_all(m, value, source)


def _see_all(m: Interpreter, value: set[Any] | frozenset[Any], source: Source | None) -> Set:
    """The variable of a set from outside with all that is in it, guarded."""
    if all(type(x) in CONSTANT_TYPES or isinstance(x, enum.Enum | type | types.FunctionType) for x in value):
        if source is not None and not (isinstance(source, Const) and type(value) is frozenset):
            m.guards.of_type(source, type(value))
            expected = frozenset(value)
            text = f"{{}} == {set(value)!r}"[:200]
            m.guards.add(source, GuardKind.CALLABLE, Predicate(_equal_to(expected), text))
            if _is_as_new(value):
                m.guards.add(source, GuardKind.CALLABLE, Predicate(_is_as_new, "{} never held many, or was cleared"))
        wrapped = [m.builder.from_python(x) for x in value]
        made = Set({x.hash_key(m): x for x in wrapped}, type(value))
        made.read_from, made.found = source, dict(made.entries)
        if type(value) is set:
            made.outside, made.log = None if source is None else (source, value), []
        if not value and not _is_as_new(value):
            made.forget_order()
        return made
    raise Unsupported("a set of values that are not constants, from outside the frame")


def _equal_to(expected: frozenset[Any]) -> Callable[[Any], bool]:
    """Whether a set has these elements, and not others that equal them, as numbers of other classes do."""
    if not any(isinstance(x, int | float | complex) for x in expected):
        return lambda s: bool(s == expected)
    kinds = {x: _kind(x) for x in expected}
    return lambda s: s == expected and all(kinds[x] == _kind(x) for x in s)


def _kind(value: Any) -> Any:
    """What tells values apart that are equal: their classes, and the signs of zeros."""
    return type(value), repr(value) if isinstance(value, float | complex) else None


def _is_as_new(value: set[Any] | frozenset[Any]) -> bool:
    """Whether a set is empty, and orders what comes as one does that was just made."""
    return not value and not has_holes(value) and value.__sizeof__() == set().__sizeof__()


def _assume_order(m: Interpreter, source: Source, order: tuple[Any, ...]) -> None:
    """An equal set may have another order, by how it came about."""
    if not isinstance(source, Const):
        m.guards.add(
            source, GuardKind.CALLABLE, Predicate(lambda s: tuple(s) == order, f"tuple({{}}) == {order!r}"[:200])
        )


@handles(set)
def _set(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return _set_of(m, args, set)


@handles(frozenset)
def _frozenset(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return _set_of(m, args, frozenset)


def _set_of(m: Interpreter, args: Args, cls: type) -> Variable:
    if len(args) > 1:
        m.errors.throw(TypeError, f"{cls.__name__} expected at most 1 argument, got {len(args)}")
    value = args[0].realize(m) if args else Tuple([])
    if cls is frozenset and isinstance(value, Set) and value.cls is frozenset:
        return value
    given = Given(m, value)
    made = Set(given.entries, cls, None if given.real is None else cls(given.real))
    made.only_grew, made.in_order = True, not isinstance(value, Set)
    created: Variable = m.effects.created(made)
    return created


@converts(set, frozenset)
def _convert_set(m: Interpreter, value: Any) -> Variable:
    made = Set.of(m, [m.builder.from_python(v) for v in value], type(value))
    made.only_grew = False  # who knows
    if all(map(hashes_as_itself, made.entries.values())):
        made.twin = value  # nobody else changes it
    return made
