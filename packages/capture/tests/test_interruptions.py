"""Handlers of signals that come between compiling and running run as in the program, and are no part of what is compiled."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import capture
from capture import _native
from capture.interruptions import cut_short, interruptions_outside
from capture.interruptions import interrupted as interrupted_here

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no signals of the program's own here")
told_apart = pytest.mark.skipif(sys.version_info < (3, 12), reason="its handlers are no other's to see")


@contextlib.contextmanager
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
    with handling(handler), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        compiled = capture.compile(function, interrupted)
        assert compiled(torch.zeros(2)).tolist() == [1, 1]
        assert not told


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


@told_apart
def test_a_handler_that_is_taken_over_within_a_capture() -> None:
    """By a library that a backend loads, which puts its own before it and calls both."""
    seen: list[bool] = []

    def handler(*_: Any) -> None:
        seen.append(torch.is_grad_enabled())

    def backend(module: Any, inputs: Any) -> Any:
        first = signal.getsignal(signal.SIGUSR1)
        signal.signal(signal.SIGUSR1, lambda *given: first(*given))  # type: ignore[operator, misc]
        return module

    others = signal.signal(signal.SIGUSR2, other := lambda *_: None)
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with torch.no_grad():
            capture.compile(lambda x: x + 1, backend)(torch.ones(2))
        for _ in range(2):
            signal.raise_signal(signal.SIGUSR1)
            assert signal.getsignal(signal.SIGUSR2) is other
    finally:
        signal.signal(signal.SIGUSR1, before)
        signal.signal(signal.SIGUSR2, others)
    assert seen == [True, True]


@told_apart
def test_a_handler_of_a_backends_own_is_the_backends_after_one_of_the_programs_ran() -> None:
    def in_time(*_: Any) -> None:
        raise TimeoutError

    def backend(module: Any, inputs: Any) -> Any:
        before = signal.signal(signal.SIGUSR2, in_time)
        try:
            signal.raise_signal(signal.SIGUSR1)
            with pytest.raises(TimeoutError):
                signal.raise_signal(signal.SIGUSR2)
        finally:
            signal.signal(signal.SIGUSR2, before)
        return module

    with handling(lambda *_: None):
        assert capture.compile(lambda x: x + 1, backend)(torch.ones(2)).tolist() == [2, 2]


@told_apart
def test_a_handler_that_is_in_force_no_more_dies() -> None:
    class Once:
        def __call__(self, *_: Any) -> None:
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def backend(module: Any, inputs: Any) -> Any:
        signal.raise_signal(signal.SIGUSR1)
        alive.append(reference() is not None)
        return module

    alive: list[bool] = []
    handler = Once()
    reference = weakref.ref(handler)
    before = signal.signal(signal.SIGUSR1, handler)
    del handler
    try:
        capture.compile(lambda x: x + 1, backend)(torch.ones(2))
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert alive == [False]


@told_apart
def test_warnings_of_a_handler_are_filtered_as_the_programs() -> None:
    seen: list[str] = []

    def handler(*_: Any) -> None:
        try:
            warnings.warn("of the handler", UserWarning, stacklevel=1)
        except UserWarning as warning:
            seen.append(str(warning))

    with handling(handler), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        capture.compile(lambda x: x + 1, interrupted)(torch.ones(2))
    assert seen == ["of the handler"]


@told_apart
def test_what_a_handler_does_to_one_threads_capture_is_no_others() -> None:
    def handler(*_: Any) -> None:
        raise TimeoutError

    seen: list[tuple[bool, bool]] = []

    def other() -> None:
        with interruptions_outside():
            seen.append((interrupted_here(), cut_short()))

    with handling(handler), pytest.raises(TimeoutError), interruptions_outside():
        with contextlib.suppress(TimeoutError):
            signal.raise_signal(signal.SIGUSR1)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        seen.append((interrupted_here(), cut_short()))
    assert seen == [(False, False), (True, True)]


@told_apart
def test_signals_at_any_moment_of_a_capture() -> None:
    """Also as handlers are exchanged: by a clock that is faster than a capture."""
    seen: list[int] = []

    def handler(number: int, _: Any) -> None:
        seen.append(number)
        if len(seen) % 5 == 0:
            signal.raise_signal(signal.SIGUSR1 if number == signal.SIGALRM else signal.SIGALRM)

    alarm = signal.signal(signal.SIGALRM, handler)
    try:
        with handling(handler):
            signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
            try:
                for k in range(20):
                    assert capture.compile(lambda x, k=k: x + k)(torch.zeros(2)).tolist() == [k, k]
                    assert signal.getsignal(signal.SIGUSR1) is signal.getsignal(signal.SIGALRM) is handler
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, alarm)
    assert set(seen) == {signal.SIGUSR1, signal.SIGALRM}


@told_apart
def test_a_handler_that_comes_as_handlers_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    exchange = _native.exchange_handlers
    counted: list[int] = []

    def exchanging(exchanged: Any) -> None:
        counted.append(1)
        if len(counted) == at:
            signal.raise_signal(signal.SIGUSR1)
        exchange(exchanged)

    def handler(*_: Any) -> None:
        ran.append(1)

    monkeypatch.setattr(_native, "exchange_handlers", exchanging)
    for at in range(1, 7):
        ran: list[int] = []
        counted.clear()
        with handling(handler):
            capture.compile(lambda x: x + 1, interrupted)(torch.ones(2))
        assert len(ran) == 1 + (len(counted) >= at)
