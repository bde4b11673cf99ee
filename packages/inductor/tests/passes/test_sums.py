"""Sums at computed places that start from what is added to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import aotgrad
from inductor.passes import start_from_addends
from inductor.traits import DeviceTraits
from symshapes import DimPolicy, FakeMode, ShapeEnv

aten = torch.ops.aten

NODES, EDGES, COLUMNS = 5, 12, 3


def whole(*size: int) -> Tensor:
    """Numbers whose sums halves hold."""
    return torch.randint(-8, 8, size).half()


X, V = whole(NODES, COLUMNS), whole(EDGES, COLUMNS)
AT = torch.randint(NODES, (EDGES,))
PLACES = AT[:, None].expand(EDGES, COLUMNS)
WIDE = whole(NODES, 2 * COLUMNS)


def unordered(device: torch.device) -> DeviceTraits:
    return DeviceTraits()


def started(program: Callable[..., Any], *inputs: Tensor, of: Any = unordered, policy: Any = DimPolicy.STATIC) -> int:
    """How many sums of the program start from what is added to them; the results are eager's."""
    mode = FakeMode(ShapeEnv())
    fakes = [mode.from_tensor(t, source=f"x{i}", policy=[policy] * t.dim()) for i, t in enumerate(inputs)]
    module = aotgrad.trace_inference(program, fakes).module
    before = len(module.graph.find_nodes(op="call_function", target=aten.add.Tensor))
    count = start_from_addends(module.graph, of)
    assert before - len(module.graph.find_nodes(op="call_function", target=aten.add.Tensor)) == count
    module.graph.lint()
    module.recompile()
    for mine, theirs in zip(module(*inputs), program(*inputs), strict=True):
        torch.testing.assert_close(mine, theirs)
        assert mine.stride() == theirs.stride()
    return count


def zeros(x: Tensor) -> Tensor:
    return torch.zeros(NODES, COLUMNS, dtype=x.dtype)


STARTED: dict[str, Callable[..., Any]] = {
    "index_add": lambda x, v, at, _: (x + zeros(x).index_add(0, at, v),),
    "scaled": lambda x, v, at, _: (x + zeros(x).index_add(0, at, v, alpha=3),),
    "added to": lambda x, v, at, _: (zeros(x).index_add(0, at, v) + x.sin(),),
    "scatter_add": lambda x, v, _, places: (x + zeros(x).scatter_add(0, places, v),),
    "scatter_reduce": lambda x, v, _, places: (x + zeros(x).scatter_reduce(0, places, v, "sum"),),
    "index_put": lambda x, v, at, _: (x + zeros(x).index_put((at,), v, accumulate=True),),
}


@pytest.mark.parametrize("name", STARTED)
def test_a_sum_starts_from_what_is_added(name: str) -> None:
    assert started(STARTED[name], X, V, AT, PLACES) == 1


def test_it_starts_from_a_part_of_a_tensor() -> None:
    assert started(lambda w, v, at: (w[:, COLUMNS:] + zeros(w).index_add(0, at, v),), WIDE, V, AT) == 1


STAYS: dict[str, Callable[..., Any]] = {
    "two sums, which one kernel may compute": lambda x, v, at, _: (
        zeros(x).index_add(0, at, v) + zeros(x).index_add(0, at, v * 2),
    ),
    "one that is read besides": lambda x, v, at, _: ((s := zeros(x).index_add(0, at, v)) + x, s * 2),
    "what is added is scaled": lambda x, v, at, _: (torch.add(zeros(x).index_add(0, at, v), x, alpha=2),),
    "ones": lambda x, v, at, _: (x + (zeros(x) + 1).index_add(0, at, v),),
    "the largest": lambda x, v, _, places: (x + zeros(x).scatter_reduce(0, places, v, "amax"),),
    "without what is there": lambda x, v, _, places: (
        x + zeros(x).scatter_reduce(0, places, v, "sum", include_self=False),
    ),
    "written and not added": lambda x, v, at, _: (x + zeros(x).index_put((at[:1],), v[:1]),),
    "of another shape": lambda x, v, at, _: (x[:1] + zeros(x).index_add(0, at, v),),
    "wider numbers": lambda x, v, at, _: (x.float() + zeros(x.float()).index_add(0, at, v.float()),),
    "of another dtype": lambda x, v, at, _: (x.float() + zeros(x).index_add(0, at, v),),
    "in another order": lambda x, v, at, _: (x.t().contiguous().t() + zeros(x).index_add(0, at, v),),
}


@pytest.mark.parametrize("name", STAYS)
def test_others_stay(name: str) -> None:
    assert started(STAYS[name], X, V, AT, PLACES) == 0


def test_bits_are_kept_where_there_are_any() -> None:
    def ordered(device: torch.device) -> DeviceTraits:
        return DeviceTraits(orders_writes=True)

    def adding(device: torch.device) -> DeviceTraits:
        return DeviceTraits(accumulates=(torch.float16, torch.float32))

    assert started(STARTED["index_add"], X, V, AT, PLACES, of=ordered) == 0
    assert started(STARTED["index_add"], X, V, AT, PLACES, of=adding) == 0


def test_a_gradient_joins_what_it_is_added_to() -> None:
    """What a graph's edges bring back to its nodes, and what comes to these directly."""

    def run(x: Tensor, v: Tensor, at: Tensor) -> tuple[Tensor]:
        return ((x * 3 + (x[at] * v).sum(0)).sin(),)

    module = aotgrad.trace_joint(run, [X.clone().requires_grad_(), V, AT]).module
    assert start_from_addends(module.graph, unordered) == 1
