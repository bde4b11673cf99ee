"""Positions that a graph is given, checked before its large kernels run."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from inductor_schedules import run
from inductor_tracing import trace
from torch import Tensor
from torch.nn import functional as F

from inductor import Options, Schedule, lower, schedule
from inductor.ir.body import checks_positions
from inductor.schedule.schedule import KernelStep
from inductor.traits import DeviceTraits

positions = importlib.import_module("inductor.schedule.positions")
TRAITS = DeviceTraits(raises_later=True)
TABLE, PLACES = torch.randn(500, 32), torch.randint(0, 500, (4, 11))
LOGITS, CLASSES = torch.randn(60, 700), torch.randint(0, 700, (60,))


@pytest.fixture(autouse=True)
def small_graphs_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "LARGE", 0)


def planned(
    function: Callable[..., Any], *inputs: Tensor, options: Options | None = None
) -> tuple[Schedule, list[Any]]:
    graph, expected = trace(function, *inputs)
    return schedule(lower(graph, inputs), options or Options(), traits=lambda _: TRAITS), expected


def checking(plan: Schedule) -> list[int]:
    """Which of the steps check positions."""
    steps = enumerate(plan.steps)
    return [at for at, step in steps if isinstance(step, KernelStep) and checks_positions(step.kernel.body.ops)]


def embedded(places: Tensor, table: Tensor) -> Tensor:
    return F.layer_norm(F.embedding(places, table), (32,))


def wrapped(places: Tensor, table: Tensor) -> Tensor:
    return table[places - 3].softmax(-1) + table[places - 3]


def loss(logits: Tensor, classes: Tensor) -> Tensor:
    return F.cross_entropy(logits, classes)


PROGRAMS = {
    "embedding": (embedded, (PLACES, TABLE)),
    "places from the end": (wrapped, (PLACES, TABLE)),
    "classes, by way of a loop that leaves some out": (loss, (LOGITS, torch.where(CLASSES < 9, -100, CLASSES))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_first_step_checks_and_no_other(name: str) -> None:
    function, inputs = PROGRAMS[name]
    plan, expected = planned(function, *inputs)
    assert checking(plan) == [0], str(plan)
    assert len(plan.steps) == len(planned(function, *inputs, options=Options(index_checks="async"))[0].steps) + 1
    torch.testing.assert_close(run(plan, *inputs), tuple(expected))


@pytest.mark.parametrize("bad", [500, -501])
def test_what_is_out_of_range_is_raised(bad: int) -> None:
    places = PLACES.clone()
    places[2, 3] = bad
    plan, _ = planned(wrapped, PLACES, TABLE)
    with pytest.raises(IndexError):
        run(plan, places + 3, TABLE, check=False)


def test_what_is_computed_is_checked_where_it_is_used() -> None:
    plan, expected = planned(lambda x, table: table[x.argmax(-1)].exp(), LOGITS[:, :500].contiguous(), TABLE)
    assert len(plan.steps) == 2 and checking(plan) == [1], str(plan)
    torch.testing.assert_close(run(plan, LOGITS[:, :500].contiguous(), TABLE), tuple(expected))


def test_many_positions_are_checked_where_they_are_used() -> None:
    places = torch.randint(0, 700, (60, 400))
    plan, _ = planned(lambda x, places: x.gather(1, places), LOGITS, places)
    assert len(plan.steps) == 1 and checking(plan) == [0]


def test_a_small_graph_has_nothing_to_run_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "LARGE", 1 << 25)
    assert len(planned(embedded, PLACES, TABLE)[0].steps) == 1


def test_the_same_positions_are_checked_once() -> None:
    plan, expected = planned(lambda p, a, b: (a[p].sum(0), b[p].softmax(-1)), PLACES, TABLE, TABLE.exp())
    assert checking(plan) == [0], str(plan)
    torch.testing.assert_close(run(plan, PLACES, TABLE, TABLE.exp()), tuple(expected))


@pytest.mark.parametrize(
    ("rows", "dtype"), [(128, torch.int8), (129, torch.int16), (1 << 15, torch.int16), ((1 << 15) + 1, torch.int32)]
)
def test_positions_lie_in_the_narrowest_integers_that_hold_them(rows: int, dtype: torch.dtype) -> None:
    table, places = torch.randn(rows, 64), torch.tensor([0, rows - 1, -1, -rows, 5] * 8)
    plan, expected = planned(lambda p, a: a[p].cumsum(0), places, table)
    assert {buffer.dtype for name, buffer in plan.program.buffers.items() if name.startswith("positions")} == {dtype}
    torch.testing.assert_close(run(plan, places, table), tuple(expected))
    with pytest.raises(IndexError):
        run(plan, places - rows, table, check=False)
