"""Iterators of ``itertools`` from outside: told by what lies ahead, advanced, handed back where the program left them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture

X = torch.arange(3.0)


def after(steps: int, iterator: Any) -> Any:
    for _ in range(steps):
        next(iterator, None)
    return iterator


ENDLESS: dict[str, Callable[[], Any]] = {
    "count": lambda: itertools.count(3),
    "count of floats": lambda: itertools.count(1.5, 0.5),
    "count backwards": lambda: itertools.count(7, -2),
    "count past the machine's": lambda: itertools.count(2**63 - 2),
    "cycle": lambda: itertools.cycle([1, 2, 3]),
    "cycle of one": lambda: itertools.cycle((1,)),
    "cycle of tensors": lambda: itertools.cycle([X, X + 1]),
    "cycle of a cut count": lambda: itertools.cycle(itertools.islice(itertools.count(), 2)),
    "repeat": lambda: itertools.repeat("a"),
    "cut": lambda: itertools.islice(itertools.count(), 3, None, 2),
    "chain": lambda: itertools.chain([1], itertools.count()),
    "zip": lambda: zip(itertools.count(), itertools.cycle("ab"), strict=False),
    "enumerate": lambda: enumerate(itertools.cycle("ab")),
    "enumerate of a chain": lambda: enumerate(itertools.chain([1], [2, 3], itertools.count())),
}
ENDING: dict[str, Callable[[], Any]] = {
    "repeat": lambda: itertools.repeat(4, 3),
    "cycle of nothing": lambda: itertools.cycle([]),
    "cut": lambda: itertools.islice([1, 2, 3, 4, 5, 6, 7], 1, 6, 2),
    "cut to its end": lambda: itertools.islice([1, 2, 3, 4, 5, 6], 0, None, 4),
    "cut beyond its end": lambda: itertools.islice([1, 2, 3], 2, 9, 5),
    "cut of a cut": lambda: itertools.islice(itertools.islice(itertools.count(), 9), 1, 5),
    "cut to nothing": lambda: itertools.islice([1, 2], 0),
    "product": lambda: itertools.product([1, 2], "ab"),
    "product of itself": lambda: itertools.product([X, 2], repeat=2),
    "product of nothing": lambda: itertools.product([1], []),
    "product of no pools": lambda: itertools.product(),
}


def shown(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return type(value)(map(shown, value)) if isinstance(value, list | tuple) else value


def two_of_them(it: Any, x: torch.Tensor) -> Any:
    return x + 1, next(it, "end"), next(it, "end")


def all_of_it(it: Any, x: torch.Tensor) -> Any:
    return x + 1, list(it), next(it, "end")


def seven_of_them(it: Any, x: torch.Tensor) -> Any:
    return x + 1, [next(it, "end") for _ in range(7)]


def passed_on(it: Any, x: torch.Tensor) -> Any:
    next(it, "end")
    return x + 1, it


PAIRS = [
    (kind, make, fn) for kind, make in (ENDLESS | ENDING).items() for fn in (two_of_them, seven_of_them, passed_on)
]
PAIRS += [(kind, make, all_of_it) for kind, make in ENDING.items()]


@pytest.mark.parametrize(("kind", "make", "fn"), PAIRS, ids=lambda each: getattr(each, "__name__", each))
def test_same_as_plain(kind: str, make: Callable[[], Any], fn: Any) -> None:
    compiled = capture.compile(fn, fullgraph="nothing" not in kind and "machine" not in kind)
    for steps in (0, 1, 2, 3, 5, 11):
        plain, ours = after(steps, make()), after(steps, make())
        for _ in range(3):
            expected, got = fn(plain, X), compiled(ours, X)
            if fn is passed_on:
                assert got[1] is ours
                expected, got = next(plain, "end"), next(ours, "end")
            assert shown(got) == shown(expected), steps
        assert shown(list(itertools.islice(ours, 5))) == shown(list(itertools.islice(plain, 5)))


@pytest.mark.parametrize("kind", ["count", "cycle", "cut", "repeat"])
def test_few_captures_serve_all_places(kind: str) -> None:
    compiled, it = capture.compile(two_of_them), ENDLESS[kind]()
    for _ in range(9):
        compiled(it, X)
    assert capture.report(compiled).graph_count <= 4


def test_what_they_go_over_moves_with_them() -> None:
    def program(inner: Any, outer: Any, x: torch.Tensor) -> Any:
        return x + 1, next(outer), next(inner), next(outer)

    def call(fn: Any, make: Any) -> Any:
        inner = iter([1, 2, 3, 4, 5, 6])
        outer = make(inner)
        return fn(inner, outer, X)[1:], list(inner), next(outer, None)

    for make in (itertools.cycle, lambda inner: itertools.islice(inner, 1, 5)):
        assert call(capture.compile(program), make) == call(program, make)


def test_a_class_derived_of_them_is_its_own() -> None:
    class Tens(itertools.count):  # type: ignore[type-arg]
        def __next__(self) -> int:
            return super().__next__() * 10

    for fn in (two_of_them, capture.compile(two_of_them)):
        assert fn(Tens(1), X)[1:] == (10, 20)


@pytest.mark.parametrize("cut", [(10**6, None), (0, None, 10**6)])
def test_those_that_skip_very_many_are_moved_for_real(cut: Any) -> None:
    compiled = capture.compile(two_of_them)
    plain, ours = (itertools.islice(itertools.count(), *cut) for _ in range(2))
    start = time.perf_counter()
    assert compiled(ours, X)[1:] == two_of_them(plain, X)[1:]
    assert time.perf_counter() - start < 4  # without that, half a minute
    assert next(ours) == next(plain)
