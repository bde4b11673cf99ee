"""What of a library has nothing to do with tensors is called for real as a whole, if the graph breaks in it."""

from __future__ import annotations

import pathlib
import uuid
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function

import capture


def eager(module: Any, inputs: Any) -> Any:
    return module.forward


def profiled(x: torch.Tensor) -> Any:
    y = x * 2
    with profile(activities=[ProfilerActivity.CPU]) as found:
        with record_function("range"):
            z = y.sin() + 1
    keys = {each.key for each in found.key_averages()}
    return z, {"range", "aten::sin"} <= keys, "aten::mul" in keys


def profiled_by_steps(x: torch.Tensor) -> Any:
    told: list[int] = []
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=1),
        on_trace_ready=lambda each: told.append(len(each.events()) > 0),
    ) as found:
        for _ in range(4):
            x = x.sin()
            found.step()
    return x, told


def profiled_by_autograd(x: torch.Tensor) -> Any:
    with torch.autograd.profiler.profile() as found:
        z = x.cos()
    return z, any(each.name == "aten::cos" for each in found.function_events)


@pytest.mark.parametrize(("fn", "most"), [(profiled, 5), (profiled_by_steps, 7), (profiled_by_autograd, 4)])
def test_profilers(fn: Any, most: int) -> None:
    compiled = capture.compile(fn, eager)
    x = torch.randn(3)
    for _ in range(2):
        result, *told = compiled(x)
        wanted, *expected = fn(x)
        assert torch.equal(result, wanted) and told == expected
    report = capture.report(compiled)
    # Twice as many where the profiler's own state, by what ran before in this process, has it captured once more.
    assert report.break_count <= 2 * most and report.graph_count <= 6


def identified(x: torch.Tensor) -> Any:
    y = x + 1
    name = uuid.uuid4().hex
    return y * 2, len(name)


def read(x: torch.Tensor, path: pathlib.Path) -> Any:
    text = path.read_text()
    return x + len(text)


def test_one_break_for_each_call(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "text"
    path.write_text("four")
    for fn, args in ((identified, ()), (read, (path,))):
        compiled = capture.compile(fn, eager)
        assert repr(compiled(torch.ones(2), *args)) == repr(fn(torch.ones(2), *args))
        assert capture.report(compiled).break_count == 1


class Told(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        capture_nothing()
        return x + 1


@capture.disable
def capture_nothing() -> None:
    pass


def test_code_of_the_programs_that_a_library_calls_is_captured() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), Told())
    compiled = capture.compile(model, eager)
    x = torch.randn(2)
    assert torch.equal(compiled(x), model(x))
    assert capture.report(compiled).op_count == 2
