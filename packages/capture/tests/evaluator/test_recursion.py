"""Recursion that eager survives, survives: through, beneath and above captured frames, at any limit."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import capture
from capture.evaluator.state import EvaluationState

X = torch.zeros(1)


@pytest.fixture(params=[0, 5000])
def depth(request: pytest.FixtureRequest) -> Iterator[int]:
    """Close to the limit: the usual one, and a raised one."""
    frames, frame = 0, sys._getframe()
    while frame is not None:
        frames, frame = frames + 1, frame.f_back  # type: ignore[assignment]
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(request.param or frames + 1000)
    yield sys.getrecursionlimit() - frames - 100
    sys.setrecursionlimit(before)


def pure(n: int) -> int:
    return 0 if n == 0 else 1 + pure(n - 1)


def beneath_a_break(x: torch.Tensor, n: int) -> torch.Tensor:
    y = x + 1
    compile("0", "", "eval")
    return y + pure(n)


def with_a_break(x: torch.Tensor, n: int) -> torch.Tensor:
    if n == 0:
        return x
    compile("0", "", "eval")
    return with_a_break(x + 1, n - 1)


def above(n: int, fn: Callable[[], Any]) -> Any:
    return fn() if n == 0 else above(n - 1, fn)


def test_functions_that_recurse(depth: int) -> None:
    assert capture.compile(pure)(depth) == depth
    assert capture.compile(beneath_a_break)(X, depth - 10).item() == depth - 9
    assert capture.compile(with_a_break)(X, depth - 10).item() == depth - 10


def test_captured_deep_in_a_program(depth: int) -> None:
    for fullgraph in (False, True):
        compiled = capture.compile(lambda: torch.nn.functional.gelu(X + 1).sin(), fullgraph=fullgraph)
        assert torch.equal(above(depth, compiled), compiled())
        assert compiled.session.report.graph_count == 1


@capture.compile
def compiled_recursion(x: torch.Tensor, n: int) -> torch.Tensor:
    if n == 0:
        return x
    compile("0", "", "eval")
    return compiled_recursion(x + 1, n - 1)


def test_a_compiled_function_that_calls_itself(depth: int) -> None:
    # From 3.12 the interpreter counts calls through C on their own, to 1500.
    depth = min(depth, 1000) if sys.version_info >= (3, 12) else depth
    assert compiled_recursion(X, depth - 10).item() == depth - 10


def test_too_deep_for_the_c_stack_is_an_exception() -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(200_000)
    try:
        with pytest.raises(RecursionError):
            compiled_recursion(X, 100_000)
        assert capture.compile(with_a_break)(X, 20_000).item() == 20_000
    finally:
        sys.setrecursionlimit(before)
    assert compiled_recursion(X, 3).item() == 3


def deep(x: torch.Tensor, n: int) -> torch.Tensor:
    return x if n == 0 else deep(x, n - 1) + 1


class Ends:
    """In a cycle; its finalizer nests some frames, as a program's may."""

    seen = 0

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        Ends.seen += pure(100) // 100


def test_finalizers_that_run_while_calls_are_inlined_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", failed.append)
    enter = EvaluationState.enter

    def entered(self: EvaluationState, frame: Any) -> None:
        enter(self, frame)
        Ends()
        gc.collect(0)

    monkeypatch.setattr(EvaluationState, "enter", entered)
    Ends.seen = 0
    compiled = capture.compile(deep)
    assert compiled(X, 148).item() == 148  # as deep as calls are inlined
    assert Ends.seen > 148
    assert not failed
    assert "too deep" in str(capture.explain(deep, X, 160))
