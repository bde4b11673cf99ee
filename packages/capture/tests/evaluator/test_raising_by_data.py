"""A check in the graph stands for a branch of which one way raises: where it fails, all is as in the interpreter."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture


def eager(module: Any, inputs: Any) -> Callable[..., Any]:
    return module.forward


class Refused(Exception):
    """The program's own."""


def outcome(fn: Callable[..., Any], *args: Any) -> Any:
    try:
        return fn(*args)
    except Exception as error:
        lines = [(each.name, each.line) for each in traceback.extract_tb(error.__traceback__)]
        return type(error), str(error), lines[-1]


def refusing(x: torch.Tensor) -> torch.Tensor:
    if x.sum() < 0:
        raise Refused(f"{x}")
    return x + 1


def test_the_exception_is_the_programs() -> None:
    compiled = capture.compile(refusing, eager, fullgraph=True)
    for x in (torch.ones(3), -torch.ones(3), torch.ones(3)):
        wanted, found = outcome(refusing, x), outcome(compiled, x)
        assert torch.equal(wanted, found) if isinstance(wanted, torch.Tensor) else wanted == found
    assert capture.report(compiled).graph_count == 1


def drawing(x: torch.Tensor, kept: list[Any]) -> torch.Tensor:
    noise = torch.rand(3)
    kept.append(noise)
    x.mul_(2)
    if (x < 0).any():
        kept.append("negative")
        raise Refused(x.shape)
    return torch.rand(3) + x


def test_nothing_is_done_twice_where_it_draws_and_writes() -> None:
    compiled = capture.compile(drawing, eager, fullgraph=True)
    for sign in (1, -1, 1):
        results = []
        for fn in (drawing, compiled):
            torch.manual_seed(0)
            x, kept = sign * torch.ones(3), []
            found = outcome(fn, x, kept)
            results.append(repr((found, x, kept, torch.rand(1))))
        assert results[0] == results[1]


def writing_much(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    if (x < 0).any():
        raise Refused("negative")
    return x * 2


def test_what_cannot_be_taken_back_breaks() -> None:
    compiled = capture.compile(writing_much, eager)
    for sign in (1, -1, 1):
        one, two = (sign * torch.full((100, 100), 3.0) for _ in range(2))
        wanted, found = outcome(writing_much, one), outcome(compiled, two)
        assert torch.equal(wanted, found) if isinstance(wanted, torch.Tensor) else wanted == found
        assert torch.equal(one, two)
    assert [each.cause.id for each in capture.report(compiled).breaks] == ["B101", "B205"]


def handling(x: torch.Tensor) -> torch.Tensor:
    try:
        y = refusing(x)
    except Refused:
        return x - 1
    return y * 2


def test_where_the_program_handles_it_the_graph_breaks() -> None:
    compiled = capture.compile(handling, eager)
    for x in (torch.ones(3), -torch.ones(3), torch.ones(3)):
        assert torch.equal(handling(x), compiled(x))
    with pytest.raises(capture.GraphBreakError, match="branch on a tensor's value"):
        capture.compile(handling, eager, fullgraph=True)(torch.ones(3))


def choosing(x: torch.Tensor) -> torch.Tensor:
    if x.sum() < 0:
        return x - 1
    if x.sum() > 100:
        raise Refused("large")
    return x + 1


def test_a_way_that_returns_is_a_break() -> None:
    compiled = capture.compile(choosing, eager)
    for x in (torch.ones(3), -torch.ones(3), 100 * torch.ones(3)):
        wanted, found = outcome(choosing, x), outcome(compiled, x)
        assert torch.equal(wanted, found) if isinstance(wanted, torch.Tensor) else wanted == found
    assert capture.report(compiled).break_count == 1
