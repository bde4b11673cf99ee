"""What of a library has nothing to do with tensors is called for real as a whole, if the graph breaks in it."""

from __future__ import annotations

import functools
import pathlib
import pickle
import uuid
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function

import capture
from capture.trace_rules import only_reads


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


def test_equality_of_tensors_is_as_torch_has_it() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.equal(x, y), torch.equal(x, x), torch.equal(x, x.flip(0)), x * 2

    numbers = torch.tensor([float("nan"), 1.0])
    compiled = capture.compile(fn, fullgraph=True)
    for x, y in (
        (numbers, numbers),
        (numbers, numbers.clone()),
        (torch.ones(2), torch.ones(3)),
        (torch.ones(3), torch.ones(4)),
        (torch.ones(4), torch.ones(4)),
        (torch.ones(2), torch.ones(1, 2)),
        (torch.tensor([1, 2]), torch.tensor([1, 2])),
    ):
        (*found, a), (*wanted, b) = compiled(x, y), fn(x, y)
        assert found == wanted
        torch.testing.assert_close(a, b, equal_nan=True)


def test_pickled_values_that_tell_calls_apart() -> None:
    def fn(x: torch.Tensor, key: str, **named: Any) -> Any:
        return x + 1, pickle.dumps(named), pickle.dumps((key, "a", 1.5, None)), pickle.dumps({"b": 2}, protocol=2)

    compiled = capture.compile(fn, fullgraph=True)
    for key, named in (("k", {}), ("l", {"c": 3}), ("m", {"c": True, "d": None})):
        assert compiled(torch.ones(1), key, **named)[1:] == fn(torch.ones(1), key, **named)[1:]


def test_what_is_pickled_twice_is_pickled_for_real() -> None:
    def fn(x: torch.Tensor, key: str, other: str) -> Any:
        return x + 1, pickle.dumps([key, other]), pickle.dumps({"a": [1]})

    compiled = capture.compile(fn)
    apart = "".join(["long", "er"])
    for key, other in (("longer", "longer"), ("longer", apart)):
        assert compiled(torch.ones(1), key, other)[1:] == fn(torch.ones(1), key, other)[1:]


class Wrapping:
    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x) + 1


def doubled(x: torch.Tensor) -> torch.Tensor:
    """Twice."""
    return x * 2


doubled.extra = 5  # type: ignore[attr-defined]


def test_an_object_that_wraps_a_function() -> None:
    def fn(x: torch.Tensor, **choice: Any) -> Any:
        made = functools.update_wrapper(Wrapping(doubled), doubled, **choice)
        also = functools.wraps(doubled)(Wrapping(made))
        return sorted(vars(made)), made.__doc__, made.__wrapped__ is doubled, also.__name__, made(x), also(x)

    compiled = capture.compile(fn, fullgraph=True)
    for choice in ({}, {"updated": ()}, {"assigned": ("__doc__",)}):
        (*found, a, b), (*wanted, c, d) = compiled(torch.ones(2), **choice), fn(torch.ones(2), **choice)
        assert found == wanted and torch.equal(a, c) and torch.equal(b, d)


def test_machinery_of_torchs_own_is_evaluated_where_it_only_reads():
    """As libraries ask, before they do what several processes do."""

    def program(x):
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return x + 1
        return x + 2

    compiled = capture.compile(program, fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), program(torch.ones(2)))


def test_what_only_reads_calls_nothing_and_changes_nothing():
    def calls(x):
        return x.width()

    def changes(x):
        x.width = 1

    def reads(x):
        return [x.width] if x is not None else x.height[0]

    assert [only_reads(each.__code__) for each in (calls, changes, reads)] == [False, False, True]
