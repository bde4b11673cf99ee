"""Handlers of signals that come between compiling and running run as in the program, and are no part of what is compiled."""

from __future__ import annotations

import signal
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import capture
from capture import _native

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no signals of the program's own here")
told_apart = pytest.mark.skipif(sys.version_info < (3, 12), reason="its handlers are no other's to see")


@contextmanager
def handling(handler: Callable[..., Any]) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        yield
        assert signal.getsignal(signal.SIGUSR1) is handler
    finally:
        signal.signal(signal.SIGUSR1, before)


class DispatchMode(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError("a mode of the compiler's saw it")


class FunctionMode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError("a mode of the compiler's saw it")


def interrupted(module: Any, inputs: Any) -> Any:
    with torch.no_grad(), DispatchMode(), FunctionMode():
        signal.raise_signal(signal.SIGUSR1)
    return module


@told_apart
def test_a_handler_within_a_capture_computes_for_real() -> None:
    weight = torch.ones(2, requires_grad=True)
    inner = capture.compile(lambda x: x * 3)

    def handler(*_: Any) -> None:
        (inner(weight) * 2).sum().backward()
        assert signal.getsignal(signal.SIGUSR1) is handler

    with handling(handler):
        compiled = capture.compile(lambda x: x + 1, interrupted)
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    assert weight.grad is not None and weight.grad.tolist() == [6, 6]


@told_apart
def test_a_handler_within_a_capture_of_a_transform_is_outside_of_it() -> None:
    weight = torch.ones(2, requires_grad=True)

    def handler(*_: Any) -> None:
        (weight * 2).sum().backward()

    def backend(module: Any, inputs: Any) -> Any:
        def interrupts(x: torch.Tensor) -> torch.Tensor:
            signal.raise_signal(signal.SIGUSR1)
            return x.sin().sum()

        assert torch.func.grad(interrupts)(torch.zeros(2)).tolist() == [1, 1]
        assert torch.func.vmap(interrupts)(torch.zeros(2, 2)).tolist() == [0, 0]
        return module

    with handling(handler):
        assert capture.compile(lambda x: x + 1, backend)(torch.ones(2)).tolist() == [2, 2]
    assert weight.grad is not None and weight.grad.tolist() == [4, 4]


@told_apart
def test_an_exception_of_a_handler_leaves_all_as_it_was() -> None:
    def handler(*_: Any) -> None:
        raise TimeoutError

    with handling(handler):
        with pytest.raises(TimeoutError):
            capture.compile(lambda x: x + 1, interrupted)(torch.ones(2))
        assert signal.getsignal(signal.SIGUSR1) is handler
    assert torch.is_grad_enabled() and torch.ones(2).add(1).tolist() == [2, 2]


@told_apart
def test_a_handler_that_sets_another_one() -> None:
    def second(*_: Any) -> None: ...

    def first(*_: Any) -> None:
        signal.signal(signal.SIGUSR1, second)

    before = signal.signal(signal.SIGUSR1, first)
    try:
        capture.compile(lambda x: x + 1, interrupted)(torch.ones(2))
        assert signal.getsignal(signal.SIGUSR1) is second
    finally:
        signal.signal(signal.SIGUSR1, before)


class State:
    steps = 0


@told_apart
@pytest.mark.parametrize("fullgraph", [False, True])
def test_what_a_handler_changes_within_a_capture_is_no_fault(fullgraph: bool) -> None:
    def handler(*_: Any) -> None:
        State.steps += 1

    def function(x: torch.Tensor) -> torch.Tensor:
        return x + State.steps

    State.steps = 0
    with handling(handler), warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = capture.compile(function, interrupted)
        assert compiled(torch.zeros(2)).tolist() == [1, 1]


@pytest.mark.parametrize("kind", ["function", "method", "rest"])
def test_a_handler_is_not_captured(kind: str) -> None:
    seen: list[int] = []

    class Method:
        def handler(self, number: int, frame: FrameType | None) -> None:
            seen.append(number + 0)

    def function(number: int, frame: FrameType | None = None) -> None:
        seen.append(number + 0)

    def rest(*given: Any) -> None:
        seen.append(given[0] + 0)

    handler = {"function": function, "method": Method().handler, "rest": rest}[kind]

    def program(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        signal.raise_signal(signal.SIGUSR1)
        return x + 1

    with handling(handler):
        compiled = capture.compile(program)
        for _ in range(2):
            assert compiled(torch.zeros(2)).tolist() == [2, 2]
    assert seen == [signal.SIGUSR1] * 2
    assert not _native.entries(handler.__code__)


def test_what_is_not_called_for_a_signal_is_captured() -> None:
    def handler(number: int, frame: Any) -> int:
        return number + 1

    compiled = capture.compile(handler)
    assert compiled(3, None) == 4
    assert _native.entries(handler.__code__)


@told_apart
@pytest.mark.parametrize("fullgraph", [False, True])
def test_an_exception_of_a_handler_that_a_backend_swallows_is_the_programs(fullgraph: bool) -> None:
    def backend(module: Any, inputs: Any) -> Any:
        try:
            return interrupted(module, inputs)
        except TimeoutError:
            raise ValueError from None

    def handler(*_: Any) -> None:
        if not calls:
            calls.append(1)
            raise TimeoutError("in time")

    calls: list[int] = []
    compiled = capture.compile(
        lambda x: x + 1, lambda module, inputs: module if calls else backend(module, inputs), fullgraph=fullgraph
    )
    with handling(handler), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TimeoutError, match="in time"):
            compiled(torch.ones(2))
        assert compiled(torch.ones(2)).tolist() == [2, 2]


@told_apart
def test_nothing_of_a_capture_stays() -> None:
    with handling(lambda *_: None):
        compiled = capture.compile(lambda x: x + 1, interrupted)
        compiled(torch.ones(2))
        session = weakref.ref(compiled.session)
        del compiled
        assert session() is None
