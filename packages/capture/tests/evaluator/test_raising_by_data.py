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


LOG: list[str] = []


class Passing:
    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        LOG.append(f"left by {kind}")


def counted(x: torch.Tensor, most: int) -> torch.Tensor:
    if len(torch.unique(x)) > most:
        raise Refused(f"{len(torch.unique(x))} of {most}")
    return torch.bincount(x, minlength=4).reshape(2, 2) + x.sum()


def told_again(x: torch.Tensor, most: int, state: dict[str, Any]) -> torch.Tensor:
    state["calls"] += 1
    with torch.no_grad():
        try:
            found = counted(x, most)
        except (Refused, RuntimeError) as error:
            LOG.append(str(error))
            if "shape" in str(error):
                raise Refused("no square") from error
            raise error
    state["total"] = found
    return found


COUNTED = (([0, 1, 2, 3], 5), ([0, 1, 1, 3], 5), ([0, 1, 2, 3, 3, 1], 3), ([0, 1, 7], 5), ([3, 1, 2], 5))


def test_a_handler_that_only_raises_ends_no_graph() -> None:
    compiled = capture.compile(told_again)
    for values, most in COUNTED:
        results = []
        for fn in (compiled, told_again):
            LOG.clear()
            state = {"calls": 0}
            found = outcome(fn, torch.tensor(values), most, state)
            results.append((str(found), list(LOG), str(state)))
        assert results[0] == results[1]
    assert not compiled.session.report.breaks


def test_a_handler_that_goes_on_does() -> None:
    def told(x: torch.Tensor, most: int) -> Any:
        with Passing():
            try:
                return counted(x, most)
            except RuntimeError:
                return None

    compiled = capture.compile(told)
    for values, most in COUNTED:
        wanted, found = (outcome(fn, torch.tensor(values), most) for fn in (told, compiled))
        assert str(wanted) == str(found)
    assert compiled.session.report.breaks


def test_a_block_of_the_programs_around_it_may_go_on() -> None:
    def told(x: torch.Tensor, most: int) -> Any:
        with Passing():
            try:
                return counted(x, most)
            except RuntimeError as error:
                raise Refused from error

    compiled = capture.compile(told)
    for values, most in COUNTED:
        results = []
        for fn in (told, compiled):
            LOG.clear()
            results.append((str(outcome(fn, torch.tensor(values), most)), list(LOG)))
        assert results[0] == results[1]


def test_lengths_are_held_alike_where_a_handler_raises_again() -> None:
    def told(x: torch.Tensor) -> Any:
        try:
            return x.nonzero()[:, 0] + torch.arange(2)
        except RuntimeError as error:
            raise Refused from error

    compiled = capture.compile(told, fullgraph=True)
    for values in ([0.0, 1.0, 2.0], [1.0, 1.0, 1.0], [0.0, 0.0, 1.0]):
        wanted, found = (outcome(fn, torch.tensor(values)) for fn in (told, compiled))
        assert str(wanted) == str(found)
    assert not compiled.session.report.breaks
