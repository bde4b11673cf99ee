"""Programs that were compiled before: they run as before, and nothing that compiles is imported for them."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import aotgrad
import capture
import inductor
import meta


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was compiled from its beginning."""
    found: list[Any] = []
    compile_program = aotgrad.compile

    def noted(program: Any, *rest: Any, **named: Any) -> Any:
        found.append(program)
        return compile_program(program, *rest, **named)

    monkeypatch.setattr(aotgrad, "compile", noted)
    monkeypatch.setattr(capture.config, "on_error", "raise")
    return found


def twice(
    program: Callable[..., Any], make: Callable[[], tuple[Any, ...]], folder: Path, **choices: Any
) -> tuple[list[Any], list[Any], list[Any]]:
    """The results of eager, of the program compiled, and of it compiled once more from nothing but the disk; with its inputs."""
    sides = []
    options = {"cache_dir": str(folder), **choices.pop("options", {})}
    for compiled in (False, True, True):
        meta.reset()
        run = meta.compile(program, fullgraph=True, options=options, **choices) if compiled else program
        inputs = make()
        with torch.no_grad():
            sides.append([run(*inputs), *inputs])
    return sides[0], sides[1], sides[2]


def views(x: torch.Tensor) -> Any:
    y = x * 2
    return y, y[1:], x.t(), x, y.view(-1)


def writes(x: torch.Tensor) -> Any:
    x[0] += 1
    x.t().mul_(2)
    return x.sum(), x[1]


def draws(x: torch.Tensor) -> Any:
    return torch.nn.functional.dropout(x, 0.5), torch.rand(3)


def several(x: torch.Tensor) -> Any:
    return {"a": [x.sin(), 3], "b": (x.cos(), None, "c")}


PROGRAMS = [lambda x: x.sin() + 1, views, writes, draws, several, lambda x: torch.nn.functional.layer_norm(x, (3,))]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_as_before(program: Callable[..., Any], traced: list[Any], tmp_path: Path) -> None:
    def make() -> tuple[torch.Tensor]:
        torch.manual_seed(0)
        return (torch.randn(4, 3),)

    eager, first, second = twice(program, make, tmp_path)
    assert len(traced) == 1
    for side in (first, second):
        assert torch.utils._pytree.tree_structure(side) == torch.utils._pytree.tree_structure(eager)
        leaves = torch.utils._pytree.tree_leaves(side)
        expected = torch.utils._pytree.tree_leaves(eager)
        for got, wanted in zip(leaves, expected, strict=True):
            if isinstance(wanted, torch.Tensor):
                torch.testing.assert_close(got, wanted)
            else:
                assert got == wanted
        assert _sharing(leaves) == _sharing(expected)


def _sharing(values: list[Any]) -> list[list[bool]]:
    places = [value.untyped_storage().data_ptr() for value in values if isinstance(value, torch.Tensor)]
    return [[a == b for b in places] for a in places]


def test_written_memory_that_is_shared(traced: list[Any], tmp_path: Path) -> None:
    """The program runs in eager where an input that it writes to shares memory with another, found again or not."""

    def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x += 1
        return x * y

    def call(run: Any) -> Any:
        memory = torch.arange(6.0)
        return [run(memory[:4].clone(), memory[:4].clone()), run(memory[:4], memory[2:]), memory]

    with torch.no_grad():
        expected = call(add)
        for _ in range(2):
            meta.reset()
            found = call(meta.compile(add, options={"cache_dir": str(tmp_path)}))
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "other",
    [
        lambda run, x: run(x.double()),
        lambda run, x: run(x.t().contiguous().t()),
        lambda run, x: run(x[:2]),
        lambda run, x: run(x.requires_grad_()),
    ],
)
def test_other_inputs_are_other_programs(other: Callable[..., Any], traced: list[Any], tmp_path: Path) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    for function in (lambda run, x: run(x), other):
        meta.reset()
        x = torch.randn(4, 3)
        run = meta.compile(program, options={"cache_dir": str(tmp_path)})
        torch.testing.assert_close(function(run, x), function(program, x))
    assert len(traced) == 2


def test_gradients_are_not_lost(traced: list[Any], tmp_path: Path) -> None:
    """A program of inference is none where its result is to be differentiated."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    for enabled in (False, True, True):
        meta.reset()
        x = torch.randn(3, requires_grad=True)
        with torch.set_grad_enabled(enabled):
            y = meta.compile(program, options={"cache_dir": str(tmp_path)})(x)
        assert y.requires_grad == enabled
        if enabled:
            y.sum().backward()
            torch.testing.assert_close(x.grad, x.detach().cos())


def test_other_options_and_modes_are_other_programs(traced: list[Any], tmp_path: Path) -> None:
    ways: list[dict[str, Any]] = [
        {}, {"options": {"fuse": False}}, {"options": {"random": "eager"}}, {"mode": "reduce-overhead"}, {"options": {"cache": False}},
    ]  # fmt: skip
    for count, way in enumerate(ways, 1):
        eager, first, _ = twice(draws, lambda: (torch.ones(3),), tmp_path, **way)
        assert len(traced) >= count and len(first) == len(eager)
    before = len(traced)
    twice(draws, lambda: (torch.ones(3),), tmp_path, mode="reduce-overhead")
    assert len(traced) == before + 2, "a graph that is recorded is traced each time"


def test_a_program_of_symbolic_sizes_is_traced_each_time(traced: list[Any], tmp_path: Path) -> None:
    twice(lambda x: x.sin(), lambda: (torch.randn(5),), tmp_path, dynamic=True)
    assert len(traced) == 2


def test_those_who_listen_hear_of_the_graph(traced: list[Any], tmp_path: Path) -> None:
    heard: list[inductor.CompiledGraph] = []

    def backend(graph: Any, inputs: list[Any]) -> Any:
        return meta.backends.inductor(graph, inputs, options={"cache_dir": str(tmp_path)}, on_compiled=heard.append)

    for _ in range(2):
        meta.reset()
        with torch.no_grad():
            meta.compile(views, backend=backend)(torch.ones(3, 2))
    assert len(traced) == 1
    assert [graph.stats.cache for graph in heard] == ["miss", "hit"] and heard[0].source == heard[1].source


def test_a_program_of_other_sources_of_this_package_is_another(
    traced: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How the parts are set together is part of what was compiled."""
    programs = importlib.import_module("inductor.programs")
    for said in ("before", "after", "after"):
        monkeypatch.setattr(programs, "package_hash", lambda name, place, said=said: f"{name} {said}")
        meta.reset()
        with torch.no_grad():
            meta.compile(views, options={"cache_dir": str(tmp_path)})(torch.ones(3, 2))
    assert len(traced) == 2


CHILD = """
import sys, torch, meta
run = meta.compile(lambda x: torch.nn.functional.layer_norm(x.sin(), (3,)), fullgraph=True)
with torch.no_grad():
    x = torch.ones(2, 3)
    run(x)
    run(x)
wanted = ("aotgrad.trace", "aotgrad.joint", "aotgrad.decompositions", "inductor.lower", "inductor.lowerings", "inductor.schedule", "cpu_codegen.kernel")
print([name for name in wanted if name in sys.modules])
"""


def test_another_process_imports_nothing_that_compiles(tmp_path: Path) -> None:
    environment = {**os.environ, "INDUCTOR_CACHE_DIR": str(tmp_path)}
    told = [
        subprocess.run(
            [sys.executable, "-c", CHILD], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert "inductor.lower" in told[0]
    assert told[1].strip() == "[]"


OF_ITS_OWN = """
import torch, capture, meta
capture.config.on_error = "raise"
torch.manual_seed(0)

@torch.library.custom_op("again::scaled_", mutates_args={"x"})
def scaled_(x: torch.Tensor, by: float) -> None:
    x.mul_(by)

@scaled_.register_fake
def _(x, by):
    pass

network = torch.nn.LSTM(4, 5).eval()

def recurrent(x):
    return network(x * 2)[0]

def written(x):
    y = x + 1
    torch.ops.again.scaled_(y, 3.0)
    return y

x = torch.randn(3, 2, 4)
with torch.no_grad():
    for program in (recurrent, written):
        torch.testing.assert_close(meta.compile(program)(x), program(x))
"""


def test_another_process_has_the_operators_that_are_called(tmp_path: Path) -> None:
    environment = {**os.environ, "INDUCTOR_CACHE_DIR": str(tmp_path)}
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", OF_ITS_OWN], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
