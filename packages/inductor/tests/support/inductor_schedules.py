"""Schedules of functions for tests, run on the interpreting backend and compared with eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from inductor_tracing import default_tolerance, read_back, trace

from inductor import Options, ReferenceBackend, Schedule, lower, schedule
from inductor.codegen.module import LayoutFitter, load_call
from inductor.codegen.wrapper import generate
from inductor.traits import DeviceTraits


def scheduled(function: Callable[..., Any], *inputs: Any, options: Options | None = None) -> Schedule:
    """The schedule of a function of tensors."""
    graph, _ = trace(function, *inputs)
    return schedule(lower(graph, inputs), options)


def run(plan: Schedule, *inputs: Any, check: bool = True) -> tuple[Any, ...]:
    """Run a schedule's wrapper on interpreted kernels."""
    source = generate(plan, check=check, traits=lambda _: DeviceTraits())
    backend = ReferenceBackend()
    kernels = backend.build("", [backend.emit(kernel) for kernel in plan.kernels])
    fitter = LayoutFitter()
    constants = {variable: tensor for variable, (_, tensor) in source.constants.items()}
    call = load_call(source.text, "<test wrapper>", {**kernels, **constants, **source.objects, "_fit": fitter})
    result = call(list(inputs))
    assert not fitter.misfits
    return result


def check_schedule(
    function: Callable[..., Any], *inputs: Any, options: Options | None = None, **tolerance: float
) -> Schedule:
    """Assert that the scheduled function gives eager's results, dtypes and strides, and leaves its inputs alone."""
    graph, expected = trace(function, *inputs)
    before = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    plan = schedule(lower(graph, inputs), options)
    read_back(plan.program)
    actual = run(plan, *inputs)
    assert len(actual) == len(expected)
    for got, want in zip(actual, expected, strict=True):
        if isinstance(want, torch.Tensor):
            torch.testing.assert_close(got, want, equal_nan=True, **(tolerance or default_tolerance(want.dtype)))
            strides = zip(got.size(), got.stride(), want.stride(), strict=True)
            assert not want.numel() or all(a == b or n == 1 for n, a, b in strides), (got.stride(), want.stride())
        else:
            assert got == want
    for value, old in zip(inputs, before, strict=True):
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(value, old, rtol=0, atol=0, equal_nan=True)
    return plan


def launches(plan: Schedule) -> int:
    """Kernel calls in a run."""
    return sum(hasattr(step, "kernel") for step in plan.steps)
