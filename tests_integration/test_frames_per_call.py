"""Python frames between the user's call and the kernels: generated code, and of that at most two or four.

Frames are counted by the interpreter: every one that begins while the thread is profiled, and from 3.12 on once more by a
monitoring tool. Neither follows lines, so that captures are those of any call: no graph may be made while counting.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable
from types import CodeType
from typing import Any

import pytest
import torch

import meta
from meta.backends import inductor
from symshapes import is_generated

INFERENCE, TRAINING = 2, 4


def profiled(call: Callable[[], Any]) -> list[CodeType]:
    """The code of every frame that begins in `call`."""
    codes: list[CodeType] = []

    def begun(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            codes.append(frame.f_code)

    sys.setprofile(begun)
    try:
        call()
    finally:
        sys.setprofile(None)
    return codes


def monitored(call: Callable[[], Any]) -> list[CodeType]:
    """The same, counted by another part of the interpreter."""
    codes: list[CodeType] = []
    monitoring = sys.monitoring  # type: ignore[attr-defined]
    tool, events = 4, monitoring.events  # neither a debugger's number nor coverage's
    started = events.PY_START | events.PY_RESUME
    monitoring.use_tool_id(tool, "frames")
    monitoring.register_callback(tool, events.PY_START, lambda code, _: codes.append(code))
    monitoring.register_callback(tool, events.PY_RESUME, lambda code, _: codes.append(code))
    monitoring.set_events(tool, started)
    try:
        call()
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)
    return [code for code in codes if code.co_filename != __file__ or code.co_name != "profiled"]


COUNTERS = [profiled, monitored] if sys.version_info >= (3, 12) else [profiled]


class Product(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w


def detached(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w.detach()


def two(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x @ w, (x * 2) @ w.T


def chain(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x @ w
    return y, y @ w


def written(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x @ w


def viewed(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        parts = x.split(2)
    return *parts, (x @ w).t()


def drawn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(torch.fft.fft(x @ w).abs())


def counted(
    counter: Callable[..., list[CodeType]], fn: Any, run: Callable[[Any], Any], dynamic: bool | None = None
) -> list[CodeType]:
    """What begins in a warm `run` of the compiled function beyond what begins where it is plain eager; all generated."""
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return inductor(graph, inputs)

    compiled = meta.compile(fn, backend=backend, fullgraph=True, dynamic=dynamic)
    for _ in range(3):  # the first call checks layouts
        run(compiled)
        run(fn)
    known = len(graphs)
    gc.disable()  # a collection calls back whoever asked for it, as hypothesis does
    try:
        plain = counter(lambda: run(fn))
        codes = counter(lambda: run(compiled))
    finally:
        gc.enable()
    assert known == len(graphs) == 1

    def told(code: CodeType) -> tuple[str, str]:
        return code.co_filename, code.co_name

    more = Counter(map(told, codes)) - Counter(map(told, plain))
    ours = [code for code in codes if told(code) in more and code.co_filename != __file__]
    assert sum(more.values()) == len(ours)
    assert all(is_generated(code) for code in ours), more
    return ours


@pytest.mark.parametrize("counter", COUNTERS)
def test_inference(counter: Any) -> None:
    x, w = torch.randn(4, 8), torch.randn(8, 8)
    module = Product()

    def call(fn: Any, *args: torch.Tensor) -> None:
        fn(*args)

    def without_grad(fn: Any, *args: torch.Tensor) -> None:
        with torch.no_grad():
            fn(*args)

    assert 0 < len(counted(counter, product, lambda fn: without_grad(fn, x, w))) <= INFERENCE
    assert len(counted(counter, product, lambda fn: call(fn, x, w))) <= INFERENCE
    assert len(counted(counter, module, lambda fn: without_grad(fn, x))) <= INFERENCE
    assert len(counted(counter, Product().requires_grad_(False), lambda fn: call(fn, x))) <= INFERENCE
    assert len(counted(counter, detached, lambda fn: call(fn, x, w.clone().requires_grad_()))) <= INFERENCE


@pytest.mark.parametrize("counter", COUNTERS)
def test_a_training_step(counter: Any) -> None:
    x, w = torch.randn(4, 8), torch.randn(8, 8, requires_grad=True)
    tangent = torch.randn(4, 8)

    def step(fn: Any, *args: torch.Tensor) -> None:
        fn(*args).backward(tangent)

    def gradient(fn: Any, *args: torch.Tensor) -> None:
        torch.autograd.grad(fn(*args).sum(), w)

    assert 0 < len(counted(counter, product, lambda fn: step(fn, x, w))) <= TRAINING
    assert len(counted(counter, product, lambda fn: gradient(fn, x, w))) <= TRAINING
    assert len(counted(counter, product, lambda fn: step(fn, x.clone().requires_grad_(), w))) <= TRAINING
    assert len(counted(counter, Product(), lambda fn: step(fn, x))) <= TRAINING


def test_what_else_a_call_does_is_generated_too() -> None:
    """Several backwards, writes to inputs, autocast, symbolic sizes, views, random numbers, operators of no kernel's."""
    x, w = torch.randn(4, 8), torch.randn(8, 8, requires_grad=True)

    def step(fn: Any) -> None:
        sum(result.sum() for result in fn(x, w)).backward()

    def step_of_one(fn: Any) -> None:
        fn(x, w).sum().backward()

    def autocast(fn: Any) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = fn(x, w)
        result.sum().backward()

    counted(profiled, two, step)
    counted(profiled, chain, step)
    counted(profiled, viewed, lambda fn: fn(x, w)[-1].sum().backward())
    counted(profiled, drawn, step_of_one)
    counted(profiled, product, autocast)
    counted(profiled, product, step_of_one, dynamic=True)
    counted(profiled, written, lambda fn: fn(x, w.detach()))
    counted(profiled, written, lambda fn: fn(x, w).sum().backward())
