"""Chains from outside: each is handed back where the program left it, and what it goes over as well."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import capture


def _generator(of: list[int]) -> Any:
    yield from of


MAKERS: dict[str, Callable[[list[int]], Any]] = {
    "lists": lambda of: itertools.chain(of, [5, 6]),
    "the second": lambda of: itertools.chain((0,), of),
    "texts and ranges": lambda of: itertools.chain("ab", range(2), of),
    "begun": lambda of: _after(1, itertools.chain(of, [5])),
    "in the second": lambda of: _after(2, itertools.chain((0,), of)),
    "through": lambda of: _after(9, itertools.chain(of, [5])),
    "of an iterator": lambda of: itertools.chain(iter(of), [5]),
    "of one list, twice": lambda of: itertools.chain(of, of),
    "a generator": lambda of: itertools.chain(_generator(of), [5]),
    "by a generator": lambda of: itertools.chain.from_iterable(_generator([1])) if not of else itertools.chain(of),
    "by a list": lambda of: itertools.chain.from_iterable([of, [5]]),
    "a dictionary": lambda of: itertools.chain({1: 2}, of),
    "empty": lambda of: itertools.chain([], (), of),
    "zip": lambda of: zip(itertools.chain(of, [5]), itertools.count(), strict=False) if not of else zip(itertools.chain(of, [5]), "abcdef", strict=False),
    "zip of one": lambda of: zip(*[itertools.chain(of, [5, 6])] * 2, strict=False),
    "enumerate": lambda of: enumerate(itertools.chain(of, [5])),
    "map": lambda of: map(str, itertools.chain(of, [5])),
    "chain of a chain": lambda of: itertools.chain(itertools.chain(of, [5]), [6]),
}  # fmt: skip


def _after(steps: int, iterator: Any) -> Any:
    for _ in range(steps):
        next(iterator, None)
    return iterator


def some(x: torch.Tensor, of: list[int], it: Any) -> Any:
    return x + 1, next(it, "end"), next(it, "end")


def most(x: torch.Tensor, of: list[int], it: Any) -> Any:
    return x + 1, [next(it, "end") for _ in range(5)]


def all_of_it(x: torch.Tensor, of: list[int], it: Any) -> Any:
    found = list(it)
    of.append(9)
    return x + 1, found


def cleared(x: torch.Tensor, of: list[int], it: Any) -> Any:
    first, second = next(it, "end"), next(it, "end")
    of.clear()
    return x + 1, first, second


def shortened(x: torch.Tensor, of: list[int], it: Any) -> Any:
    first = next(it, "end")
    del of[0]
    return x + 1, first, next(it, "end")


def lengthened(x: torch.Tensor, of: list[int], it: Any) -> Any:
    first = next(it, "end")
    of.append(9)
    return x + 1, first, next(it, "end"), next(it, "end")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fn", [some, most, all_of_it, cleared, shortened, lengthened])
@pytest.mark.parametrize("name", MAKERS)
def test_as_plain(name: str, fn: Callable[..., Any]) -> None:
    def outcome(fn: Callable[..., Any], of: list[int]) -> Any:
        it = MAKERS[name](of)
        found = fn(torch.ones(2), of, it)[1:]
        return found, of, [next(it, "end") for _ in range(4)]

    compiled = capture.compile(fn)
    for of in ([1, 2, 3, 4], [5, 6, 7, 8], [1]):
        assert outcome(compiled, of.copy()) == outcome(fn, of.copy())


def test_no_break() -> None:
    def fn(x: torch.Tensor, it: Any) -> Any:
        return x + 1, list(it)

    compiled = capture.compile(fn, fullgraph=True)
    for _ in range(2):
        assert compiled(torch.ones(2), zip(itertools.chain([1], [2, 3]), "abc", strict=True))[1] == [
            (1, "a"), (2, "b"), (3, "c"),
        ]  # fmt: skip


def _between(of: Iterator[Any], chain: Iterator[Any]) -> Any:
    first, between = next(chain), next(of)
    return first, between, next(chain), next(chain)


def _to_its_end(of: Iterator[Any], chain: Iterator[Any]) -> Any:
    return next(of), next(of), next(chain), next(chain)


@pytest.mark.parametrize(
    ("of", "chained", "take"),
    [
        ([[1, 2], [3], [4, 5, 6], [7, 8]], itertools.chain.from_iterable, _between),
        ([1, 2, 3], lambda of: itertools.chain(of, [7, 8, 9]), _to_its_end),
    ],
)
def test_what_it_goes_over_is_moved_in_between(of: list[Any], chained: Any, take: Callable[..., Any]) -> None:
    def run(call: Callable[..., Any]) -> Any:
        iterator = iter(of)
        chain = chained(iterator)
        taken = call(torch.ones(2), iterator, chain)[1]
        return taken, list(itertools.islice(chain, 1)), list(iterator), list(chain)

    def f(x: torch.Tensor, iterator: Iterator[Any], chain: Iterator[Any]) -> Any:
        return x + 1, take(iterator, chain)

    assert run(capture.compile(f)) == run(f)
