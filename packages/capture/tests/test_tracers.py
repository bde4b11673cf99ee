"""Debuggers, coverage and monitors see the lines of the program, each as often as eager shows it, in compiled code."""

from __future__ import annotations

import cProfile
import pstats
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture


def helper(y: torch.Tensor) -> torch.Tensor:
    if y.shape[0] > 5:
        return y + 100
    return y * 2


def whole(x: torch.Tensor) -> torch.Tensor:
    a = x + 1
    b = helper(a)
    for i in range(3):
        b = b + i
    if i > 5:
        b = b * 2
    return a + b


def tangled(x: torch.Tensor) -> torch.Tensor:
    try:
        y = x + {}["missing"]
    except KeyError:
        y = x * 2
    finally:
        z = [c + 1 for c in (x, x)]
    with torch.no_grad():
        y = y + sum(z)
    if y.shape[0] > 5:
        y = y + 1
    return y


def broken(x: torch.Tensor) -> torch.Tensor:
    a = x + 1
    compile("0", "", "eval")
    b = helper(a)
    return a + b


def broken_in_a_loop(x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = helper(x)
        compile("0", "", "eval")
    return x


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return helper(y)


def lines(fn: Callable[..., Any], *args: Any) -> list[tuple[str, int]]:
    """The line events in this file."""
    found: list[tuple[str, int]] = []

    def trace(frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename != __file__:
            return None
        if event == "line":
            found.append((frame.f_code.co_name, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        fn(*args)
    finally:
        sys.settrace(before)
    return found


def monitored(fn: Callable[..., Any], *args: Any) -> list[tuple[str, int]]:
    """The same by sys.monitoring."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    found: list[tuple[str, int]] = []

    def line(code: Any, number: int) -> None:
        if code.co_filename == __file__ and code.co_name != "monitored":
            found.append((code.co_name, number))

    tool = monitoring.DEBUGGER_ID
    monitoring.use_tool_id(tool, "test")
    monitoring.register_callback(tool, monitoring.events.LINE, line)
    monitoring.set_events(tool, monitoring.events.LINE)
    try:
        fn(*args)
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)
    return found


WAYS = [lines, monitored] if sys.version_info >= (3, 12) else [lines]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("first", ["traced", "untraced"])
def test_lines_are_those_of_eager(way: Any, first: str) -> None:
    x = torch.ones(2)
    for fn in (whole, broken):
        compiled = capture.compile(fn, fullgraph=fn is whole)
        expected = way(fn, x)
        assert len(expected) > 5
        if first == "untraced":
            compiled(x)
        way(compiled, x)  # while it is captured, functions of the package are seen as well
        assert way(compiled, x) == expected
        assert torch.equal(compiled(x), fn(x))
    # Where a line is entered again by a jump within it, left through a handler, or broken at more than once, it may be
    # shown more or less often.
    for fn in (tangled, broken_in_a_loop):
        compiled = capture.compile(fn, fullgraph=fn is tangled)
        way(compiled, x)
        assert set(way(compiled, x)) == set(way(fn, x))
        assert not compiled.session.report.skipped


def test_a_module_shows_its_forward_and_what_that_calls() -> None:
    net = Net()
    compiled = capture.compile(net, fullgraph=True)
    lines(compiled, torch.ones(2))
    first = Net.forward.__code__.co_firstlineno
    assert [line for line in lines(compiled, torch.ones(2)) if line[1] != first] == lines(net, torch.ones(2))


def test_what_runs_under_a_tracer_is_compiled() -> None:
    runs: list[str] = []

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        def run(*args: Any) -> Any:
            runs.append("compiled")
            return module.forward(*args)

        return run

    compiled = capture.compile(whole, backend, fullgraph=True)
    for _ in range(2):
        lines(compiled, torch.ones(2))
    assert runs == ["compiled"] * 2
    compiled(torch.ones(2))
    compiled(torch.ones(2))
    assert runs == ["compiled"] * 4
    assert compiled.session.report.graph_count == 2  # one for tracers


def test_long_loops_do_not_make_long_replacements() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        n = 0
        for i in range(20_000):
            n = n + i
        return x + n

    compiled = capture.compile(fn, fullgraph=True)
    lines(compiled, torch.ones(2))
    seen = lines(compiled, torch.ones(2))
    assert len(seen) < 11_000
    assert set(seen) == set(lines(fn, torch.ones(2)))


def test_a_profile_shows_the_function_once_a_call() -> None:
    compiled = capture.compile(whole)
    x = torch.ones(2)
    compiled(x)
    profile = cProfile.Profile()
    profile.enable()
    compiled(x)
    compiled(x)
    profile.disable()
    stats: Any = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    here = {key: value[0] for key, value in stats.items() if key[0] == __file__}
    assert here == {(__file__, whole.__code__.co_firstlineno, "whole"): 2}
