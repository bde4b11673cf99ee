"""Values of which few elements are read at computed places: those elements alone are computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from inductor_tracing import check, trace
from torch import Tensor
from torch.nn import functional as F

from inductor.ir.program import Program
from inductor.lower import lower
from inductor.traits import DeviceTraits

ROWS, COLUMNS = 6, 40
X = torch.randn(ROWS, COLUMNS)
TARGETS = torch.randint(COLUMNS, (ROWS,))


def largest(program: Program) -> int:
    """Elements of the largest buffer that the program makes."""
    made = (buffer for name, buffer in program.buffers.items() if name not in program.inputs)
    return max(int(torch.Size(map(int, buffer.size)).numel()) for buffer in made)


PROGRAMS: dict[str, tuple[Callable[..., Any], list[Tensor], bool]] = {
    "cross entropy": (lambda x, y: (F.cross_entropy(x, y, reduction="none"),), [X, TARGETS], True),
    "gather": (lambda x, y: (torch.log_softmax(x, -1).gather(1, y[:, None]),), [X, TARGETS], True),
    "index": (lambda x, y: ((x.sin() * x.exp() + 1)[y[:2] % ROWS, y[:2]],), [X, TARGETS], True),
    "index_select": (lambda x, y: ((x.sin() * x.exp() + 1).index_select(1, y[:3]),), [X, TARGETS], True),
    "many": (lambda x, y: ((x.sin() * x.exp() + 1).index_select(1, y),), [X, TARGETS.repeat(2)], False),
    "also a result": (lambda x, y: (z := torch.softmax(x, -1), z.gather(1, y[:, None])), [X, TARGETS], False),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_few_are_computed_where_they_are_read(name: str) -> None:
    fn, inputs, few = PROGRAMS[name]
    program = check(fn, *inputs)
    assert (largest(program) < X.numel()) is few


def test_a_place_out_of_range_is_an_error() -> None:
    with pytest.raises((IndexError, RuntimeError)):
        check(PROGRAMS["gather"][0], X, TARGETS + COLUMNS)


def rows_made(function: Callable[..., Any], *inputs: Tensor, kept: float, rows: int = ROWS) -> bool:
    """Whether all rows are computed first, on a device where an element that is kept costs that much."""
    graph, _ = trace(function, *inputs)
    program = lower(graph, inputs, traits=lambda device: DeviceTraits(kept=kept))
    made = [tuple(map(int, each.size)) for name, each in program.buffers.items() if name not in program.inputs]
    return (rows, COLUMNS) in made


def test_a_divisor_for_each_row_is_no_reason_to_compute_all_rows_first() -> None:
    rows, divisors = torch.randint(ROWS, (4 * ROWS,)), torch.rand(ROWS) + 1

    def divided(x: Tensor, d: Tensor, y: Tensor) -> tuple[Tensor]:
        return ((x / d[:, None])[y],)

    check(divided, X, divisors, rows)
    assert not rows_made(divided, X, divisors, rows, kept=8.0)
    assert rows_made(lambda x, z, y: ((x / z)[y],), X, X.exp(), rows, kept=8.0)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, d, y: ((x * d[:, None] + 1)[y],),
        lambda x, d, y: (F.interpolate((x * d[:, None])[None, None], scale_factor=4, mode="bilinear"),),
    ],
)
def test_but_it_is_where_what_is_kept_costs_little(function: Callable[..., Any]) -> None:
    """A kernel for the CPU does each operation and each load again for every time that an element is read."""
    inputs = X, torch.rand(ROWS) + 1, torch.randint(ROWS, (4 * ROWS,))
    check(function, *inputs)
    assert rows_made(function, *inputs, kept=2.0)


def test_rows_picked_many_times_are_picked_by_each_that_reads_them() -> None:
    """And not put in memory, which takes more than what they are picked of."""

    def run(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        picked = x[y]
        return picked.sum(0), picked.exp().sum(1)

    inputs = X, torch.randint(ROWS, (8 * ROWS,))
    check(run, *inputs)
    assert not rows_made(run, *inputs, kept=8.0, rows=8 * ROWS)
    assert rows_made(run, *inputs, kept=2.0, rows=8 * ROWS)
