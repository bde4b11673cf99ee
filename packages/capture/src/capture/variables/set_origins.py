"""Where sets come from: outside the frame, guarded to hold what they hold, or calls of `set` and `frozenset`."""

from __future__ import annotations

import enum
import itertools
import types
from collections.abc import Callable
from typing import Any

from capture._native import has_holes
from capture.errors import Unsupported
from capture.guards import GuardKind, Predicate
from capture.sources import Applied, Const, Source

from .base import Args, Interpreter, Kwargs, Variable
from .building import builds, converts
from .constants import CONSTANT_TYPES, Constant
from .handlers import handles
from .hashing import SET_ELEMENT, hash_as
from .mappings import VarKey
from .sequences import Tuple
from .set_elements import Given, hashes_as_itself
from .sets import Set
from .unseen import UnseenElements, hashes_plainly


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
        "in_turn",
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


#: Objects that are themselves wherever they come from, and equal to nothing else.
_KNOWN = (
    enum.Enum,
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
    types.MethodWrapperType,
)


def _see_all(m: Interpreter, value: set[Any] | frozenset[Any], source: Source | None) -> Set:
    """The variable of a set from outside with all that is in it, guarded."""
    if all(type(x) in CONSTANT_TYPES or isinstance(x, _KNOWN) for x in value):
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
    if source is None or isinstance(source, Const) or any(type(x) in CONSTANT_TYPES for x in value):
        raise Unsupported("a set of values that are not constants, from outside the frame")
    return _objects(m, value, source)


def in_turn(value: set[Any] | frozenset[Any], index: int) -> Any:
    """An element of a set, by the order in which it gives them; None where there are fewer."""
    return next(itertools.islice(value, index, None), None)


def _objects(m: Interpreter, value: set[Any] | frozenset[Any], source: Source) -> Set:
    """The variable of a set of objects that are hashed as such: each is an input like any other, read by its turn."""
    m.guards.of_type(source, type(value))
    m.guards.add(source, GuardKind.LEN, len(value))
    entries: dict[Any, Variable] = {}
    for turn, each in enumerate(value):
        element = m.builder.wrap(each, Applied(source, in_turn, turn)).realize(m)
        key = hash_as(m, element, SET_ELEMENT)
        if not isinstance(key, VarKey):
            raise Unsupported("a set of values that are not constants, from outside the frame")
        entries[key] = element
    made = Set(entries, type(value))
    made.read_from, made.found, made.in_turn = source, dict(entries), True
    if type(value) is set:
        made.outside, made.log = (source, value), []
    return made


def _equal_to(expected: frozenset[Any]) -> Callable[[Any], bool]:
    """Whether a set has these elements, and not others that equal them, as numbers of other classes do."""
    if not any(isinstance(x, (int, float, complex)) for x in expected):
        return lambda s: bool(s == expected)
    kinds = {x: _kind(x) for x in expected}
    return lambda s: s == expected and all(kinds[x] == _kind(x) for x in s)


def _kind(value: Any) -> Any:
    """What tells values apart that are equal: their classes, and the signs of zeros."""
    return type(value), repr(value) if isinstance(value, (float, complex)) else None


def _is_as_new(value: set[Any] | frozenset[Any]) -> bool:
    """Whether a set is empty, and orders what comes as one does that was just made."""
    return not value and not has_holes(value) and value.__sizeof__() == set().__sizeof__()


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
