"""Results in the memory of the inputs whose new content they are: where that is safe, and that nothing else is overwritten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from inductor_schedules import launches, run
from inductor_tracing import read_back, trace

from inductor import Options, Schedule, lower, schedule

X = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
Y = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
AT = torch.tensor([4, 1])


def written(
    function: Callable[..., Any], *inputs: torch.Tensor, writes: dict[int, int], options: Options | None = None
) -> Schedule:
    """The schedule of a function whose results are new contents of inputs, by position: run, and compared with the function."""
    given = [value.clone(memory_format=torch.preserve_format) for value in inputs]
    given = [_like(copy, value) for copy, value in zip(given, inputs, strict=True)]
    graph, expected = trace(function, *inputs)
    graph.graph.output_node().meta["writes"] = writes
    plan = schedule(lower(graph, inputs), options)
    read_back(plan.program)
    results = run(plan, *given)
    for at, (got, want) in enumerate(zip(results, expected, strict=True)):
        torch.testing.assert_close(got, want)
        if at in writes and want.numel():
            assert (at in plan.memory.written) == (got.data_ptr() == given[writes[at]].data_ptr())
    for place, (value, before) in enumerate(zip(given, inputs, strict=True)):
        result = next((at for at, name in plan.memory.written.items() if writes[at] == place), None)
        torch.testing.assert_close(value, before if result is None else expected[result])
    return plan


def _like(value: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The value with the strides of `other`, in memory of its own that holds ones besides."""
    if other.stride(0) == 0:
        return value[:1].clone().expand(other.shape)
    extent = 1 + sum((n - 1) * s for n, s in zip(other.shape, other.stride(), strict=True))
    return torch.ones(extent, dtype=value.dtype).as_strided(other.shape, other.stride()).copy_(value)


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x: (x + 1,), (X,)),
        (lambda x: (x + 1,), (X.t(),)),
        (lambda x: (x + 1,), (X[:, 2:5],)),
        (lambda x: (x + 1,), (X[::2, ::3],)),
        (lambda x: (x * x.sum(),), (X,)),
        (lambda x: (x.softmax(-1),), (X,)),
        (lambda x: (torch.zeros_like(x),), (X,)),
        (lambda x, y: (y.mm(y.t())[:, :6] + 0,), (X[:, :6], Y)),
        (lambda x, y: (x.index_copy(0, AT, y[:2]),), (X, Y)),
        (lambda x, y: (x.index_copy(0, AT, y[:2, :4]),), (X[:, 2:6], Y)),
        (lambda x, y: (x.index_add(0, AT, y[:2]),), (X, Y)),
        (lambda x, y: (x.index_put((AT,), y[:2]).index_put((AT + 1,), y[2:4]),), (X, Y)),
        (lambda x, y: ((x * 2).index_put((AT,), y[:2]),), (X, Y)),
        (lambda x, y: (x.slice_scatter(y[:2], 0, 1, 3),), (X, Y)),
        (lambda x, y: (x.slice_scatter(x[1:3] * 2, 0, 1, 3).select_scatter(y[0], 0, 5),), (X, Y)),
        (lambda x, y: (x.slice_scatter(y[:3], 0, 0, 6, 2),), (X, Y)),
        (lambda x, y: (torch.mm(y, y.t()),), (X[:, :6].contiguous(), Y)),
    ],
)
def test_computed_in_place(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> None:
    plan = written(function, *inputs, writes={0: 0})
    assert plan.memory.written == {0: "arg0"}, str(plan)


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x: (x.flip(0),), (X,)),  # of other elements of the same kernel
        (lambda x: (x + x.flip(0),), (X,)),
        (lambda x: (x.slice_scatter(x[:3] * 2, 0, 2, 5),), (X,)),
        (lambda x: (x + 1, x), (X,)),  # the old content is given out as well
        (lambda x: (x + 1, x[0]), (X,)),
        (lambda x: (x.double(),), (X,)),
        (lambda x: (x[0] + 1,), (X,)),
        (lambda x: (x + 1,), (X[0].expand(6, 8),)),
        (lambda x: (x + 1,), (torch.ones(0, 3),)),
    ],
)
def test_not_in_place(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> None:
    assert not written(function, *inputs, writes={0: 0}).memory.written


def test_only_elements_that_change_are_touched() -> None:
    plan = written(lambda x, y: (x.index_copy(0, AT, y[:2]),), X, Y, writes={0: 0})
    (step,) = plan.steps
    assert launches(plan) == 1 and plan.memory.adopted == {0: {"buf0": "arg0"}}
    plan = written(lambda x, y: (x.select_scatter(y[0], 0, 3),), X, Y, writes={0: 0})
    (step,) = plan.steps
    assert step.kernel.outer_sizes == (8,)  # type: ignore[union-attr]


def test_the_same_result_twice() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        return y, y

    assert not written(f, X, writes={0: 0}).memory.written


def test_two_that_change_places() -> None:
    plan = written(lambda x, y: (y * 1, x * 1), X, Y, writes={0: 0, 1: 1})
    assert plan.memory.written  # of one both, or one of two, as they are fused


@pytest.mark.parametrize("fuse", [False, True])
def test_the_old_content_is_read_first(fuse: bool) -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + 1, torch.roll(x, 1, 0), x.sum(0), torch.mm(x, x.t())

    plan = written(f, X, writes={0: 0}, options=Options(fuse=fuse))
    assert plan.memory.written or fuse


def test_what_needs_the_new_content_reads_it_there() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        new = x.index_copy(0, AT, y[:2])
        return new, torch.mm(new, new.t()), new.sum(0), new.flip(0)

    assert written(f, X, Y, writes={0: 0}).memory.written


def test_where_the_new_content_waits_for_a_reader_of_the_old_one() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        new = x + torch.mm(x, x.t()).sum()
        return new, torch.mm(new, new.t()) + torch.mm(x, new.t())

    assert not written(f, X, writes={0: 0}).memory.written  # x is read with what is computed of the new content


def test_the_switch() -> None:
    assert not written(lambda x: (x + 1,), X, writes={0: 0}, options=Options(inplace=False)).memory.written
