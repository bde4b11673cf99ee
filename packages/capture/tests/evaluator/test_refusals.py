"""A backend that refuses a graph breaks it at the call to blame; a program told that it is compiled must not fail for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import fx

import capture


def no_sine(module: fx.GraphModule, inputs: list[Any]) -> Any:
    """A backend that knows no sine."""
    asked.append([n.target for n in module.graph.nodes if n.op.startswith("call")])
    for node in module.graph.nodes:
        if node.target is torch.sin:
            raise capture.GraphRefused("no sine here", node)
    return module.forward


asked: list[list[Any]] = []


@pytest.fixture(autouse=True)
def _nothing_asked() -> None:
    asked.clear()


def inner(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x * 2) + 1


def program(x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = inner(x + 1)
    return x * 3


def test_the_call_to_blame_runs_between_two_graphs() -> None:
    compiled = capture.compile(program, no_sine)
    x = torch.randn(4)
    with pytest.warns(capture.CaptureWarning, match="no sine here") as heard:
        torch.testing.assert_close(compiled(x), program(x))
    assert len(heard) == 1
    assert any("refuses sin: no sine here" in b.reason for b in compiled.session.report.breaks)
    # The backend is asked about a sine once; every later capture knows.
    assert sum(torch.sin in calls for calls in asked) == 1
    torch.testing.assert_close(compiled(x), program(x))


def test_a_refusal_is_an_error_with_fullgraph() -> None:
    with pytest.raises(capture.GraphBreakError, match="no sine here"):
        capture.compile(program, no_sine, fullgraph=True)(torch.randn(4))


def test_a_refusal_of_nothing_in_particular_leaves_the_frame_alone() -> None:
    def refuse(module: fx.GraphModule, inputs: list[Any]) -> Any:
        raise capture.GraphRefused("not today")

    compiled = capture.compile(program, refuse)
    x = torch.randn(4)
    with pytest.warns(capture.CaptureWarning, match="not today"):
        torch.testing.assert_close(compiled(x), program(x))


def test_a_way_that_fails_where_a_compiler_traces_is_not_taken() -> None:
    def fn(x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        if mask is None and not torch.compiler.is_compiling():  # noqa: TID251
            mask = torch.ones_like(x)
        return x * mask[None, :]  # type: ignore[index]

    x = torch.randn(4)
    compiled = capture.compile(fn, fullgraph=True)
    torch.testing.assert_close(compiled(x), fn(x))


def test_a_way_that_fails_where_a_compiler_traces_is_taken_by_no_part_of_the_program() -> None:
    def skip(mask: torch.Tensor) -> bool:
        return not torch.compiler.is_compiling() and bool(mask.all())  # noqa: TID251

    def made(mask: torch.Tensor) -> torch.Tensor | None:
        return None if skip(mask) else mask[None, None, :]

    def fn(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        full = made(mask)
        return x if full is None else x.view(-1, 3) * full[..., :3, None]

    x, mask = torch.randn(4), torch.ones(4)
    compiled = capture.compile(fn)
    torch.testing.assert_close(compiled(x, mask), x)
    assert "which only the run can tell" in compiled.session.report.breaks[0].reason


def test_an_exception_of_both_ways_does_not_choose_one() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_compiling() and x.numel() == 4:  # noqa: TID251
            return x + 1
        return x.view(3, -1)

    compiled = capture.compile(fn)
    with pytest.raises(RuntimeError, match="shape"):
        compiled(torch.randn(5))
    x = torch.randn(4)
    torch.testing.assert_close(compiled(x), x + 1)


def test_the_way_that_is_captured_whole_is_taken() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_compiling():  # noqa: TID251
            compile("0", "", "eval")
        return x + 1

    x = torch.randn(4)
    torch.testing.assert_close(capture.compile(fn, fullgraph=True)(x), fn(x))


def test_where_both_ways_break_a_compiler_traces() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        way = 1 if torch.compiler.is_compiling() else 2  # noqa: TID251
        compile("0", "", "eval")
        return x * way

    compiled = capture.compile(fn)
    assert compiled(torch.ones(1)).item() == 1
    assert len(compiled.session.report.breaks) == 1


def test_a_program_is_told_that_a_compiler_traces_it() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if torch.compiler.is_compiling() else x - 1  # noqa: TID251

    assert capture.compile(fn)(torch.zeros(1)).item() == 1


@pytest.mark.parametrize("kind", [bool, int, float, complex, torch.float16, torch.DoubleTensor])
def test_classes_as_dtypes(kind: Any) -> None:
    def fn(x: torch.Tensor) -> Any:
        if kind is torch.DoubleTensor:
            return x.type(kind)
        return x.to(kind), torch.zeros(3, dtype=kind), x.to(dtype=kind) * 2, torch.full((2,), 3, dtype=kind)

    x = torch.randn(4)
    compiled = capture.compile(fn, fullgraph=True)
    torch.testing.assert_close(compiled(x), fn(x), rtol=0, atol=0)
