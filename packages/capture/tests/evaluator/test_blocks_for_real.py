# mypy: ignore-errors
"""Blocks in which nothing is captured (a dispatch mode made in the function): made for real, and captured again behind them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import capture


class Counting(TorchDispatchMode):
    def __init__(self, refuses: bool = False) -> None:
        super().__init__()
        self.calls = []
        self.refuses = refuses

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.calls.append(str(function))
        if self.refuses:
            raise ValueError("refused")
        return function(*args, **(kwargs or {}))


#: How many graphs there are at least: where handlers, of an enclosing loop too, lead back into a block, its function stays as it is from there on.
PROGRAMS: dict[Callable[..., Any], int] = {}


def program(graphs: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def noted(fn):
        PROGRAMS[fn] = graphs
        return fn

    return noted


@program(2)
def plain(x):
    x = x * 2
    with Counting() as mode:
        x = x + 1
        y = x * x
    y = y.relu() * 3
    return y, x + 1, mode.calls


@program(1)
def returns(x):
    x = x * 2
    with Counting() as mode:
        return x + 1, mode.calls


@program(2)
def returns_on_one_way(x):
    x = x * 2
    with Counting() as mode:
        if x.dim() == 3:
            return x + 1
        y = x + 2
    return y * 3, mode.calls


@program(1)
def raises(x):
    x = x * 2
    with pytest.raises(ValueError), Counting(refuses=True) as mode:
        x = x + 1
    return x * 3 + 1, mode.calls


@program(1)
def caught_within(x):
    x = x * 2
    with Counting(refuses=True) as mode:
        try:
            x = x + 1
        except ValueError as error:
            told = str(error)
    return x * 3 + 1, mode.calls, told


@program(1)
def passed_on(x):
    x = x * 2
    try:
        with Counting(refuses=True):
            x = x + 1
    except ValueError as error:
        return x * 3 + 1, str(error)


@program(1)
def in_a_loop(x):
    calls = []
    for n in range(3):
        x = x * 2
        with Counting() as mode:
            x = x + n
        calls.append(len(mode.calls))
        x = x * 3
    return x - 1, calls


@program(1)
def with_a_loop(x):
    x = x * 2
    with Counting() as mode:
        for n in range(3):
            if n == 1:
                continue
            y = x + n
            z = y * 2
    return z * 3, y, mode.calls


@program(1)
def left_early(x):
    for n in range(3):
        x = x * 2
        with Counting() as mode:
            x = x + n
            if n == 1:
                break
    return x * 3, mode.calls


@program(1)
def nested(x):
    x = x * 2
    with Counting() as outer:
        with Counting() as inner, torch.no_grad():
            x = x + 1
        x = x * 2
    return x * 3, outer.calls, inner.calls


@program(1)
def other_locals(x):
    x = x * 2
    with Counting() as mode:
        if x.dim() == 2:
            y = x + 1
        else:
            z = x + 2
            del z
        w = [x + n for n in range(2)]
    return y * 3, w[1] * 2, mode.calls


@program(3)
def in_a_function(x):
    def called(x):
        x = x * 2
        with Counting() as mode:
            x = x + 1
        return x * 3, mode.calls

    y, calls = called(x + 1)
    return y.relu() + 1, calls


@program(2)
def with_cells(x):
    x = x * 2
    with Counting() as mode:
        y = x + 1

        def read():
            return y + x

        z = read()
    x = x + 1
    return read() * 3, z, mode.calls


@program(1)
def on_a_stack(x):
    x = x * 2
    with contextlib.ExitStack() as stack:
        mode = stack.enter_context(Counting())
        x = x + 1
    return x * 3, mode.calls


def shown(value: Any) -> Any:
    return (
        value.tolist()
        if isinstance(value, torch.Tensor)
        else [shown(v) for v in value]
        if isinstance(value, (tuple, list))
        else value
    )


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_captured_behind(fn: Callable[..., Any]) -> None:
    compiled = capture.compile(fn)
    for x in (torch.ones(2, 2), torch.arange(4.0).reshape(2, 2)):
        assert shown(compiled(x)) == shown(fn(x))
    assert capture.report(compiled).graph_count >= PROGRAMS[fn]
