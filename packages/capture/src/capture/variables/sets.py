"""Sets and frozen sets. Changes are tracked for replay."""

from __future__ import annotations

import enum
import itertools
import types
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from capture.bytecode import build
from capture.errors import NotConstant, Unsupported
from capture.guards import GuardKind, Predicate
from capture.sources import Const, Source

from .base import Args, Interpreter, Kwargs, Variable
from .building import builds, converts
from .constants import CONSTANT_TYPES, BoundBuiltin, Constant
from .handlers import handles
from .iterators import SequenceIterator
from .lookups import shown_type
from .operations import COMPARE
from .reconstruction import CannotReconstruct, Emitter
from .sequences import DUNDERS, Tuple, builtin_method


class Set(Variable):
    """A set or frozenset (``cls``): hashed element -> element, in order of insertion.

    Iteration order of a real set is by hash: iterating is allowed where the order of an equal real set is known.
    """

    #: As many elements fit into a table that was never enlarged.
    SMALL = 4

    def __init__(self, entries: dict[Hashable, Variable], cls: type = set) -> None:
        self.entries = entries
        self.cls = cls
        #: The real set began empty, and elements were only added; in the order of ``entries``.
        self.only_grew = self.in_order = False
        #: Where the real set, which ``entries`` are in the order of, is read again.
        self.read_from: Source | None = None

    @classmethod
    def of(cls, m: Interpreter, elements: Iterable[Variable], kind: type = set, *, in_order: bool = False) -> Set:
        """A new set of these elements."""
        entries: dict[Hashable, Variable] = {}
        for element in elements:
            real = element.realize(m)
            entries.setdefault(real.hash_key(m), real)
        made = cls(entries, kind)
        made.only_grew, made.in_order = True, in_order
        m.effects.created(made)
        return made

    def python_type(self) -> type:
        return self.cls

    def as_python(self, m: Interpreter) -> Any:
        if self.source is not None:
            raise NotConstant(self)
        return self.cls(m.builder.to_python(x) for x in self.entries.values())

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
        if all(isinstance(x, Constant) for x in self.entries.values()):
            # Order depends on the history of the table: only small integers without collisions are certain.
            values = list(self.entries)
            if all(type(v) is int and 0 <= v < 8 for v in values):
                return [self.entries[v] for v in sorted(values)]  # type: ignore[type-var]
            if self.only_grew and len(values) <= self.SMALL:
                # Of two elements that want one place the first to come has it.
                ways = [values] if self.in_order else itertools.permutations(values)
                orders = {tuple(set(way)) for way in ways}
                if len(orders) == 1:
                    return [self.entries[v] for v in orders.pop()]
        return None

    @property
    def is_rebuilt_alike(self) -> bool:
        """Whether adding the elements one by one, in the order of ``entries``, gives a set with the real one's order."""
        return (self.only_grew and self.in_order) or self.known_order() is not None

    def ordered(self, m: Interpreter) -> list[Variable]:
        """The elements in the order in which the real set gives them."""
        order = self.known_order()
        if order is not None:
            return order
        if self.read_from is None:
            raise Unsupported("iteration over a set, whose order is not known")
        _assume_order(m, self.read_from, tuple(map(m.builder.to_python, self.entries.values())))
        return list(self.entries.values())

    def iterate(self, m: Interpreter) -> Variable:
        return m.effects.created(SequenceIterator(m.builder.new_tuple(self.ordered(m))))

    def contains(self, m: Interpreter, value: Variable) -> bool:
        real = value.realize(m)
        return real.may_be_among(m, self.entries) and real.hash_key(m) in self.entries

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
                result = algebra(m, result, Set.of(m, unordered(m, other.realize(m))))
            return result if args else self.py_copy(m)
        return builtin_method(self, m, name, args, kwargs)

    def changed(self, m: Interpreter) -> Variable:
        """Note a change. Gives None, as the methods that change a set do."""
        self.read_from = None
        m.effects.mutated(self)
        return Constant(None)

    def py_add(self, m: Interpreter, value: Variable) -> Variable:
        """``set.add``."""
        self.entries.setdefault(value.hash_key(m), value)
        return self.changed(m)

    def py_discard(self, m: Interpreter, value: Variable) -> Variable:
        """``set.discard``."""
        self.entries.pop(value.hash_key(m), None)
        self.only_grew = False
        return self.changed(m)

    def py_remove(self, m: Interpreter, value: Variable) -> Variable:
        """``set.remove``; raises ``KeyError`` in the program."""
        if value.hash_key(m) not in self.entries:
            m.errors.throw_value(KeyError, [value])
        return self.py_discard(m, value)

    def py_clear(self, m: Interpreter) -> Variable:
        """``set.clear``."""
        self.entries.clear()
        return self.changed(m)

    def py_copy(self, m: Interpreter) -> Variable:
        """``set.copy``."""
        return m.effects.created(Set(dict(self.entries), self.cls))

    def py_update(self, m: Interpreter, *others: Variable) -> Variable:
        """``set.update``."""
        self.in_order = False
        for other in others:
            for x in unordered(m, other):
                real = x.realize(m)
                self.entries.setdefault(real.hash_key(m), real)
        return self.changed(m)

    def py_issubset(self, m: Interpreter, other: Variable) -> Variable:
        """``set.issubset``."""
        return Constant(self.entries.keys() <= Set.of(m, unordered(m, other)).entries.keys())

    def py_issuperset(self, m: Interpreter, other: Variable) -> Variable:
        """``set.issuperset``."""
        return Constant(self.entries.keys() >= Set.of(m, unordered(m, other)).entries.keys())

    def py_isdisjoint(self, m: Interpreter, other: Variable) -> Variable:
        """``set.isdisjoint``."""
        return Constant(self.entries.keys().isdisjoint(Set.of(m, unordered(m, other)).entries.keys()))

    def made_of(self) -> Iterable[Variable]:
        if not self.is_rebuilt_alike:
            raise CannotReconstruct(self, "a set whose order depends on more than its elements")
        return self.entries.values()

    def reconstruct(self, e: Emitter) -> None:
        if self.cls is set:
            e.emit(build.build_set(e.load_many(self.entries.values())))
            return
        e.emit(build.push_callable(build.load_const(self.cls)))
        e.load_list(list(self.entries.values()))
        e.emit(build.call(1))

    def written(self) -> Iterable[Variable]:
        return list(self.entries.values())

    def replay(self, e: Emitter) -> None:
        e.call_discarding(set.clear, [self])
        e.emit(build.push_callable(build.load_const(set.update)))
        e.load(self)
        e.load_list(list(self.entries.values()))
        e.emit(build.call(2), build.pop())

    def binary(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        if symbol not in SET_OPERATORS or not isinstance(other, Set):
            return None
        return SET_ALGEBRA[SET_OPERATORS[symbol]](m, self, other)

    def inplace(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        if self.cls is not set or symbol[:-1] not in SET_OPERATORS:
            return None
        given = Set.of(m, other.entries.values()) if isinstance(other, Set) else other
        result: Any = m.operators.binary(symbol[:-1], self, given)
        self.entries = result.entries
        self.only_grew, self.in_order = self.only_grew and symbol == "|=", False
        self.read_from = None
        m.effects.mutated(self)
        return self

    def compare(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        if not isinstance(other, Set):
            return None
        return Constant(COMPARE[symbol][0](set(self.entries), set(other.entries)))


def unordered(m: Interpreter, value: Variable) -> list[Variable]:
    """Elements of anything iterable where their order does not matter."""
    return list(value.entries.values()) if isinstance(value, Set) else m.iteration.elements(value)


def _algebra(keep: Callable[[Set, Set], dict[Hashable, Variable]]) -> Callable[[Interpreter, Any, Set], Variable]:
    def combine(m: Interpreter, left: Any, right: Set) -> Variable:
        return m.effects.created(Set(keep(left, right), left.cls))

    return combine


#: Named and operator forms of the set operations.
SET_ALGEBRA: dict[str, Callable[[Interpreter, Any, Set], Variable]] = {
    "union": _algebra(lambda a, b: {**a.entries, **{k: v for k, v in b.entries.items() if k not in a.entries}}),
    "intersection": _algebra(lambda a, b: {k: v for k, v in a.entries.items() if k in b.entries}),
    "difference": _algebra(lambda a, b: {k: v for k, v in a.entries.items() if k not in b.entries}),
    "symmetric_difference": _algebra(
        lambda a, b: {
            **{k: v for k, v in a.entries.items() if k not in b.entries},
            **{k: v for k, v in b.entries.items() if k not in a.entries},
        }
    ),
}
SET_OPERATORS = {"|": "union", "&": "intersection", "-": "difference", "^": "symmetric_difference"}


@builds(set, frozenset)
def _build_set(m: Interpreter, value: Any, source: Source | None) -> Variable:
    if all(type(x) in CONSTANT_TYPES or isinstance(x, enum.Enum | type | types.FunctionType) for x in value):
        if source is not None and not (isinstance(source, Const) and type(value) is frozenset):
            m.guards.of_type(source, type(value))
            expected = frozenset(value)
            text = f"{{}} == {set(value)!r}"[:200]
            m.guards.add(source, GuardKind.CALLABLE, Predicate(lambda s: s == expected, text))
        wrapped = [m.builder.from_python(x) for x in value]
        made = Set({x.hash_key(m): x for x in wrapped}, type(value))
        made.read_from = source
        return made
    raise Unsupported("a set of values that are not constants, from outside the frame")


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


def _set_of(m: Interpreter, args: Args, cls: type) -> Set:
    given = args[0].realize(m) if args else Tuple([])
    made = Set.of(m, unordered(m, given), cls, in_order=not isinstance(given, Set))
    if cls is frozenset and isinstance(given, Set) and given.cls is frozenset:
        made.only_grew = given.only_grew  # it is the same object
    return made


@converts(set, frozenset)
def _convert_set(m: Interpreter, value: Any) -> Variable:
    made = Set.of(m, [m.builder.from_python(v) for v in value], type(value))
    made.only_grew = False  # who knows
    return made
