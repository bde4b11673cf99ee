"""What raises by data does so where the program has it: handled there, with the effects before it, and a traceback of the user's lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import raising
import torch
from raising import BAD, GOOD, told
from torch.utils.checkpoint import checkpoint

import capture

WEIGHT = torch.ones(3, requires_grad=True)


@pytest.mark.parametrize("fn", raising.PROGRAMS, ids=lambda fn: fn.__name__)
def test_what_raises_by_data(fn: Callable[..., Any]) -> None:
    expected = {i: told(fn, i) for i in (GOOD, BAD)}
    for order in ((GOOD, BAD, BAD, GOOD), (BAD, GOOD)):
        capture.reset()
        compiled = capture.compile(fn)
        for i in order:
            assert told(compiled, i) == expected[i]


def test_what_a_backend_alone_raises_is_shown() -> None:
    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        def run(*args: torch.Tensor) -> Any:
            raise OSError("of the backend")

        return run

    def handling(x: torch.Tensor, log: list[int]) -> Any:
        try:
            log.append(1)
            return x + WEIGHT
        except OSError:
            return None

    log: list[int] = []
    with pytest.raises(OSError, match="of the backend"):
        capture.compile(handling, backend)(torch.ones(3), log)
    assert log == []


def test_memory_that_a_backend_has_not_the_interpreter_may_have() -> None:
    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        def run(*args: torch.Tensor) -> Any:
            raise torch.OutOfMemoryError("of the backend")

        return run

    assert capture.compile(lambda x: x + 1, backend)(torch.zeros(1)).item() == 1


def test_a_backend_that_writes_before_it_raises() -> None:
    """Whatever the order of a compiled graph: what it wrote is taken back."""

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        def run(*args: torch.Tensor) -> Any:
            if any((a >= 6).any() for a in args if a.dtype is torch.int64):
                args[0].zero_()
                raise IndexError("as it says it")
            return module(*args)

        return run

    for fn in (raising.written_before, raising.written_beside_effects, raising.a_scatter_in_place):
        compiled = capture.compile(fn, backend)
        for i in (GOOD, BAD, GOOD):
            assert told(compiled, i.clone()) == told(fn, i)


@pytest.mark.parametrize("backend", ["eager", "as made"])
def test_what_hooks_raise_is_raised_once(backend: str) -> None:
    """So checkpoints end what they compute again."""

    def again(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        return lambda *args: module(*args)

    def program(x: torch.Tensor) -> torch.Tensor:
        return (x * WEIGHT).sin()

    compiled = capture.compile(program, backend if backend == "eager" else again)
    calls: list[int] = []

    def pack(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        raise KeyError("enough")

    x = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x), pytest.raises(KeyError, match="enough"):
        compiled(x)
    assert calls == [1]
    checkpoint(compiled, x, use_reentrant=False).sum().backward()
    (expected,) = torch.autograd.grad(program(x).sum(), x)
    assert x.grad is not None and torch.equal(x.grad, expected)


def test_what_programs_raise_under_hooks_is_handled_there() -> None:
    def program(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        try:
            return x.sin()[at]
        except IndexError:
            return x * 2

    compiled = capture.compile(program)
    x = torch.ones(3, requires_grad=True)
    for at in (2, 7, 1):
        given = x, torch.tensor([at])
        assert torch.equal(checkpoint(compiled, *given, use_reentrant=False), program(*given))


def test_an_operator_of_the_program_that_gives_nothing_runs_once() -> None:
    calls: list[int] = []

    @torch.library.custom_op("capture_starting_again::note", mutates_args=())
    def note(x: torch.Tensor) -> None:
        calls.append(1)

    note.register_fake(lambda x: None)

    def fn(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        note(x)
        return x[i] + 1

    compiled = capture.compile(fn)
    x = torch.arange(6.0)
    compiled(x, GOOD)
    with pytest.raises(IndexError):
        compiled(x, BAD)
    assert len(calls) == 2


def test_a_module_with_buffers() -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(6))
            self.calls = 0
            self.register_buffer("total", torch.zeros(6))

        def forward(self, x: torch.Tensor, i: torch.Tensor) -> Any:
            self.calls += 1
            self.total += 1
            try:
                return (x * self.w)[i] * 2
            except IndexError:
                self.calls += 10
                return x * self.w

    plainly, module = Counting(), Counting()
    compiled = capture.compile(module)
    for i in (GOOD, BAD, GOOD, BAD):
        x = torch.arange(6.0)
        assert torch.equal(compiled(x, i), plainly(x, i))
        assert module.calls == plainly.calls
        assert torch.equal(module.total, plainly.total)


def test_a_program_whose_handlers_see_no_error_of_data_keeps_no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr("capture.replacement.Undoing", lambda *args: made.append(args) or args[0])

    def fn(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            try:
                x.add_(1)
                return x[i]
            except (KeyError, NotImplementedError):
                return x
            finally:
                x.mul_(2)

    capture.compile(fn)(torch.arange(6.0), GOOD)
    assert not made


def test_statistics_that_nobody_reads_are_kept_beside_other_effects() -> None:
    def fn(x: torch.Tensor, mean: torch.Tensor, log: list[int]) -> torch.Tensor:
        torch.nn.functional.batch_norm(x, mean, torch.ones(3), training=True)
        log.append(1)
        return x

    x, plain, mean, log = torch.rand(4, 3) + 5, torch.zeros(3), torch.zeros(3), []
    fn(x, plain, [])
    capture.compile(fn)(x, mean, log)
    assert torch.equal(mean, plain)
    assert log == [1]
