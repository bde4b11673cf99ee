"""Functions that are computed ahead read nothing but what stays: a change of what they are asked about is noticed."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import inspect
import math
import operator
import re
import time
import typing
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import capture
from capture.variables.base import Args, Interpreter, Kwargs, Variable
from capture.variables.constants import Constant
from capture.variables.handlers import handles, unregister


@pytest.fixture(autouse=True)
def failures_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")


def _three(a: Any, b: Any, c: Any) -> None: ...


def _wrapper(a: Any) -> None: ...


def _wrap(asked: Any) -> None:
    asked.function.__wrapped__ = _wrapper


def _recode(asked: Any) -> None:
    asked.function.__code__ = _three.__code__


def _annotate(asked: Any) -> None:
    asked.cls.__annotations__["late"] = float


def _annotate_base(asked: Any) -> None:
    asked.cls.__base__.__annotations__["a"] = float


def _make_dataclass(asked: Any) -> None:
    dataclasses.dataclass(asked.cls)


class Asked:
    """What is asked about, made anew for each test."""

    def __init__(self) -> None:
        def function(a: int, b: int = 1) -> None: ...

        class Above:
            a: int

        class Below(Above):
            b: str

        self.function, self.cls = function, Below


@pytest.mark.parametrize(
    ("ask", "change"),
    [
        (lambda asked: len(inspect.getfullargspec(asked.function).args), _recode),
        (lambda asked: inspect.unwrap(asked.function).__code__.co_argcount, _wrap),
        (lambda asked: len(typing.get_type_hints(asked.cls)), _annotate),
        (lambda asked: typing.get_type_hints(asked.cls)["a"] is float, _annotate_base),
        (lambda asked: dataclasses.is_dataclass(asked.cls), _make_dataclass),
    ],
    ids=["getfullargspec", "unwrap", "get_type_hints", "get_type_hints of a base", "is_dataclass"],
)
def test_a_change_of_what_was_asked_about(ask: Callable[[Any], Any], change: Callable[[Any], None]) -> None:
    asked = Asked()

    def program(x: torch.Tensor) -> torch.Tensor:
        return x + ask(asked)

    compiled = capture.compile(program)
    x = torch.zeros(2)
    before = compiled(x)
    assert torch.equal(before, program(x))
    change(asked)
    assert torch.equal(compiled(x), program(x))
    assert not torch.equal(compiled(x), before)


def test_operator_call_computes_nothing_ahead() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x + operator.call(time.perf_counter)

    compiled = capture.compile(program)
    x = torch.zeros(1, dtype=torch.float64)
    assert compiled(x).item() < compiled(x).item()


def test_operator_call_of_what_is_understood() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return operator.call(torch.add, x, 2, alpha=3) + operator.countOf([1, 2, 1], 1) + operator.inv(4)

    x = torch.arange(3.0)
    assert torch.equal(capture.compile(program, fullgraph=True)(x), program(x))


def _number_of_day(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    day: Any = args[0].realize(m)
    value = day.value
    m.guards.predicate(day, lambda real: real == value, f"{{}} == {value!r}")
    return Constant(value.toordinal())


@pytest.fixture
def ordinals() -> Iterator[None]:
    handles(datetime.date.toordinal)(_number_of_day)
    yield
    unregister(datetime.date.toordinal)


def _bound(day: datetime.date) -> int:
    return day.toordinal()


def _unbound(day: datetime.date) -> int:
    return datetime.date.toordinal(day)


@pytest.mark.parametrize("ask", [_bound, _unbound])
def test_a_method_written_in_c(ordinals: None, ask: Callable[[datetime.date], int]) -> None:
    def program(x: torch.Tensor, day: datetime.date) -> torch.Tensor:
        return x + ask(day)

    compiled = capture.compile(program, fullgraph=True)
    for day in (datetime.date(1, 1, 2), datetime.date(1, 1, 3)):
        assert torch.equal(compiled(torch.zeros(1), day), program(torch.zeros(1), day))


class _Everything(type):
    """Classes of it hash like ``list``, and are equal to all that is compared with them."""

    def __hash__(cls) -> int:
        return hash(list)

    def __eq__(cls, other: object) -> bool:
        return True


class _NoList(metaclass=_Everything):
    def __init__(self, v: int) -> None:
        self.v = v


class _Other(metaclass=_Everything): ...


def test_a_class_that_is_equal_to_one_with_a_handler() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x + _NoList(3).v + isinstance(_NoList(1), _Other) + issubclass(_Other, _NoList)

    x = torch.zeros(1)
    assert torch.equal(capture.compile(program, fullgraph=True)(x), program(x))


class _Level(enum.Enum):
    NOW = 1

    def __index__(self) -> int:
        return len(_CALLS)

    def __float__(self) -> float:
        return float(len(_CALLS))


_CALLS: list[int] = []


def _spelled(found: re.Match[str]) -> str:
    _CALLS.append(1)
    return "1" * len(_CALLS)


def _last(function: object) -> bool:
    return len(_CALLS) > 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda: int(re.sub("a", _spelled, "a")),
        lambda: int(re.sub("a", repl=_spelled, string="a")),
        lambda: int(inspect.unwrap(_outer, stop=_last) is _outer),
        lambda: int(bin(_Level.NOW), 2),
        lambda: math.sqrt(_Level.NOW),  # type: ignore[arg-type]
    ],
    ids=["re.sub", "re.sub by name", "unwrap", "bin", "sqrt"],
)
def test_code_of_the_program_that_a_function_calls_runs_each_time(ask: Callable[[], float]) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x + ask()

    def results(run: Any) -> list[torch.Tensor]:
        _CALLS.clear()
        found = []
        for _ in range(3):
            found.append(run(torch.zeros(1)))
            _CALLS.append(1)
        return found

    assert results(capture.compile(program)) == results(program)


def _outer() -> None: ...


_outer.__wrapped__ = _wrapper  # type: ignore[attr-defined]


def test_objects_of_a_class_in_c_compare_as_it_says() -> None:
    def program(x: torch.Tensor, a: decimal.Decimal, b: decimal.Decimal) -> tuple[torch.Tensor, bool, bool]:
        return x + 1, a == b, a != b

    compiled = capture.compile(program)
    for other in ("1.0", "2"):
        given = torch.zeros(1), decimal.Decimal("1.0"), decimal.Decimal(other)
        assert compiled(*given)[1:] == program(*given)[1:]


_TOLD: list[str] = []


def _telling(what: str) -> type:
    _TOLD.append(what)
    return int


class _TellingClass(type):
    def __getattr__(cls, name: str) -> type:
        _TOLD.append(name)
        return float


class _Told(metaclass=_TellingClass):
    pass


def _by_a_call(a: _telling("called")) -> None:  # type: ignore[valid-type]
    pass


def _by_an_attribute(a: _Told.thing) -> None:  # type: ignore[valid-type]
    pass


@pytest.mark.parametrize("annotated", [_by_a_call, _by_an_attribute])
def test_an_annotation_that_does_something_does_it_once(annotated: Any) -> None:
    def run(x: torch.Tensor) -> Any:
        before = len(_TOLD)
        return x + 1, typing.get_type_hints(annotated), len(_TOLD) - before

    def outcome(run: Any) -> str:
        _TOLD.clear()
        return str([[run(torch.ones(1)) for _ in range(3)], _TOLD])

    assert outcome(capture.compile(run)) == outcome(run)
