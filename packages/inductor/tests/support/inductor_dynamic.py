"""Traces functions on fake tensors with symbolic sizes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from inductor_schedules import run
from inductor_tracing import Tracer, read_back
from torch import fx

from inductor import Options, Program, lower
from inductor.schedule import Schedule, schedule
from symshapes import DimPolicy, FakeMode, ShapeEnv


def trace_dynamic(function: Callable[..., Any], *inputs: torch.Tensor) -> tuple[fx.GraphModule, list[Any]]:
    """The ATen graph of a function (returning a tuple of tensors) with every size of its inputs symbolic, and the fakes."""
    mode = FakeMode(ShapeEnv())
    fakes = [mode.from_tensor(t, source=f"a{at}", policy=DimPolicy.DYNAMIC) for at, t in enumerate(inputs)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fx has an opinion on SymInts as arguments
        with torch.no_grad(), mode, Tracer(fakes) as tracer:
            result = function(*fakes)
        tracer.graph.output(tuple(tracer.node_of(v) for v in result))
    return fx.GraphModule(tracer.root, tracer.graph), fakes


def check_dynamic(
    function: Callable[..., Any],
    example: tuple[torch.Tensor, ...],
    *others: tuple[torch.Tensor, ...],
    options: Options | None = None,
    **tolerance: float,
) -> Schedule:
    """Assert that one schedule serves inputs of several sizes."""
    graph, fakes = trace_dynamic(function, *example)
    program: Program = lower(graph, fakes)
    read_back(program)
    plan = schedule(program, options)
    assert program.symbols
    for inputs in (example, *others):
        for got, want in zip(run(plan, *inputs), function(*inputs), strict=True):
            torch.testing.assert_close(got, want, **tolerance)
            assert got.stride() == want.stride() or got.numel() == 0
    return plan
