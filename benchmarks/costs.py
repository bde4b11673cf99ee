"""`python -m benchmarks.costs`: what an assumption costs at each call, by kind.

For each kind two guard programs are made, of few and of many facts; the difference of their times is the facts'. Times are
medians, in nanoseconds a fact.
"""

from __future__ import annotations

import collections
import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from capture.guards import (
    GlobalState,
    Guard,
    GuardKind,
    Predicate,
    ShapePredicate,
    Size,
    TensorMeta,
    build_tree,
    guard_program,
)
from capture.sources import Attr, CellContent, ClassEntry, Const, Item, Local, Source

FEW, MANY, REPEATS, CALLS = 1, 101, 15, 2000

Facts = Callable[[int], list[Guard]]
KINDS: dict[str, Facts] = {}


def kind(name: str) -> Callable[[Facts], Facts]:
    """Registers what makes so many facts of a kind."""

    def register(facts: Facts) -> Facts:
        KINDS[name] = facts
        return facts

    return register


def function(x: object) -> object:
    """Whose frame is checked: `x` holds what a call brings."""
    return x


class Holder:
    """An object of the program's, with a slot, a property, attributes."""

    shared = 1

    def __init__(self) -> None:
        self.value = 1

    @property
    def asked(self) -> int:
        return 1


ARGUMENT = Local("x")
KEPT: list[Any] = []


def lasting(value: Any) -> Source:
    """A source of something that lives on."""
    KEPT.append(value)
    return Const(value, "kept")


def equals(source: Source, value: Any) -> Guard:
    return Guard(source, GuardKind.EQUALS, value)


@kind("watch: entry of a dictionary, attribute, global")
def _entries(count: int) -> list[Guard]:
    return [equals(Attr(lasting(SimpleNamespace(value=1)), "value", via_dict=True), 1) for _ in range(count)]


@kind("watch: what a class holds along its MRO")
def _classes(count: int) -> list[Guard]:
    return [equals(ClassEntry(lasting(type("Made", (Holder,), {})), "shared"), 1) for _ in range(count)]


@kind("watch: an object's class and its dictionary")
def _objects(count: int) -> list[Guard]:
    return [Guard(lasting(Holder()), GuardKind.TYPE, Holder) for _ in range(count)]


@kind("watch: content of a closure's cell")
def _cells(count: int) -> list[Guard]:
    def made(value: object) -> Callable[[], object]:
        return lambda: value

    return [equals(CellContent(lasting(made(i)), 0), i) for i in range(count)]


@kind("watch: a function's code")
def _codes(count: int) -> list[Guard]:
    functions = [lambda: None for _ in range(count)]
    return [Guard(Attr(lasting(f), "__code__"), GuardKind.ID, f.__code__) for f in functions]


@kind("watch: element of a list")
def _elements(count: int) -> list[Guard]:
    return [equals(Item(lasting([1, 2]), 0), 1) for _ in range(count)]


@kind("watch: metadata of a parameter")
def _parameters(count: int) -> list[Guard]:
    made = [torch.nn.Parameter(torch.zeros(4, 4)) for _ in range(count)]
    return [Guard(lasting(p), GuardKind.TENSOR, TensorMeta.of(p)) for p in made]


@kind("watch, asked at each call: order of an OrderedDict")
def _orders(count: int) -> list[Guard]:
    return [Guard(lasting(collections.OrderedDict(a=1, b=2)), GuardKind.DICT_KEYS, ("a", "b")) for _ in range(count)]


@kind("watch, asked at each call: a property")
def _properties(count: int) -> list[Guard]:
    return [equals(Attr(lasting(Holder()), "asked"), 1) for _ in range(count)]


@kind("watch, asked at each call: a condition in Python")
def _conditions(count: int) -> list[Guard]:
    holds = Predicate(lambda value: True, "holds")
    return [Guard(lasting(Holder()), GuardKind.CALLABLE, holds) for _ in range(count)]


@kind("check: value of a number")
def _numbers(count: int) -> list[Guard]:
    return [equals(Item(ARGUMENT, i), i) for i in range(count)]


@kind("check: metadata of a tensor")
def _tensors(count: int) -> list[Guard]:
    meta = TensorMeta.of(torch.zeros(4, 4))
    return [Guard(Item(ARGUMENT, i), GuardKind.TENSOR, meta) for i in range(count)]


@kind("check: class of an object")
def _types(count: int) -> list[Guard]:
    return [Guard(Item(ARGUMENT, i), GuardKind.TYPE, Holder) for i in range(count)]


@kind("check: attribute of an object")
def _attributes(count: int) -> list[Guard]:
    return [equals(Attr(Item(ARGUMENT, i), "value", via_dict=True), 1) for i in range(count)]


@kind("check: two objects are the same")
def _same(count: int) -> list[Guard]:
    return [Guard(Item(ARGUMENT, 2 * i), GuardKind.SAME_OBJECT, Item(ARGUMENT, 2 * i + 1)) for i in range(count)]


@kind("check: a condition on a size or an offset")
def _sizes(count: int) -> list[Guard]:
    sizes = [(Size(Item(ARGUMENT, i), "offset"),) for i in range(count)]
    return [Guard(None, GuardKind.SHAPE, ShapePredicate(size, ("s",), "s == 0")) for size in sizes]


@kind("check: torch's settings, all of them")
def _settings(count: int) -> list[Guard]:
    # One of each is all there can be, so that this is the cost of having it.
    return [] if count == FEW else [Guard(None, GuardKind.GLOBAL_STATE, GlobalState.now())]


#: What a call brings, where the kind's facts are about that.
ARGUMENTS: dict[str, Callable[[], Any]] = {
    "check: value of a number": lambda: list(range(MANY)),
    "check: metadata of a tensor": lambda: [torch.zeros(4, 4) for _ in range(MANY)],
    "check: a condition on a size or an offset": lambda: [torch.zeros(4, 4) for _ in range(MANY)],
    "check: class of an object": lambda: [Holder() for _ in range(MANY)],
    "check: attribute of an object": lambda: [Holder() for _ in range(MANY)],
    "check: two objects are the same": lambda: [each for each in map(object.__new__, [object] * MANY) for _ in "12"],
}


def nanoseconds(program: Any, argument: Any) -> float:
    """Of one run."""
    args = (argument,)
    assert program.check(args), program.explain_failure(args)
    begun = time.perf_counter_ns()
    for _ in range(CALLS):
        program.check(args)
    return (time.perf_counter_ns() - begun) / CALLS


def cost(name: str) -> float:
    """Nanoseconds that one fact of a kind adds."""
    argument = ARGUMENTS.get(name, lambda: None)()
    few, many = (guard_program(build_tree(KINDS[name](count)), function.__code__) for count in (FEW, MANY))
    per = MANY - FEW if name != "check: torch's settings, all of them" else 1
    both = [(nanoseconds(few, argument), nanoseconds(many, argument)) for _ in range(REPEATS)]
    return statistics.median(b - a for a, b in both) / per


def main() -> None:
    """Print the table."""
    table = Table("assumption", "ns a call")
    for name in KINDS:
        table.add_row(name, f"{cost(name):.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
