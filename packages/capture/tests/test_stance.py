"""What all compiled callables are told to do: capture, run eagerly, or use what they have."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import fx

import capture

graphs: list[fx.GraphModule] = []


def counting(module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    graphs.append(module)
    return lambda *args: (args[0] * 0 - 1,)  # to be told from eager


def fn(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(capture.config, "on_error", "raise")
    capture.reset()
    graphs.clear()
    yield
    capture.set_stance("default")


x = torch.ones(2)
eager, captured = torch.full((2,), 2.0), torch.full((2,), -1.0)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_all_runs_eagerly(fullgraph: bool) -> None:
    run = capture.compile(fn, counting, fullgraph=fullgraph)
    with capture.set_stance("force_eager"):
        assert torch.equal(run(x), eager) and not graphs
    assert torch.equal(run(x), captured)
    with capture.set_stance("force_eager"):
        assert torch.equal(run(x), eager)
    module = capture.compile(torch.nn.ReLU(), counting)
    with capture.set_stance("force_eager"):
        assert torch.equal(module(-x), x * 0)
    assert len(graphs) == 1


@pytest.mark.parametrize("fullgraph", [False, True])
def test_what_was_captured_is_used(fullgraph: bool) -> None:
    run = capture.compile(fn, counting, fullgraph=fullgraph)
    with capture.set_stance("eager_on_recompile"):
        assert torch.equal(run(x), eager)
    assert torch.equal(run(x), captured)
    with capture.set_stance("eager_on_recompile"):
        assert torch.equal(run(x), captured)
        assert torch.equal(run(torch.ones(2, dtype=torch.float64)), eager.double())
        assert not capture.report(run).recompiles
    assert len(graphs) == 1


def test_what_would_be_captured_raises() -> None:
    run = capture.compile(fn, counting)
    with capture.set_stance("fail_on_recompile"), pytest.raises(capture.RecompileError, match="nothing was captured"):
        run(x)
    run(x)
    with capture.set_stance("fail_on_recompile"):
        assert torch.equal(run(x), captured)
        with pytest.raises(capture.RecompileError, match=r"x\.dtype was torch\.float32, is torch\.float64"):
            run(x.double())
    assert torch.equal(run(x.double()), captured.double())


def test_as_a_function_and_as_a_decorator() -> None:
    run = capture.compile(fn, counting)

    @capture.set_stance("force_eager")
    def evaluated(x: torch.Tensor) -> torch.Tensor:
        """Its own."""
        return run(x)

    assert evaluated.__name__ == "evaluated" and evaluated.__doc__ == "Its own."
    assert torch.equal(run(x), captured), "the decorator holds within its function alone"
    assert torch.equal(evaluated(x), eager)
    capture.set_stance("force_eager")
    assert torch.equal(run(x), eager)
    with capture.set_stance("default"):
        assert torch.equal(run(x), captured)
        with pytest.raises(ZeroDivisionError), capture.set_stance("force_eager"):
            1 / 0
        assert torch.equal(run(x), captured)
    assert torch.equal(run(x), eager)
    with pytest.raises(ValueError, match="'faster'; the stances are default, force_eager, eager_on_recompile"):
        capture.set_stance("faster")


def test_set_by_the_program_itself_it_holds_for_what_follows() -> None:
    inner = capture.compile(fn, counting)

    def program(x: torch.Tensor) -> Any:
        before = inner(x)
        with capture.set_stance("force_eager"):
            within = inner(x)
        return before, within, inner(x)

    outer = capture.compile(program)
    assert torch.equal(outer(x)[1], eager)
    assert any("stance" in each.reason for each in capture.report(outer).breaks)


def test_the_stance_of_torchs_own_compiler_holds_where_nothing_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    told = types.ModuleType("told")
    told._stance = types.SimpleNamespace(stance="fail_on_recompile")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch._dynamo.eval_frame", told)
    run = capture.compile(fn, counting)
    with pytest.raises(capture.RecompileError):
        run(x)
    told._stance.stance = "force_eager"
    assert torch.equal(run(x), eager) and not graphs
    told._stance.stance = "default"
    assert torch.equal(run(x), captured)
