"""Modules that differ only in which of their objects are one: none is taken for another, whichever is captured first."""

from __future__ import annotations

import collections
import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import capture


@pytest.fixture(autouse=True)
def _strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")


Forward = Callable[[Any, torch.Tensor], Any]


class Holder(nn.Module):
    """What ``make`` puts into it for a variant, and ``run`` does with it."""

    def __init__(self, run: Forward, parts: dict[str, Any]) -> None:
        super().__init__()
        vars(self).update(parts)
        object.__setattr__(self, "forward", types.MethodType(run, self))


class Plain:
    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


class OwnDictionary(dict[str, Any]):
    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.__dict__ = self


class Listed(list[int]):
    pass


class Slotted:
    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 1


@typing.runtime_checkable
class First(typing.Protocol):
    def first(self) -> None: ...


@typing.runtime_checkable
class Second(typing.Protocol):
    def second(self) -> None: ...


class Called:
    def __call__(self, x: int) -> int:
        return x


def _counter() -> tuple[Callable[[], int], Callable[[], int]]:
    count = 0

    def add() -> int:
        nonlocal count
        count += 1
        return count

    def read() -> int:
        return count

    return add, read


def _maybe_empty(full: bool) -> Callable[[], int]:
    def read() -> int:
        try:
            return held
        except NameError:
            return 100

    if full:
        held = 5
    return read


CASES: dict[str, tuple[Callable[[bool], dict[str, Any]], Forward]] = {}


def case(make: Callable[[bool], dict[str, Any]]) -> Callable[[Forward], Forward]:
    """``make(True)`` gives the parts where something is one object, ``make(False)`` those where it is two."""

    def register(run: Forward) -> Forward:
        CASES[run.__name__] = make, run
        return run

    return register


def _twice(make: Callable[[], Any], same: bool) -> dict[str, Any]:
    first = make()
    return {"a": first, "b": first if same else make()}


@case(lambda same: dict(zip("ab", (_counter() if same else (_counter()[0], _counter()[1])), strict=True)))
def cell(self: Any, x: torch.Tensor) -> Any:
    return x * self.a() + self.b()


@case(lambda full: {"read": _maybe_empty(full)})
def empty_cell(self: Any, x: torch.Tensor) -> Any:
    return x * self.read()


@case(lambda same: (lambda f: {"f": f, "c": f.__closure__[0] if same else types.CellType(0)})(_counter()[0]))
def cell_as_an_object(self: Any, x: torch.Tensor) -> Any:
    self.c.cell_contents = 4
    return x * self.f()


def _dictionary_of(same: bool) -> dict[str, Any]:
    first, second = Plain(k=1), Plain(k=1)
    if same:
        second.__dict__ = first.__dict__
    return {"a": first, "b": second}


@case(_dictionary_of)
def dictionary_of_two_objects(self: Any, x: torch.Tensor) -> Any:
    self.a.k += 1
    return x * self.b.k


@case(lambda same: (lambda a: {"a": a, "b": vars(a) if same else {"k": 1}})(Plain(k=1)))
def dictionary_of_an_object_written_as_attribute(self: Any, x: torch.Tensor) -> Any:
    self.a.k += 1
    return x * self.b["k"]


@case(lambda same: (lambda a: {"a": a, "b": vars(a) if same else {"k": 1}})(Plain(k=1)))
def dictionary_of_an_object_written_as_item(self: Any, x: torch.Tensor) -> Any:
    self.b["k"] += 1
    return x * self.a.k


@case(lambda same: _twice(lambda: OwnDictionary(k=1), same))
def object_that_is_its_dictionary(self: Any, x: torch.Tensor) -> Any:
    self.a.k = self.a.k + 1
    return x * self.a["k"] + self.b["k"]


@case(lambda same: _twice(lambda: Listed([1]), same))
def subclass_of_list(self: Any, x: torch.Tensor) -> Any:
    self.a.append(2)
    return x * len(self.b)


@case(lambda same: _twice(Slotted, same))
def slots(self: Any, x: torch.Tensor) -> Any:
    self.a.count += 1
    return x * self.b.count


@case(lambda same: (lambda a: {"a": a, "b": types.MappingProxyType(a if same else {"k": 1})})({"k": 1}))
def view_of_a_dictionary(self: Any, x: torch.Tensor) -> Any:
    self.a["k"] += 1
    return x * self.b["k"]


@case(lambda same: {"a": collections.deque([1], maxlen=2 if same else 3)})
def deque_of_another_length(self: Any, x: torch.Tensor) -> Any:
    self.a.append(1)
    return x * len(self.a)


@case(lambda same: {"a": Plain(second=print) if same else Plain()})
def two_questions_of_one_object(self: Any, x: torch.Tensor) -> Any:
    return x * (2 if isinstance(self.a, First) else 3) * (5 if isinstance(self.a, Second) else 7)


def _called(same: bool) -> dict[str, Any]:
    made: Any = Called()
    if same:
        made.__signature__ = inspect.signature(lambda a, b, c: 0)
    return {"a": made}


@case(_called)
def signature_of_its_own(self: Any, x: torch.Tensor) -> Any:
    return x * len(inspect.signature(self.a).parameters)


@case(lambda same: (lambda a: {"a": a, "b": functools.partial(len, a if same else [1])})([1]))
def list_in_a_partial(self: Any, x: torch.Tensor) -> Any:
    self.a.append(1)
    return x * self.b()


@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")  # what changes under two names is left to the interpreter
@pytest.mark.parametrize("order", [(True, False, True, False), (False, True, False, True)], ids=["one", "two"])
@pytest.mark.parametrize("name", CASES)
def test_modules_that_share_otherwise_are_told_apart(name: str, order: tuple[bool, ...]) -> None:
    make, run = CASES[name]
    x = torch.arange(1.0, 4.0)
    results = []
    for call in (lambda module: module(x), capture.compile(lambda module: module(x))):
        modules = {same: Holder(run, make(same)) for same in (True, False)}
        results.append([call(modules[same]).tolist() for same in order])
    assert results[0] == results[1]


def test_functions_of_one_code_that_share_a_cell_otherwise() -> None:
    def made(same: bool) -> Callable[[torch.Tensor], torch.Tensor]:
        def cells() -> Any:
            count = 0
            return lambda: count

        read = cells()
        count = 0
        if same:
            read = lambda: count  # noqa: E731

        def forward(x: torch.Tensor) -> torch.Tensor:
            nonlocal count
            count += 1
            return x * count + read()

        return forward

    x = torch.ones(1)
    for order in ((True, False), (False, True)):
        for _ in range(2):
            plain = [made(same) for same in order]
            compiled = [capture.compile(made(same)) for same in order]
            for _ in range(2):
                assert [f(x) for f in compiled] == [f(x) for f in plain]
