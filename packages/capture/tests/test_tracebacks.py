"""User exceptions are the user's: type, message, notes, context and the lines of a traceback are what eager gives."""

from __future__ import annotations

import gc
import logging
import traceback
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture
from capture import tracebacks
from capture.evaluator import state


def helper(y: torch.Tensor) -> torch.Tensor:
    if y.shape[0] == 3:
        raise KeyError("in helper")
    return y


def after_a_break(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    compile("0", "", "eval")
    z = y + 1
    return helper(z)


def after_many_breaks(x: torch.Tensor) -> torch.Tensor:
    for _ in range(4):
        x = x + 1
        compile("0", "", "eval")
    return helper(x)


def with_a_cause(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    try:
        return helper(y)
    except KeyError as error:
        error.add_note("noted")
        raise ValueError("outer") from error


def with_a_context(x: torch.Tensor) -> Any:
    y = x * 2
    try:
        return helper(y)
    finally:
        y.missing


def of_shapes(x: torch.Tensor) -> torch.Tensor:
    a = x + 1
    return a @ torch.ones(4)


def asserts(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    assert x.shape[0] == 2, "wrong shape"
    return y


class _OfACompiler(UserWarning):
    pass


class Inner(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return helper(y)


def recursive(x: torch.Tensor, n: int = 2) -> torch.Tensor:
    y = x + 1
    compile("0", "", "eval")
    if n:
        return recursive(y, n - 1)
    compile("0", "", "eval")
    return helper(y)


def raised_once_more_by_name(x: torch.Tensor) -> torch.Tensor:
    try:
        return helper(x * 2)
    except KeyError as error:
        raise error


def raised_once_more_after_a_break(x: torch.Tensor) -> torch.Tensor:
    try:
        raise KeyError("here")
    except KeyError as error:
        compile("0", "", "eval")
        raise error


def raised_once_more_twice(x: torch.Tensor) -> torch.Tensor:
    try:
        return raised_once_more_after_a_break(x)
    except KeyError as error:
        compile("0", "", "eval")
        raise error


def raised_on_after_a_break(x: torch.Tensor) -> torch.Tensor:
    try:
        raise KeyError("here")
    except KeyError:
        compile("0", "", "eval")
        raise


def raised_once_more_after_two_breaks(x: torch.Tensor) -> torch.Tensor:
    try:
        compile("0", "", "eval")
        y = x + 1
        compile("0", "", "no such mode")
    except ValueError as error:
        raise error
    return y


def within_another(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    return raised_once_more_by_name(y)


PROGRAMS: list[Callable[..., Any]] = [
    after_a_break,
    after_many_breaks,
    recursive,
    with_a_cause,
    with_a_context,
    raised_once_more_by_name,
    raised_once_more_after_a_break,
    raised_once_more_twice,
    raised_on_after_a_break,
    raised_once_more_after_two_breaks,
    within_another,
    of_shapes,
    asserts,
    Inner(),
    torch.nn.Sequential(torch.nn.ReLU(), Inner()),
    lambda: helper(),  # type: ignore[call-arg]
]


def told(fn: Callable[..., Any], *args: Any) -> list[Any]:
    found: list[Any] = []
    try:
        fn(*args)
    except Exception as caught:
        error: BaseException | None = caught
        while error is not None:
            lines = [(f.filename, f.lineno, f.name) for f in traceback.extract_tb(error.__traceback__)]
            lines = [line for line in lines if line[2] != "told"]
            notes = getattr(error, "__notes__", None)
            found.append((type(error), str(error), notes, lines, error.__suppress_context__, type(error.__cause__)))
            error = error.__context__
    return found


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: getattr(fn, "__name__", type(fn).__name__))
def test_exceptions_are_what_eager_raises(fn: Callable[..., Any]) -> None:
    compiled = capture.compile(fn)
    args = () if getattr(fn, "__name__", "") == "<lambda>" else (torch.ones(3),)
    expected = told(fn, *args)
    assert expected
    for _ in range(3):
        assert told(compiled, *args) == expected


def test_what_a_compiled_graph_raises_passes_through_the_users_function_alone() -> None:
    weight = torch.randn(4, 3)

    def fn(i: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding(i * 1, weight)

    compiled = capture.compile(fn)
    compiled(torch.tensor([1]))
    ((kind, message, _, lines, *_),) = told(compiled, torch.tensor([9]))
    assert kind is IndexError
    assert "out of range" in message
    assert [name for _, _, name in lines] == ["fn", "embedding"]
    assert lines[0][0] == __file__


def test_a_backends_own_frames_are_shown() -> None:
    def run(*args: torch.Tensor) -> Any:
        raise OSError("of the backend")

    compiled = capture.compile(lambda x: x + 1, lambda module, inputs: run)
    ((_, _, _, lines, *_),) = told(compiled, torch.ones(3))
    assert [name for _, _, name in lines] == ["<lambda>", "run"]


def test_warnings_that_are_errors_stay_ours(caplog: pytest.LogCaptureFixture) -> None:
    def generator(x: torch.Tensor) -> Any:
        yield x + 1

    def reads_locals(x: torch.Tensor) -> torch.Tensor:
        return sum(v.sum() for v in locals().values())  # type: ignore[return-value]

    def noisy(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        warnings.warn("of a compiler", DeprecationWarning, stacklevel=1)
        return module.forward

    def failing(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        raise OSError("no compiler")

    def slow(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        warnings.warn("it is slow", _OfACompiler, stacklevel=1)
        return module.forward

    def of_the_program(x: torch.Tensor) -> torch.Tensor:
        warnings.warn("mine", stacklevel=1)
        return x + 1

    capture.config.on_error = "fallback"
    x = torch.ones(3)
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING, "capture"):
        warnings.simplefilter("error")
        assert [y.tolist() for y in capture.compile(generator)(x)] == [[2.0] * 3]
        assert capture.compile(reads_locals)(x).item() == 3
        assert torch.equal(capture.compile(lambda x: x + 1, noisy, fullgraph=True)(x), x + 1)
        assert torch.equal(capture.compile(lambda x: x + 1, failing)(x), x + 1)
        with pytest.raises(UserWarning, match="mine"):
            capture.compile(of_the_program)(x)
        warnings.simplefilter("error", _OfACompiler)
        capture.config.on_error = "raise"
        with pytest.raises(Exception, match="it is slow"):
            capture.compile(lambda x: x + 1, slow)(x)
    told_instead = "\n".join(record.getMessage() for record in caplog.records)
    for part in ("it is a generator", "looks at its own local variables", "no compiler"):
        assert part in told_instead


@pytest.mark.parametrize("kept", [0, 4])
def test_code_without_its_lines(kept: int) -> None:
    """Tools make code with no table of lines, or with less of it than there is code."""

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        if y.sum() > 0:
            return y * 2
        return y

    function.__code__ = function.__code__.replace(co_linetable=function.__code__.co_linetable[:kept])
    x = torch.ones(2)
    assert torch.equal(capture.compile(function)(x), function(x))


def test_an_exception_through_many_frames_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def deep(x: torch.Tensor, n: int) -> torch.Tensor:
        if n:
            return deep(x, n - 1) + 1
        raise ValueError("deep")

    looked: list[Any] = []
    kept = tracebacks._original
    monkeypatch.setattr(tracebacks, "_original", lambda code: looked.append(code) or kept(code))
    monkeypatch.setattr(state, "_MAX_DEPTH", 3)
    with pytest.raises(ValueError, match="deep") as raised:
        capture.compile(deep)(torch.ones(2), 300)
    assert len(looked) < 12 * 300
    lines = [entry.lineno for entry in traceback.extract_tb(raised.tb)[1:]]
    first = deep.__code__.co_firstlineno
    assert lines == [first + 2] * 300 + [first + 3]


class _Told(Exception):
    pass


def handled_where_it_breaks(x: torch.Tensor, thing: Any) -> torch.Tensor:
    try:
        raise _Told(thing)
    except _Told as error:
        compile("0", "", "eval")
        x = x + len(error.args)
    return x + 1


def handled_within_another_where_it_breaks(x: torch.Tensor, thing: Any) -> torch.Tensor:
    try:
        raise _Told(thing)
    except _Told:
        try:
            raise _Told(thing, "inner")
        except _Told as inner:
            compile("0", "", "eval")
            x = x + len(inner.args)
    return x + 1


@pytest.mark.parametrize("fn", [handled_where_it_breaks, handled_within_another_where_it_breaks])
def test_an_exception_handled_at_a_break_is_gone_with_its_handler(fn: Callable[..., Any]) -> None:
    captured = capture.compile(fn, lambda gm, inputs: gm)
    for called in fn, captured, captured:
        thing = torch.nn.Identity()
        gone = weakref.ref(thing)
        gc.collect()
        gc.disable()
        try:
            called(torch.ones(2), thing)
            del thing
            assert gone() is None
        finally:
            gc.enable()
