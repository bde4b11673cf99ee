"""Functions that are computed ahead read nothing but what stays: a change of what they are asked about is noticed."""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import operator
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
