"""What steps of torch's optimizers come down to: ranges, marks for compilers, gradients taken away, numbers of steps, sorted tensors."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.sgd import sgd

import capture


def compiled(function: Any, **options: Any) -> Any:
    return capture.compile(function, lambda module, inputs: module, **options)


# Ranges


def ranged(x: torch.Tensor) -> torch.Tensor:
    with torch.autograd.profiler.record_function("mine"):
        return x * 2


def left_early(x: torch.Tensor) -> torch.Tensor:
    with torch.profiler.record_function("mine"):
        x = x * 2
        if x.sum() > 0:
            x = x[:2]
        x = x * 3
    return x


def names(profile: Any) -> list[str]:
    return [event.name for event in profile.function_events]


def test_a_range_is_nothing_where_nobody_records() -> None:
    run = compiled(ranged, fullgraph=True)
    x = torch.ones(3)
    torch.testing.assert_close(run(x), x * 2)
    (graph,) = capture.report(run).graphs
    assert [node.name for node in graph.module.graph.nodes if node.op.startswith("call")] == ["mul"]


def test_a_profiler_sees_the_range_and_the_capture_without_it_serves_again() -> None:
    run = compiled(ranged)
    x = torch.ones(3)
    for _ in range(2):
        run(x)
        with torch.autograd.profiler.profile() as profile:
            torch.testing.assert_close(run(x), x * 2)
        assert "mine" in names(profile)
    report = capture.report(run)
    assert "a profiler records" in report.breaks[0].reason
    captured = report.frames
    run(x)
    assert capture.report(run).frames == captured


def test_a_break_within_a_range() -> None:
    run = compiled(left_early)
    for sign in (1, -1):
        x = torch.full((3,), float(sign))
        torch.testing.assert_close(run(x), left_early(x))
        torch.testing.assert_close(run(x), left_early(x))
    assert capture.report(run).graph_count > 1


def test_a_range_made_elsewhere_is_entered_for_real() -> None:
    mine = torch.profiler.record_function("mine")

    def program(x: torch.Tensor) -> torch.Tensor:
        with mine:
            return x + 1

    run = compiled(program)
    x = torch.ones(2)
    torch.testing.assert_close(run(x), x + 1)
    with torch.autograd.profiler.profile() as profile:
        run(x)
    assert "mine" in names(profile)


# Marks for compilers


def test_what_is_kept_from_compilers_is_not_captured() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    @torch.compiler.disable  # noqa: TID251
    def kept_out(x: torch.Tensor) -> torch.Tensor:
        return inner(x) + 1

    def program(x: torch.Tensor) -> torch.Tensor:
        return kept_out(x * 2) * 3

    run = compiled(program)
    x = torch.ones(2)
    torch.testing.assert_close(run(x), program(x))
    graphs = capture.report(run).graphs
    assert [node.name for graph in graphs for node in graph.module.graph.nodes if node.op.startswith("call")] == [
        "mul",
        "mul",
    ]


def test_a_break_for_another_compiler_is_none() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        torch._dynamo.graph_break()  # noqa: TID251
        return x + 1

    x = torch.ones(2)
    torch.testing.assert_close(compiled(program, fullgraph=True)(x), program(x))


def test_whether_a_stream_is_captured_is_asked_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream:
        captured = False

        def is_capturing(self) -> bool:
            return self.captured

    monkeypatch.setattr(torch._C, "_accelerator_getStream", lambda index: Stream())
    monkeypatch.setattr(torch._C, "_accelerator_getDeviceIndex", lambda: 0)

    def program(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if torch.accelerator.current_stream().is_capturing() else x * 2

    run = compiled(program, fullgraph=True)
    x = torch.ones(2)
    for Stream.captured in (False, True, False):
        torch.testing.assert_close(run(x), program(x))
    assert capture.report(run).graph_count == 2


# Gradients


def test_gradients_taken_away_and_given() -> None:
    def program(first: torch.Tensor, second: torch.Tensor) -> Any:
        before = first.grad
        first.grad = None
        empty = first.grad is None
        made = before * 2
        second.grad = made
        return empty, second.grad + 1, made

    found = []
    for run in (program, compiled(program, fullgraph=True)):
        first, second = (nn.Parameter(torch.ones(3)) for _ in range(2))
        first.grad = torch.full((3,), 2.0)
        result = run(first, second)
        assert first.grad is None
        assert second.grad is result[2]
        found.append((*result, second.grad))
    torch.testing.assert_close(found[0], found[1])


def test_a_gradient_that_does_not_fit_is_refused_as_in_eager() -> None:
    def program(parameter: torch.Tensor) -> None:
        parameter.grad = torch.ones(4)

    with pytest.raises(RuntimeError, match="same size"):
        compiled(program)(nn.Parameter(torch.ones(3)))


def test_a_gradient_given_before_a_break_is_there_after_it() -> None:
    def program(parameter: torch.Tensor) -> torch.Tensor:
        parameter.grad = None
        compile("0", "", "eval")
        parameter.grad = torch.ones(3)
        return parameter.grad + 1

    parameter = nn.Parameter(torch.ones(3))
    torch.testing.assert_close(compiled(program)(parameter), torch.full((3,), 2.0))
    torch.testing.assert_close(parameter.grad, torch.ones(3))


# Numbers in scalar tensors


def by_count(count: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    count += 1
    return x * 2 if count.item() > 3 else x + count.item()


def test_a_decision_by_a_count_is_guarded() -> None:
    run = compiled(by_count, fullgraph=True)
    mine, other = torch.tensor(0.0), torch.tensor(0.0)
    x = torch.ones(2)
    for _ in range(7):
        torch.testing.assert_close(run(mine, x), by_count(other, x))
    assert mine == other
    assert capture.report(run).graph_count == 2


def test_a_count_that_shares_memory_is_not_told_before_the_run() -> None:
    def program(count: torch.Tensor, same: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        same += 1
        count += 1
        return x * 2 if count.item() > 1 else x + 1

    run = compiled(program)
    x = torch.ones(2)
    apart = torch.tensor(0.0), torch.tensor(0.0)
    torch.testing.assert_close(run(*apart, x), x + 1)
    count = torch.tensor(0.0)
    torch.testing.assert_close(run(count, count.detach(), x), x * 2)


def test_a_count_written_by_other_means_is_not_told_before_the_run() -> None:
    def program(count: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        count.mul_(x.sum())
        return x * 2 if count.item() > 3 else x[:1]

    run = compiled(program)
    for value in (1.0, 2.0, 3.0):
        x = torch.full((2,), value)
        torch.testing.assert_close(run(torch.tensor(1.0), x), program(torch.tensor(1.0), x))
    assert any("only the run can tell" in b.reason for b in capture.report(run).breaks)


def test_a_view_of_a_count_is_written() -> None:
    def program(count: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        count.view(1).add_(5)
        return x * 2 if count.item() > 3 else x + 1

    run = compiled(program)
    x = torch.ones(2)
    torch.testing.assert_close(run(torch.tensor(0.0), x), x * 2)


@pytest.mark.parametrize("among", [{2: "two", 5: "five"}, {2, 5}, Counter([2, 5.0])])
def test_a_count_among_keys_is_told_from_each(among: Any) -> None:
    """As a scheduler asks whether an epoch is a milestone: none of the others is captured for itself."""

    class Schedule:
        epoch = 0

    schedule = Schedule()

    def program(x: torch.Tensor) -> torch.Tensor:
        schedule.epoch += 1
        return x * 2 if schedule.epoch in among else x + schedule.epoch

    run = compiled(program, fullgraph=True)
    x = torch.ones(2)
    for epoch in range(1, 13):
        torch.testing.assert_close(run(x), x * 2 if epoch in (2, 5) else x + epoch)
    # The first epoch; each milestone; all others.
    assert capture.report(run).frames == 4


# Whole steps


def test_parts_that_another_compiler_keeps_for_itself() -> None:
    """As torch's own does to all optimizers, once it is at work."""

    class Descent(torch.optim.SGD):
        _init_group = torch.compiler.disable(torch.optim.SGD._init_group)  # noqa: TID251

    parameter = nn.Parameter(torch.ones(3))
    parameter.grad = torch.ones(3)
    optimizer = Descent([parameter], lr=0.5)
    compiled(optimizer.step, fullgraph=True)()
    torch.testing.assert_close(parameter.detach(), torch.full((3,), 0.5))


def test_sorted_by_device_and_dtype() -> None:
    def step(optimizer: torch.optim.Optimizer) -> None:
        optimizer.step()

    def trained(run: Any) -> list[torch.Tensor]:
        parameters = [
            nn.Parameter(torch.ones(3, dtype=dtype)) for dtype in (torch.float32, torch.float64, torch.float32)
        ]
        optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=True)
        for _ in range(3):
            for number, parameter in enumerate(parameters):
                parameter.grad = torch.full_like(parameter, number + 1.0)
            run(optimizer)
        return parameters

    run = compiled(step, fullgraph=True)
    torch.testing.assert_close(trained(run), trained(step), rtol=0, atol=0)


def test_hooks_and_closures_of_a_step() -> None:
    seen: list[str] = []

    def trained(wrap: Any) -> torch.Tensor:
        parameter = nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([parameter], lr=0.1)
        optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
        optimizer.register_step_post_hook(lambda *_: seen.append("after"))
        parameter.grad = torch.ones(3)
        step = wrap(optimizer.step)
        step()
        step()
        return parameter

    expected = trained(lambda step: step)
    told, seen[:] = list(seen), []
    torch.testing.assert_close(trained(compiled), expected)
    assert seen == told == ["before", "after"] * 2


def test_gradients_flow_through_a_differentiable_step() -> None:
    def program(start: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        moved = start.clone()
        momentum = torch.zeros_like(moved)
        sgd(
            [moved], [gradient], [momentum], foreach=False, weight_decay=0.1, momentum=0.9, lr=0.1, dampening=0.0,
            nesterov=True, maximize=False,
        )  # fmt: skip
        return moved.pow(2).sum()

    found = []
    for run in (program, compiled(program, fullgraph=True)):
        start, gradient = (torch.arange(3.0, requires_grad=True) for _ in range(2))
        found.append(torch.autograd.grad(run(start, gradient), (start, gradient)))
    torch.testing.assert_close(found[0], found[1])


def test_parameters_of_a_model_that_the_optimizer_tells_first() -> None:
    """The model is bound, the optimizer is read anew at each call: a parameter is not the model, nor is the model another one."""
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)

    def program() -> list[torch.Tensor]:
        optimizer.step()
        return [parameter * 2 for parameter in model.parameters()]

    run = compiled(program, fullgraph=True)
    for _ in range(3):
        before = [parameter.detach().clone() for parameter in model.parameters()]
        torch.testing.assert_close(run(), [(each - 0.5) * 2 for each in before])
    report = capture.report(run)
    assert (report.frames, report.skipped) == (1, [])
    optimizer.param_groups[0]["params"].reverse()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    torch.testing.assert_close(run(), [(each - 0.5) * 2 for each in before])
