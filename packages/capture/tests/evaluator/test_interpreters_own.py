"""What the interpreter keeps to itself, and CPython's own tests look at: settings of its conversions, functions that an extension runs."""

from __future__ import annotations

import gc
import inspect
import sys
import warnings
from typing import Any

import pytest
import torch

import capture
import capture.session
from capture import _native

X = torch.ones(2)
MANY = 10**3000
SPEC, FIELD = "%d", "{}"


@pytest.mark.parametrize(
    "convert", [str, repr, lambda n: f"{n}", lambda n: SPEC % n, lambda n: FIELD.format(n), lambda n: [n].__repr__()]
)
def test_long_integers_are_converted_by_the_setting_in_force(convert: Any) -> None:
    def told(x: torch.Tensor) -> Any:
        return x + 1, len(convert(MANY))

    compiled = capture.compile(told)
    assert compiled(X)[1] >= 3001
    kept = sys.get_int_max_str_digits()
    try:
        sys.set_int_max_str_digits(1000)
        with pytest.raises(ValueError, match="Exceeds the limit"):
            compiled(X)
    finally:
        sys.set_int_max_str_digits(kept)
    assert compiled(X)[1] >= 3001


def test_integers_of_long_texts_are_read_by_the_setting_in_force() -> None:
    text = "1" * 3000
    compiled = capture.compile(lambda x: (x + 1, int(text) % 10))
    assert compiled(X)[1] == 1
    kept = sys.get_int_max_str_digits()
    try:
        sys.set_int_max_str_digits(1000)
        with pytest.raises(ValueError, match="Exceeds the limit"):
            compiled(X)
    finally:
        sys.set_int_max_str_digits(kept)


if sys.version_info >= (3, 12):  # before, there is no such function

    def test_a_function_that_an_extension_runs() -> None:
        testing = pytest.importorskip("_testcapi")

        def inner(x: torch.Tensor) -> Any:
            return x + 1

        class Reading:
            def __getattribute__(self, name: str) -> Any:
                return name

        compiled = capture.compile(lambda x: (inner(x), Reading().what, x))
        assert not _native.is_overridden(inner)
        testing.function_setvectorcall(inner)
        testing.function_setvectorcall(Reading.__getattribute__)
        assert _native.is_overridden(inner)
        assert compiled(X)[:2] == ("overridden", "overridden")


def test_class_entries() -> None:
    class Base:
        there = 1

    class Made(Base):
        pass

    assert _native.class_entry(Made, "there") == (1, Base)
    assert _native.class_entry(Made, "nowhere") is None
    assert _native.class_entry(bool, "bit_length") == (int.__dict__["bit_length"], int)
    with pytest.raises(TypeError):
        _native.class_entry(1, "there")  # type: ignore[arg-type]


def test_keys_that_act() -> None:
    class Plain(str):
        pass

    class Acting(str):
        def __eq__(self, other: object) -> bool:
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    for keys in ((), ("a",), (1, None, (2,)), (Plain("a"), "b"), (object(),)):
        assert not _native.keys_act(dict.fromkeys(keys))
    assert _native.keys_act({"b": 1, Acting("a"): 2})
    with pytest.raises(LookupError):
        _native.class_entry(type("Made", (), {Acting("a"): 2}), "a")


def test_long_loops_with_nothing_to_compile_run_in_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    def numbers(count: int) -> list[int]:
        out = []
        for i in range(count):
            out.append(i)
        return out

    def whole(x: torch.Tensor) -> torch.Tensor:
        out = []
        for i in range(20_000):
            out.append(i)
        return x + len(out)

    def called(x: torch.Tensor) -> torch.Tensor:
        return x + len(numbers(20_000))

    monkeypatch.setattr(capture.config, "max_instructions", 10_000)
    monkeypatch.setattr(capture.session, "tell", lambda *_: None)
    for program, frames, graphs in ((whole, 0, 0), (called, 3, 1)):
        compiled = capture.compile(program)
        assert torch.equal(compiled(X), X + 20_000)
        report = capture.report(compiled)
        assert report.frames <= frames
        assert report.graph_count == graphs
        assert any("nothing to compile" in each for each in report.skipped)


def test_elements_of_a_long_iterator_are_taken_piece_by_piece_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def last(values: Any) -> Any:
        found = None
        for found in values:
            pass
        return found

    monkeypatch.setattr(capture.session, "tell", lambda *_: None)
    compiled = capture.compile(last)
    for _ in range(3):
        assert compiled(iter([str(i) for i in range(5_000)])) == "4999"
    assert capture.report(compiled).frames <= 3


def test_calls_with_nothing_to_compile_are_not_looked_at_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(number: complex) -> complex:
        return number * 2

    def many(call: Any) -> Any:
        return [call(complex(i, 1)) for i in range(1000)]

    told: list[str] = []
    monkeypatch.setattr(capture.session, "tell", lambda text, *_: told.append(text))
    compiled = capture.compile(plain)
    assert many(compiled) == many(plain)
    report = capture.report(compiled)
    assert report.frames == 8 * capture.config.recompile_limit
    assert any("none has anything to compile" in each for each in report.skipped)
    assert not told
    whole = capture.compile(plain, fullgraph=True)
    assert many(whole)[-1] == complex(1998, 2)


def _stack() -> list[tuple[str, int]]:
    frame, found = sys._getframe(1), []
    while frame is not None and len(found) < 5:
        found.append((frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return found


def _inner(x: torch.Tensor) -> Any:
    gc.isenabled()
    before = _stack()
    gc.isenabled()
    return before, _stack(), x + 1


def _looking(x: torch.Tensor) -> Any:
    before = _stack()
    y = x + 1
    gc.isenabled()
    within = _inner(y)
    try:
        gc.isenabled()
        raise ValueError
    except ValueError:
        gc.isenabled()
        handling = _stack()
    return before, within[:2], handling, [each.function for each in inspect.stack()[:3]]


def _warning(x: torch.Tensor) -> torch.Tensor:
    gc.isenabled()
    y = x + 1
    gc.isenabled()
    warnings.warn("of the caller", stacklevel=2)
    return y


def _calling(function: Any) -> Any:
    return function(X)


def test_a_frame_that_goes_on_after_a_break_is_there_once() -> None:
    assert _calling(capture.compile(_looking)) == _calling(_looking)
    lines = []
    for function in (_warning, capture.compile(_warning)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _calling(function)
        lines += [(each.filename, each.lineno) for each in caught]
    assert len(lines) == 2
    assert lines[0] == lines[1]
