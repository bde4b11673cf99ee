"""A break within an inlined call, a handler or a loop costs no more graphs than it must, and nobody sees where it was."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture

SEEN: list[Any] = []


@capture.disable
def look(value: Any = None) -> Any:
    """A graph break that tells what is being handled, with its lines and those of its context."""
    SEEN.append(_told(sys.exc_info()[1]))
    return value


def _told(error: BaseException | None) -> Any:
    if error is None:
        return None
    lines = [(f.lineno, f.name) for f in traceback.extract_tb(error.__traceback__) if f.filename == __file__]
    return repr(error), lines, _told(error.__context__), repr(error.__cause__), error.__suppress_context__


def inner(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    look()
    return y.cos()


def middle(x: torch.Tensor) -> torch.Tensor:
    return inner(x + 1) * 2


def calls(x: torch.Tensor) -> torch.Tensor:
    return middle(x * 3) - 1


def calls_twice(x: torch.Tensor) -> torch.Tensor:
    return middle(middle(x * 3) + 2) - 1


class Block(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return inner(x + 1)


BLOCK = Block()


def of_modules(x: torch.Tensor) -> torch.Tensor:
    return BLOCK(BLOCK(x.exp()))


class Made:
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x + 1
        look()
        self.y = self.x * 2


def constructs(x: torch.Tensor) -> torch.Tensor:
    return Made(x.sin()).y + 1


def handles(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    try:
        y = y * 2
        raise KeyError(1)
    except KeyError:
        y = y * 3
        look()
        y = y + 4
    return y * 2


def repeats(x: torch.Tensor) -> torch.Tensor:
    for _ in range(12):
        x = middle(x)
    return x


@pytest.mark.parametrize(
    ("fn", "operations"),
    [
        (calls, [3, 1, 1, 1]),
        (calls_twice, [3, 1, 1, 3, 1]),
        (of_modules, [3, 1, 2]),
        (constructs, [2, 1, 1]),
        (handles, [3, 2]),
        (repeats, [2, 1, 1, 2]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_comes_before_a_break_is_in_the_callers_graph(fn: Callable[..., Any], operations: list[int]) -> None:
    x = torch.arange(4.0)
    compiled = capture.compile(fn, lambda module, inputs: module.forward)
    for _ in range(3):
        assert torch.equal(compiled(x), fn(x))
    assert [graph.op_count for graph in capture.report(compiled).graphs] == operations


def thrower(x: torch.Tensor) -> torch.Tensor:
    raise KeyError(x.dim())


def in_handlers(x: torch.Tensor) -> torch.Tensor:
    try:
        thrower(x)
    except KeyError as first:
        look()
        x = x * 2
        try:
            BLOCK(x, 1)
        except TypeError:
            look()
            try:
                raise ValueError("b") from first
            except ValueError:
                look()
        look()
    look()
    return x


def in_callers_handler(x: torch.Tensor) -> torch.Tensor:
    try:
        raise IndexError("of the caller")
    except IndexError:
        x = inner(x)
        look()
        return in_handlers(x)


def through_frames(x: torch.Tensor) -> torch.Tensor:
    try:
        try:
            in_handlers(thrower(x))
        finally:
            look()
            x = x + 1
            look()
    except KeyError:
        look()
        raise


def raises_after(x: torch.Tensor) -> torch.Tensor:
    y = inner(x)
    raise ValueError(str(y.dim()))


def through_calls(x: torch.Tensor) -> torch.Tensor:
    try:
        return raises_after(inner(x))
    except ValueError as error:
        look()
        raise RuntimeError("outer") from error


@pytest.mark.parametrize(
    "fn", [in_handlers, in_callers_handler, through_frames, through_calls], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("handling", [False, True])
def test_what_is_handled_is_what_eager_handles(fn: Callable[..., Any], handling: bool) -> None:
    def run(call: Callable[..., Any]) -> Any:
        SEEN.clear()
        try:
            if not handling:
                return call(torch.ones(2)), list(SEEN)
            try:
                raise OSError("before")
            except OSError as error:
                return call(torch.ones(2)), list(SEEN), sys.exc_info()[1] is error
        except Exception as error:
            return _told(error), list(SEEN)

    compiled = capture.compile(fn)
    expected = run(fn)
    for _ in range(3):
        # The lines are those of different calls in this file.
        assert _without_run(run(compiled)) == _without_run(expected)
    assert sys.exc_info() == (None, None, None)


def _without_run(told: Any) -> Any:
    if isinstance(told, tuple | list):
        return [_without_run(each) for each in told if not (isinstance(each, tuple) and each[1:] == ("run",))]
    return told.tolist() if isinstance(told, torch.Tensor) else told


def _steps_of_many_kinds(x: torch.Tensor, k: int) -> Any:
    out = []
    for i in range(k):
        out.append(max(i, len(out) if i else 3))
        x = x + (1 if out[-1] > 2 else 2)
    squares = [i * k for i in range(3) if i != 1]
    sums = {i: i + k for i in squares}
    *rest, last = sorted(squares)
    return x, sums, rest, last, out, f"{k!r}", out[0] < 5 <= 7


@pytest.mark.parametrize("limit", [36, 56])
def test_a_break_at_any_step(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "max_instructions", limit)
    compiled, x = capture.compile(_steps_of_many_kinds), torch.ones(2)
    for _ in range(2):
        assert str(compiled(x, 2)) == str(_steps_of_many_kinds(x, 2))


def _functions_in_a_comprehension(x: torch.Tensor, k: int) -> Any:
    before = lambda: i  # noqa: E731
    made = [lambda *, by=j: i + by + x for i in range(k) for j in range(2)]
    i: Any = 5
    return [each() for each in made], before()


# From before the frame begins to within the comprehension, where cells are put aside, taken together, and given to functions.
@pytest.mark.filterwarnings("ignore:.*runs eagerly")
@pytest.mark.parametrize("limit", range(1, 44, 3))
def test_a_break_at_any_step_of_making_a_function(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "max_instructions", limit)
    compiled, x = capture.compile(_functions_in_a_comprehension), torch.ones(2)
    for _ in range(2):
        assert str(compiled(x, 2)) == str(_functions_in_a_comprehension(x, 2))
