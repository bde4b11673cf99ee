"""What a call of a module read of it and did, told apart from that module: an example for calls of others.

In: a call that was evaluated, and the guards, nodes and inputs there were when it ended. Out: a ``Plan``.
"""

from __future__ import annotations

import operator
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from torch import fx

from capture._native import address
from capture.guards import Guard, GuardKind
from capture.guards.holding import ASKED
from capture.sources import Closure, ClosureCell, Const, ReadFrom, Source
from capture.variables.base import Args, Kwargs, Variable
from capture.variables.constants import CONSTANT_TYPES, Constant, is_kept
from capture.variables.functions import Cell, Function
from capture.variables.modules import Module
from capture.variables.placeholders import resolved
from capture.variables.sequences import List, Tuple
from capture.variables.tensors import Tensor
from symshapes import FakeTensor, dataclass

from .builder import Inputs
from .guards import GuardTable
from .likeness import Likeness, held_in, likeness
from .recorder import GraphRecorder


@dataclass(eq=False)
class Call:
    """One that is evaluated, or was: how everything was as it began, and from when it is over, what it came to."""

    #: What it is looked up by.
    key: tuple[Any, ...]
    function: Function
    module: Module
    args: Args
    kwargs: Kwargs
    resumable: bool
    likenesses: dict[fx.Node, Likeness]
    #: What must not change meanwhile.
    marks: tuple[Any, ...]
    settings: int
    outside: int
    #: How far the evaluation was, and how much there was of what it adds to; afterwards, how much it added.
    step: int
    guards: int
    counts: tuple[int, int, int]
    mutations: int
    left_behind: int
    made: int
    written: int
    result: Variable | Made | None = None
    last_step: int = 0
    #: How much there was in the end: nodes, guards, entries that were read, inputs.
    ends: tuple[int, int, int, int] = (0, 0, 0, 0)
    plan: Plan | None = None
    """Made when it is first asked for."""
    used: bool = False
    """Whether any call repeated it."""

    @property
    def given(self) -> Args:
        """All arguments but the module."""
        return [*self.args[1:], *self.kwargs.values()]


@dataclass(frozen=True, eq=False)
class Made:
    """A tuple or list that a call made and gave, and what it held by then."""

    cls: type
    items: list[Variable | Made]


@dataclass(frozen=True, eq=False)
class Place:
    """A source that hangs from the module's, and which place it is read from."""

    base: int
    source: ReadFrom

    def read(self, values: list[Any]) -> Any:
        """What it reads, of what those before it read. Raises what reading it raises."""
        return self.source.of(values[self.base])

    def at(self, sources: list[Source]) -> ReadFrom:
        """The same of others than the source's own base."""
        return self.source.on(sources[self.base])


@dataclass(frozen=True, eq=False)
class Fact:
    """A guard on what a place reads. `others`: what it names besides, each by its place if it has one, and its source."""

    place: int
    kind: GuardKind
    expected: Any
    line: str
    others: tuple[tuple[int | None, Source], ...] = ()


@dataclass(frozen=True, eq=False)
class Plan:
    """What a call read of its module, and what it did."""

    places: list[Place]
    #: What is read there of this module, which is the first.
    values: list[Any]
    facts: list[Fact]
    #: Entries that it read and did not look at: the table's place, the entry's, the key.
    reached: list[tuple[int, int, str]]
    #: What it met: the place, the object, its variable, and the line.
    inputs: list[tuple[int, Any, Variable, str]]
    #: Of a tensor among these, what is seen of it.
    likenesses: dict[int, Likeness | None]
    calls: list[fx.Node]
    #: The places of literals in what it gave, by the identity of their variables.
    literals: dict[int, int]


class NoExample(Exception):
    """Signal: a call is no example of others."""


class _Places:
    """The sources that hang from a module's, each after the one that it is read from."""

    def __init__(self, module: Module) -> None:
        assert module.source is not None
        self._places: dict[Source, int | None] = {module.source: 0}
        self._module = module
        self.around = {*module.source.path}
        root = module.source.root
        if isinstance(root, Closure):
            self.around.add(ClosureCell(root.free))
        self.listed: list[Place] = []

    def at(self, source: Source | None) -> int | None:
        """The place of a source; None for one that does not hang from the module's."""
        way: list[ReadFrom] = []
        while source not in self._places:
            if not isinstance(source, ReadFrom):
                place = None
                break
            way.append(source)
            source = source.base
        else:
            place = self._places[source]
        for each in reversed(way):
            if place is not None:
                self.listed.append(Place(place, each))
                place = len(self.listed)
            self._places[each] = place
        return place

    def values(self) -> list[Any]:
        """What is read there now; raises ``NoExample`` where that fails."""
        found: list[Any] = [self._module.value]
        try:
            for place in self.listed:
                found.append(place.read(found))
        except Exception as problem:  # the objects are the program's
            raise NoExample from problem
        return found

    def concerns(self, source: Source) -> bool:
        """Whether a source hangs from the module's, or that from it."""
        return source in self.around or self.at(source) is not None


def planned(call: Call, guards: GuardTable, recorder: GraphRecorder, inputs: Inputs) -> Plan:
    """What a call read of its module, and did; raises ``NoExample`` where another could not do the same."""
    nodes, count, entries, met = call.ends
    calls = recorder.graph.made[call.made : nodes]
    _check_calls(calls, recorder.recorded)
    places = _Places(call.module)
    facts: list[Fact] = []
    for number, guard in enumerate(guards.first(count)):
        fact = _fact(guard, places, number >= call.guards)
        if fact is not None:
            facts.append(fact)
    reached: list[tuple[int, int, str]] = []
    for (table, kind, key), entry in guards.first_reached(entries):
        at, place = places.at(table), None if entry.seen is not None else places.at(entry.source)
        if entry.seen is not None or at is None:
            continue
        if kind is not GuardKind.HAS_KEY or place is None or type(key) is not str:
            raise NoExample
        reached.append((at, place, key))
    lines: dict[int, str] = {}
    for fact in facts:
        lines.setdefault(fact.place, fact.line)
    found: list[tuple[int, Any, Variable, str]] = []
    likenesses: dict[int, Likeness | None] = {}
    for value, variable in islice(inputs.values(), met):
        at = None if variable.source is None else places.at(variable.source)
        if at is None:
            continue
        if isinstance(variable, Cell):
            raise NoExample
        found.append((at, value, variable, lines.get(at, "")))
        if isinstance(variable, Tensor):
            likenesses[at] = likeness(recorder, variable)
    literals = {}
    for literal in _literals(call.result):
        at = places.at(literal.origin)
        if at is not None:
            literals[address(literal)] = at
    return Plan(places.listed, places.values(), facts, reached, found, likenesses, calls, literals)


def _fact(guard: Guard, places: _Places, is_new: bool) -> Fact | None:
    """What a guard says of the module or what hangs from it; None if that is nothing."""
    source, kind, expected = guard.source, guard.kind, guard.expected
    at = None if source is None else places.at(source)
    if kind is GuardKind.SHAPE:
        if is_new or any(places.concerns(size.source) for size in expected.inputs):
            raise NoExample
    elif kind is GuardKind.SAME_OBJECT:
        other = places.at(expected)
        if expected in places.around or (at is None and (other is not None or source in places.around)):
            raise NoExample  # it may have come to the module by another way, or to what that is part of
        if at is not None:
            return Fact(at, kind, None, guard.user_line, ((other, expected),))
    elif kind is GuardKind.DISTINCT:
        others = [places.at(each) for each in expected]
        if at is not None and None not in others:
            return Fact(at, kind, None, guard.user_line, tuple(zip(others, expected, strict=True)))
        if any(map(places.concerns, (source, *expected) if source is not None else expected)):
            raise NoExample
    elif kind is GuardKind.ID and source in places.around:
        raise NoExample
    elif at is not None:
        if kind is not GuardKind.TENSOR and kind not in ASKED:
            raise NoExample
        return Fact(at, kind, expected, guard.user_line)
    elif kind is GuardKind.CALLABLE and is_new and source is not None and type(source.root) is not Const:
        raise NoExample
    return None


def parts_of(value: Any) -> Sequence[Any]:
    """What a call gives, one by one."""
    return value if isinstance(value, (tuple, list)) else (value,)


def _check_calls(made: Iterable[fx.Node], recorded: Container[fx.Node]) -> None:
    """Raise where nodes are more than calls that only compute, draw random numbers, and write to what they made."""
    for node in made:
        meta = node.meta
        if not all(type(each) is FakeTensor for each in parts_of(meta.get("val"))):
            raise NoExample
        if node.op == "placeholder":
            continue
        if node not in recorded and node.target is not operator.getitem:
            raise NoExample
        if node in recorded and not all(type(each.meta.get("val")) is FakeTensor for each in node.all_input_nodes):
            raise NoExample  # a number that varies
        if (
            meta.get("risk")
            or "caught" in meta
            or "checkpoint" in meta
            or not (meta.get("effect", "write") == "write" or meta.get("draws"))
        ):
            raise NoExample


def result_of(call: Call, value: Variable) -> Variable | Made:
    """What a call that is just over gave, as it is now: what it holds may change later. Raises ``NoExample`` where another's is made
    otherwise."""
    return _result(call, value, {address(each) for given in call.given for each in held_in(given)}, {})


def _result(call: Call, value: Variable, given: set[int], made: dict[int, Made]) -> Variable | Made:
    if address(value) in given:
        return value
    value = resolved(value)
    if address(value) in given or (type(value) is Constant and _is_one_object(value)):
        return value
    if isinstance(value, Tensor) and not value.given:
        return value
    found = made.get(address(value))
    if found is not None:
        return found
    if not (_is_new_tuple(value) or _is_new_list(value, call)):
        raise NoExample
    assert isinstance(value, (Tuple, List))
    result = made[address(value)] = Made(value.cls, [])
    result.items.extend([_result(call, item, given, made) for item in value.items])
    return result


def _is_one_object(literal: Constant) -> bool:
    """Whether a literal is the same object each time, or that which is read at a place."""
    value = literal.value
    return is_kept(value) or literal.in_code or (literal.origin is not None and type(value) in CONSTANT_TYPES)


def _literals(result: Variable | Made | None) -> Iterator[Constant]:
    """Those in a result that were read somewhere."""
    if isinstance(result, Made):
        for item in result.items:
            yield from _literals(item)
    elif type(result) is Constant and result.origin is not None:
        yield result


def _is_new_tuple(value: Variable) -> bool:
    """Whether it is a plain tuple of the frame's."""
    return type(value) is Tuple and value.cls is tuple and value.source is None and value.literal is None


def _is_new_list(value: Variable, call: Call) -> bool:
    """Whether it is a plain list that was made in a call."""
    return type(value) is List and value.cls is list and value.source is None and value.step > call.step
