"""Sets and frozen sets. Changes are tracked for replay."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from capture._native import placed, same_places
from capture.bytecode import build
from capture.errors import NotConstant, Unsupported
from capture.guards import GuardKind, Predicate
from capture.sources import Source

from .base import Args, Interpreter, Kwargs, Variable
from .constants import BoundBuiltin, Constant
from .hashing import SET_ELEMENT, hash_as
from .identities import check_ids
from .iterators import Iterator, StopIter, begun
from .lookups import has_entry, shown_type
from .operations import COMPARE
from .own_keys import check_kept
from .reconstruction import CannotReconstruct, Emitter, method_of
from .sequences import Sequence, builtin_method, has_method
from .set_elements import Elements, Given, Twin, assume_order, hashes_as_itself, sought, with_holes


class Set(Elements):
    """A set or frozenset. Iterating over it is allowed where its order is certain."""

    may_tell_hashes = False

    def __init__(self, entries: dict[Hashable, Variable], cls: type = set, twin: Twin = None) -> None:
        super().__init__(entries, cls, twin)
        #: Where the real set, which ``entries`` are in the order of, is read again.
        self.read_from: Source | None = None
        #: What one from outside holds, from which single elements were taken and to which single ones came.
        self.found: dict[Hashable, Variable] | None = None
        #: One from outside: where it is read, and itself, which nothing changes meanwhile.
        self.outside: tuple[Source, set[Any]] | None = None
        #: Its elements are read by the order in which the real set gives them, which is theirs as long as nothing changes it.
        self.in_turn = False
        #: It was emptied, and nobody knows from where on pop() seeks.
        self.pops_anywhere = False
        #: What was done to one from outside, element by element; None once other things were.
        self.log: list[tuple[str, Variable | None]] | None = None

    @classmethod
    def of(cls, m: Interpreter, elements: Iterable[Variable], kind: type = set, *, in_order: bool = False) -> Set:
        """A new set of these elements."""
        entries: dict[Hashable, Variable] = {}
        for element in elements:
            real = element.realize(m)
            entries.setdefault(hash_as(m, real, SET_ELEMENT), real)
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
        if self.in_turn:
            return list(self.entries.values())
        assume_order(m, self.read_from, tuple(map(m.builder.to_python, self.entries.values())))
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
        if not has_entry(self.cls, name):
            m.errors.throw(AttributeError, f"{shown_type(self.cls)!r} object has no attribute {name!r}")
        if has_method(self, name) or name in SET_ALGEBRA:
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
        assume_order(m, source, tuple(kept))
        self.twin = twin

    def note(self, name: str, value: Variable | None = None) -> None:
        """Note what is done to one element."""
        if self.log is not None:
            self.log.append((name, value))

    def changed(self, m: Interpreter) -> Variable:
        """Note a change. Gives None, as the methods that change a set do."""
        self.read_from = None
        m.effects.mutated(self)
        return Constant(None)

    def py_add(self, m: Interpreter, value: Variable) -> Variable:
        """``set.add``."""
        key = hash_as(m, value, SET_ELEMENT)
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
            real = other.realize(m)
            if not isinstance(real, (Elements, Sequence)) and real.kept_keys(m) is None:
                for each in m.iteration.each(real):  # at once: what gives the next may look, or raise
                    self.py_add(m, each)
                continue
            given = Given(m, real)
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
            e.emit(build.push_callable(build.load_const(with_holes)), build.load_const(self.literal or ()))
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


def _in_both(left: Any, right: Any) -> dict[Hashable, Variable]:
    """Of two equal elements the one in what is iterated: the right one, or the left if both are sets and that one is smaller."""
    of_set = isinstance(right, Set) or right.of_set
    iterated, other = (left, right) if of_set and len(right.entries) > len(left.entries) else (right, left)
    return {k: v for k, v in iterated.entries.items() if k in other.entries}


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
    "intersection": _algebra("intersection", _in_both),
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
