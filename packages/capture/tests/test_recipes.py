"""CONTRIBUTING's recipes for capture, carried out from outside the package as they stand there."""

from __future__ import annotations

import array
import re
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import capture
from capture.evaluator.opcodes import registry as opcodes
from capture.evaluator.program import HANDLERS
from capture.variables import building
from capture.variables.handlers import folds, handler_of, handles, unregister

CONTRIBUTING = Path(__file__).parents[3] / "CONTRIBUTING.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
USERS = """
LOCK = threading.Lock()
ANNOUNCED = []

def scaled(x, factor):
    with LOCK:  # which breaks the graph
        return x * factor

def number_of(word):
    with LOCK:
        return sum(ord(letter) - ord("a") + 1 for letter in word)

def announce(x):
    ANNOUNCED.append(x)
    return x + 1
"""


def recipe(title: str) -> str:
    """The examples of a section."""
    text = CONTRIBUTING.read_text()
    section = text[text.index(f"\n## {title}\n") :].partition("\n## ")[2].partition("\n## ")[0]
    return "\n".join(BLOCK.findall(section))


def carry_out(title: str) -> dict[str, Any]:
    """The names that a recipe makes."""
    namespace: dict[str, Any] = {"__name__": "__recipe__"}
    exec(compile(recipe(title), f"{CONTRIBUTING}: {title}", "exec", dont_inherit=True), namespace)
    return namespace


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of a user, outside all packages."""
    file = tmp_path / "recipe.py"
    file.write_text(USERS)
    module: Any = types.ModuleType("recipe")
    vars(module).update(threading=threading, __file__=str(file))
    exec(compile(USERS, str(file), "exec", dont_inherit=True), vars(module))
    monkeypatch.setitem(sys.modules, "recipe", module)
    monkeypatch.setattr(capture.config, "on_error", "raise")
    return module


@pytest.fixture
def handled(users: Any) -> Iterator[Any]:
    names = (users.scaled, users.number_of, "recipe.announce")
    carry_out("A callable")
    yield users
    unregister(*names)


def test_a_callable(handled: Any) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return handled.scaled(x, handled.number_of("abc")) + 1

    x = torch.arange(3.0)
    assert torch.equal(capture.compile(program, fullgraph=True)(x), program(x))


def test_a_refused_callable_breaks_the_graph_for_its_reason(handled: Any) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return handled.announce(x) * 2

    x = torch.ones(2)
    with pytest.raises(capture.GraphBreakError, match="an announcement"):
        capture.compile(program, fullgraph=True)(x)
    assert torch.equal(capture.compile(program)(x), program(x))


def test_without_its_handler_a_callable_is_evaluated_again(users: Any) -> None:
    carry_out("A callable")
    unregister(users.scaled, users.number_of, "recipe.announce")

    def program(x: torch.Tensor) -> torch.Tensor:
        return users.scaled(x, 2)

    with pytest.raises(capture.GraphBreakError):
        capture.compile(program, fullgraph=True)(torch.ones(2))


def test_a_function_that_runs_other_code_has_lost_its_handler(handled: Any) -> None:
    handled.scaled.__code__ = (lambda x, factor: x - factor).__code__
    assert handler_of(handled.scaled) is None

    def program(x: torch.Tensor) -> torch.Tensor:
        return handled.scaled(x, 2)

    x = torch.ones(2)
    assert torch.equal(capture.compile(program, fullgraph=True)(x), x - 2)


@pytest.mark.parametrize("by", ["object", "place"])
def test_two_handlers_for_one_callable_are_an_error(handled: Any, by: str) -> None:
    first: Any = handled.scaled if by == "object" else "recipe.announce"
    with pytest.raises(ValueError, match="has a handler already"):
        folds(first)
    with pytest.raises(ValueError, match="announce has a handler already"):
        handles(handled.announce)(lambda m, args, kwargs: args[0])


def test_taking_away_what_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        unregister("recipe.nothing")


def module_code() -> tuple[Any, Any]:
    """A program that runs a module's code anew as a function, and that function."""
    names: dict[str, Any] = {"__name__": "recipe", "factor": 2}
    exec("def scaled(x):\n    return x * factor", names)
    scaled: Any = names["scaled"]
    begin = types.FunctionType(compile("factor = factor + 1", "recipe.py", "exec", dont_inherit=True), names)

    def program(x: torch.Tensor) -> torch.Tensor:
        begin()
        result: torch.Tensor = scaled(x)
        return result

    return program, begin


@pytest.fixture
def opcode(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(capture.config, "on_error", "raise")
    before = HANDLERS["STORE_NAME"]
    carry_out("An opcode")
    yield
    opcodes.unregister("STORE_NAME")
    opcodes.operation("STORE_NAME")(before)


def test_without_its_handler_an_opcode_breaks_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")
    program, x = module_code()[0], torch.ones(2)
    with pytest.raises(capture.GraphBreakError, match="the body of a module"):
        capture.compile(program, fullgraph=True)(x)
    assert torch.equal(capture.compile(program)(x), 3 * x)


def test_an_opcode(opcode: None) -> None:
    (program, begin), x = module_code(), torch.arange(3.0)
    compiled = capture.compile(program, fullgraph=True)
    for factor in (3, 4, 5):
        assert torch.equal(compiled(x), factor * x)
        assert begin.__globals__["factor"] == factor


def test_two_handlers_for_one_opcode_are_an_error(opcode: None) -> None:
    with pytest.raises(ValueError, match="STORE_NAME has a handler already"):
        opcodes.operation("STORE_NAME")(HANDLERS["POP_TOP"])


@pytest.fixture
def arrays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(capture.config, "on_error", "raise")
    carry_out("A kind of value")
    yield
    unregister(array.array)
    building.unregister(array.array)


def test_a_kind_of_value(arrays: None) -> None:
    """It is read and guarded, changed where it is from outside, and handed out where it was made in the frame."""

    def program(x: torch.Tensor, state: Any) -> tuple[torch.Tensor, Any, Any]:
        state[0] = state[0] + state[1]
        made = array.array("d", [state[0], 5.0])
        made[1] = 7.0
        return x * state[0], made, state

    compiled = capture.compile(program, fullgraph=True)
    x, ours, eagers = torch.arange(3.0), array.array("d", [1.0, 2.0]), array.array("d", [1.0, 2.0])
    for _ in range(3):
        result, made, state = compiled(x, ours)
        expected, eager_made, _ = program(x, eagers)
        assert torch.equal(result, expected)
        assert made == eager_made
        assert state is ours
        assert ours == eagers


def test_what_a_kind_of_value_does_not_say_is_a_break(arrays: None) -> None:
    def program(x: torch.Tensor, state: Any) -> torch.Tensor:
        y = x + 1
        state.append(2.0)
        return y * state[-1]

    x, ours, eagers = torch.arange(3.0), array.array("d", [1.0]), array.array("d", [1.0])
    compiled = capture.compile(program)
    for _ in range(2):
        assert torch.equal(compiled(x, ours), program(x, eagers))
        assert ours == eagers


def test_two_builders_for_one_class_are_an_error(arrays: None) -> None:
    with pytest.raises(ValueError, match="array has a builder already"):
        building.builds(array.array)(lambda m, value, source: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="tuple has a builder already"):
        building.converts(array.array, tuple)(lambda m, value: None)  # type: ignore[arg-type, return-value]
