"""Into how many pieces a program is captured that breaks: as few as its breaks make, however often it goes round."""

from __future__ import annotations

import collections
import contextlib
import operator
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import capture


def pieces(fn: Callable[..., Any], *args: Any) -> int:
    """How many frames are captured for three calls, which must give what the function gives."""
    compiled = capture.compile(fn)
    for _ in range(3):
        assert str(compiled(*args)) == str(fn(*args))
    report = capture.report(compiled)
    assert not report.skipped
    return report.frames


@pytest.mark.parametrize("rounds", [6, 20])
def test_a_list_that_grows(rounds: int) -> None:
    def program(x: torch.Tensor) -> list[torch.Tensor]:
        out = []
        for i in range(rounds):
            x = x + 1
            time.perf_counter_ns()
            out.append(x * i)
        return out

    # Up to the first break; one round; another, with a number that changes; the end.
    assert pieces(program, torch.ones(3)) == 4


def test_a_list_that_grows_by_lists_and_is_looked_at_last() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        out: list[torch.Tensor] = []
        for _ in range(8):
            time.perf_counter_ns()
            x = x * 2
            out += [x, x + 1]
        return torch.stack(out).sum()

    assert pieces(program, torch.ones(3)) == 3


def test_a_list_is_looked_at_for_the_length_that_it_has() -> None:
    def program(out: list[torch.Tensor], x: torch.Tensor) -> int:
        out.append(x + 1)
        return len(out)

    compiled = capture.compile(program)
    for n in (0, 1, 2, 2, 0):
        out, expected = [torch.ones(1)] * n, [torch.ones(1)] * n
        assert compiled(out, torch.ones(3)) == program(expected, torch.ones(3))
        assert len(out) == len(expected)


def test_a_list_that_is_only_appended_to_may_have_any_length() -> None:
    def program(out: list[torch.Tensor], x: torch.Tensor) -> None:
        out.append(x + 1)
        out.extend([x, x * 2])

    compiled = capture.compile(program)
    for n in range(4):
        out: list[torch.Tensor] = [torch.zeros(1)] * n
        compiled(out, torch.ones(3))
        assert [t.sum().item() for t in out] == [0.0] * n + [6.0, 3.0, 6.0]
    assert capture.report(compiled).frames == 1


def _by_number(out: Any, i: int, x: torch.Tensor) -> None:
    out[i] = x * i


def _by_number_twice(out: Any, i: int, x: torch.Tensor) -> None:
    out[i, "x"] = x * i
    out["last"] = x
    out[i, "x"] = x + i


def _added(out: Any, i: int, x: torch.Tensor) -> None:
    out.add(i * 3)


def _appended(out: Any, i: int, x: torch.Tensor) -> None:
    out.append(x * i)


GROWING = {
    "dict": (dict, _by_number),
    "dict that has something": (lambda: {"first": 1, 3: 2}, _by_number),
    "dict with several keys": (dict, _by_number_twice),
    "OrderedDict": (collections.OrderedDict, _by_number),
    "defaultdict": (lambda: collections.defaultdict(list), _by_number),
    "set": (lambda: {6, -1}, _added),
    "deque": (collections.deque, _appended),
    "deque with a limit": (lambda: collections.deque(maxlen=4), _appended),
}


@pytest.mark.parametrize("name", GROWING)
def test_containers_that_grow(name: str) -> None:
    make, grow = GROWING[name]

    def program(x: torch.Tensor) -> Any:
        out = make()
        for i in range(9):
            x = x + 1
            time.perf_counter_ns()
            grow(out, i, x)
        return out

    assert pieces(program, torch.ones(3)) == 4


def test_a_dictionary_that_grows_by_keys_of_another() -> None:
    def program(x: torch.Tensor, parts: dict[str, float]) -> dict[str, torch.Tensor]:
        out = {}
        for name in parts:
            x = x + 1
            time.perf_counter_ns()
            out[name] = x
        return out

    assert pieces(program, torch.ones(3), {f"part {i}": i for i in range(9)}) == 3


def test_what_is_put_into_a_dictionary_and_what_is_in_it_then() -> None:
    def program(entries: dict[Any, Any], key: Any, x: torch.Tensor) -> Any:
        entries[key] = x + 1
        entries["new"] = x
        if key == 2:
            return len(entries), list(entries), entries[key]
        return None

    compiled = capture.compile(program)
    x = torch.ones(2)
    for key in (1, 2, 3, 2, True, 1.0, "new", (1, 2), None):
        for start in ({}, {1: 0, "new": 1}, {2: 0}):
            mine, expected = dict(start), dict(start)
            assert str(compiled(mine, key, x)) == str(program(expected, key, x))
            assert str(mine) == str(expected)


def test_a_dictionary_with_more_in_it_is_the_same_capture() -> None:
    def program(entries: dict[str, Any], x: torch.Tensor) -> torch.Tensor:
        if "first" not in entries:
            entries["first"] = x + 1
        return entries["first"] * 2

    compiled = capture.compile(program, fullgraph=True)
    for more in ((), ("a",), ("a", "b")):
        entries = dict.fromkeys(more)
        compiled(entries, torch.ones(2))
        assert list(entries) == [*more, "first"]
    assert capture.report(compiled).frames == 1


@contextlib.contextmanager
def _managed(log: list[str]) -> Iterator[int]:
    log.append("in")
    try:
        yield 3
    finally:
        log.append("out")


@contextlib.contextmanager
def _nested(log: list[str]) -> Iterator[int]:
    with torch.no_grad(), _managed(log) as k:
        yield k


@pytest.mark.parametrize("manager", [_managed, _nested])
def test_a_manager_made_by_a_generator(manager: Callable[[list[str]], contextlib.AbstractContextManager[int]]) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, list[str], bool]:
        log: list[str] = []
        with manager(log) as k:
            y = x + k
            time.perf_counter_ns()
            g = torch.is_grad_enabled()
            y = y * 2
        return y + 1, log, g

    # Up to the break; to the end of the block, where the generator goes on for real; what follows.
    assert pieces(program, torch.ones(3)) == 3


def test_a_prefix_with_a_generator_is_kept() -> None:
    def counting(x: torch.Tensor) -> Iterator[torch.Tensor]:
        for i in range(3):
            yield x + i

    def program(x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        gen = counting(x * 2)
        first = next(gen) * 3
        time.perf_counter_ns()
        return first, list(gen)

    compiled = capture.compile(program)
    assert str(compiled(torch.ones(2))) == str(program(torch.ones(2)))
    assert capture.report(compiled).graphs[0].op_count == 3


def test_a_generator_goes_on_with_its_own_line() -> None:
    def counting(x: torch.Tensor) -> Iterator[torch.Tensor]:
        yield x
        raise ValueError("late")

    def program(x: torch.Tensor) -> Any:
        gen = counting(x + 1)
        next(gen)
        time.perf_counter_ns()
        return gen

    plain, made = program(torch.ones(2)), capture.compile(program)(torch.ones(2))
    assert made.gi_frame.f_lineno == plain.gi_frame.f_lineno
    assert (made.__name__, made.__qualname__) == (plain.__name__, plain.__qualname__)
    with pytest.raises(ValueError, match="late") as raised:
        next(made)
    assert raised.tb.tb_next.tb_frame.f_code.co_name == "counting"


def test_texts_from_outside_are_told_from_those_of_the_code() -> None:
    def program(given: str, x: torch.Tensor) -> tuple[bool, torch.Tensor]:
        return operator.is_(given, "abc"), x + 1

    compiled = capture.compile(program)
    equal, own = "".join(["a", "bc"]), next(each for each in program.__code__.co_consts if each == "abc")
    assert own == equal
    assert own is not equal
    for given in (own, equal, "".join(["ab", "c"]), own):
        assert compiled(given, torch.ones(2))[0] is (given is own)
    assert not capture.report(compiled).skipped
