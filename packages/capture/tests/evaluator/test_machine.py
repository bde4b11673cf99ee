"""The machine as a whole: its parts, and what is left of it."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import capture
from capture import attempt
from capture.evaluator.machine import Experience, Machine
from capture.evaluator.refusals import Refusals
from capture.history import History
from capture.variables.base import Interpreter

LOCK = threading.Lock()


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[weakref.ref[Machine]]]:
    """Those that are made, with no garbage collection."""
    made: list[weakref.ref[Machine]] = []

    class Noted(Machine):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(weakref.ref(self))

    monkeypatch.setattr(attempt, "Machine", Noted)
    monkeypatch.setattr(capture.config, "on_error", "raise")
    gc.collect()
    gc.disable()
    yield made
    gc.enable()


def test_a_machine_goes_with_its_attempt(machines: list[weakref.ref[Machine]]) -> None:
    """Though its parts refer to it: graphs and fakes are large, and wait for no collection."""

    def program(x: torch.Tensor, seen: dict[str, Any]) -> list[torch.Tensor]:
        seen["more"] = x + 1
        with LOCK:  # which breaks the graph
            x = x + 1
        return [x * i for i in range(2)]

    capture.compile(program)(torch.ones(2), {})
    assert len(machines) > 1
    assert not any(made() for made in machines)


@pytest.mark.parametrize("where", ["in the frame", "in a call", "after a break"])
def test_an_exception_of_the_program_keeps_nothing(where: str) -> None:
    """What it was given goes when the program lets go of it, without garbage being collected."""

    def fail(x: torch.Tensor) -> None:
        raise ValueError(x.shape)

    def program(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        if where == "in a call":
            fail(y)
        if where == "after a break":
            compile("0", "", "eval")
        raise ValueError

    gc.disable()
    try:
        compiled, x = capture.compile(program), torch.ones(2)
        given = weakref.ref(x)
        with contextlib.suppress(ValueError):
            compiled(x)
        del x
        assert given() is None
    finally:
        gc.enable()


def test_parts_are_those_that_variables_know() -> None:
    parts = {name for name, value in vars(Interpreter).items() if isinstance(value, property)}
    experience = Experience(Refusals(), History(test_parts_are_those_that_variables_know.__code__), set(), True, True)
    machine = Machine({}, None, experience)
    assert parts == {name for name in vars(machine) if not name.startswith("_")}
