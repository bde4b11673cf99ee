"""Iterators from outside the frame: advanced as far as the program goes, handed back where it left them, one capture for equal parts."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture

X = torch.arange(3.0)


class Places:
    def __len__(self) -> int:
        return 3

    def __getitem__(self, place: int) -> int:
        return place + 1


def two_of_them(it: Any, x: torch.Tensor) -> Any:
    a = next(it)
    return x * 2, a, next(it, "none")


def all_left(it: Any, x: torch.Tensor) -> Any:
    return list(it), x - 1


def until_found(it: Any, x: torch.Tensor) -> Any:
    for v in it:
        if v == 2 or v == (1, 20) or v == "c":
            return x + 1, v
    return x, "nothing"


def passed_on(it: Any, x: torch.Tensor) -> Any:
    return it, [it], x + 2


def over_it(it: Any, x: torch.Tensor) -> Any:
    numbered = enumerate(it, 5)
    return next(numbered), numbered, x + 1


def with_zip(it: Any, x: torch.Tensor) -> Any:
    return list(zip(it, range(2))), x + 3


def asked_after_end(it: Any, x: torch.Tensor) -> Any:
    return list(it), list(it), next(it, "end"), x


def started(it: Any, n: int) -> Any:
    with contextlib.suppress(ValueError):
        for _ in range(n):
            next(it, None)
    return it


KINDS: dict[str, Callable[[], Any]] = {
    "list": lambda: iter([1, 2, 3, 4]),
    "wide text": lambda: iter("a\u0100cd"),
    "range": lambda: iter(range(1, 9, 2)),
    "values": lambda: iter({"a": 1, "b": 2, "c": 3}.values()),
    "ordered items": lambda: iter(collections.OrderedDict(a=1, b=2, c=3).items()),
    "ordered keys from the end": lambda: reversed(collections.OrderedDict(a=1, b=2, c=3)),
    "set": lambda: iter({5, 2, 7, 1}),
    "reversed": lambda: reversed([1, 2, 3]),
    "reversed tuple": lambda: reversed((1, 2, 3)),
    "reversed places": lambda: reversed(Places()),
    "enumerate": lambda: enumerate([10, 20, 30]),
    "enumerate of enumerate": lambda: enumerate(enumerate("abc"), 3),
    "zip": lambda: zip([1, 2, 3], (10, 20)),
    "strict zip": lambda: zip([1, 2], "ab", strict=True),
    "uneven strict zip": lambda: zip([1, 2], "a", strict=True),
    "map": lambda: map(abs, [-1, 2, 3]),
    "filter": lambda: filter(lambda v: v % 2, [1, 2, 3, 5]),
    "generator": lambda: (v for v in (1, 2, 3)),
    "chain": lambda: itertools.chain([1], [2, 3]),
    "tensors": lambda: iter([torch.ones(2), torch.zeros(2), torch.ones(3)]),
    "empty": lambda: iter([]),
}
PROGRAMS = (two_of_them, all_left, passed_on, over_it, with_zip, asked_after_end, until_found)


def shown(value: Any) -> Any:
    """Values that compare by what they are."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, list | tuple):
        return type(value)(map(shown, value))
    return shown(("iterator", *value)) if hasattr(value, "__next__") else value


def run(fn: Any, it: Any) -> Any:
    try:
        result: Any = shown(fn(it, X))
    except (StopIteration, ValueError, RuntimeError) as error:
        result = type(error), error.args
    return result, shown(it)


#: Equality of tensors is a tensor.
PAIRS = [(kind, fn) for kind in KINDS for fn in PROGRAMS if (kind, fn) != ("tensors", until_found)]


@pytest.mark.parametrize(("kind", "fn"), PAIRS, ids=lambda each: getattr(each, "__name__", each))
def test_same_as_plain(kind: str, fn: Any) -> None:
    capture.reset()
    compiled = capture.compile(fn)
    for n in (0, 2, 9):
        assert run(compiled, started(KINDS[kind](), n)) == run(fn, started(KINDS[kind](), n)), n


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("generator", "chain", "uneven strict zip", "empty")])
def test_no_break(kind: str) -> None:
    compiled = capture.compile(two_of_them, fullgraph=True)
    compiled(KINDS[kind](), X)


def test_one_capture_serves_all_that_have_enough() -> None:
    compiled = capture.compile(two_of_them)
    for n in range(5):
        compiled(started(iter([torch.ones(2)] * 10), n), X)
    assert capture.report(compiled).graph_count == 1


def test_each_place_of_what_is_gone_over_backwards_is_asked_for_once() -> None:
    class Noted(Places):
        def __init__(self) -> None:
            self.asked: list[int] = []

        def __getitem__(self, place: int) -> int:
            self.asked.append(place)
            return super().__getitem__(place)

    def program(it: Any, x: torch.Tensor) -> Any:
        for v in it:
            x = x * v
            compile("0", "", "eval")
            if v == 2:
                break
        return x

    found = []
    for fn in (program, capture.compile(program)):
        over = Noted()
        it = reversed(over)
        found.append((fn(it, X).tolist(), it.__reduce__()[2:], over.asked[:], list(it)))
    assert found[0] == found[1]


@pytest.mark.parametrize("given", [lambda refusing: refusing, reversed], ids=["made in the frame", "given"])
def test_backwards_whatever_is_raised_is_the_last(given: Callable[[Any], Any]) -> None:
    class Refusing(Places):
        def __getitem__(self, place: int) -> int:
            if place == 1:
                raise ValueError(place)
            return super().__getitem__(place)

    def program(it: Any, x: torch.Tensor) -> Any:
        it, taken = it if isinstance(it, reversed) else reversed(it), []
        try:
            for v in it:
                taken.append(v)
        except ValueError:
            taken.append(-1)
        return x * 2, taken, next(it, "none")

    found = []
    for fn in (program, capture.compile(program)):
        it = given(Refusing())
        doubled, *others = fn(it, X)
        found.append((doubled.tolist(), others, list(it) if isinstance(it, reversed) else None))
    assert found[0] == found[1]


def test_shared_inner_is_moved_once() -> None:
    def program(a: Any, b: Any, x: torch.Tensor) -> Any:
        return next(a), next(b), next(a), next(b), x + 1

    def call(fn: Any) -> Any:
        inner = iter(range(10))
        outer = enumerate(inner)
        return fn(inner, outer, X)[:4], list(inner), next(outer, None)

    assert call(capture.compile(program, fullgraph=True)) == call(program)


def test_changed_while_iterated() -> None:
    def program(it: Any, items: Any, x: torch.Tensor) -> Any:
        a = next(it)
        items.append(7)
        return a, list(it), x + 1

    def call(fn: Any) -> Any:
        items = [1, 2]
        it = iter(items)
        return fn(it, items, X)[:2], items, list(it)

    assert call(capture.compile(program)) == call(program)


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
def test_dictionary_changed_after_it_was_taken_from(kind: Any) -> None:
    def program(it: Any, d: Any, x: torch.Tensor) -> Any:
        a = next(it)
        d["new"] = x + 1
        return a

    def call(fn: Any) -> Any:
        d = kind({"a": 1, "b": 2})
        it = iter(d)
        result = fn(it, d, X)
        try:
            return result, next(it)
        except RuntimeError as error:
            return result, str(error)

    assert call(capture.compile(program, fullgraph=True)) == call(program)


def test_loop_with_a_break_has_few_captures() -> None:
    def program(x: torch.Tensor, rows: list[torch.Tensor]) -> torch.Tensor:
        for i, row in enumerate(rows):
            x = x + row
            compile("0", "", "eval")
            x = x * (i + 1)
        return x

    rows = [torch.full((3,), float(k)) for k in range(12)]
    compiled = capture.compile(program)
    assert torch.equal(compiled(X, rows), program(X, rows))
    assert capture.report(compiled).frames <= 6


def _twice(v: Any, calls: list[Any]) -> Any:
    calls.append(v)
    return v * 2


def _pairs_of_one() -> tuple[Any, ...]:
    inner = iter(range(20))
    return zip(inner, inner), inner


def _numbered_pairs_of_one() -> tuple[Any, ...]:
    inner = iter(range(20))
    pairs = zip(inner, inner)
    return enumerate(pairs), pairs, inner


def _of_mapped(join: Callable[..., Any]) -> Callable[[], tuple[Any, ...]]:
    def build() -> tuple[Any, ...]:
        calls: list[Any] = []
        inner = iter(range(20))
        return join(map(functools.partial(_twice, calls=calls), inner)), inner, calls

    return build


def _strict_and_uneven() -> tuple[Any, ...]:
    longer, shorter = iter(range(5)), iter(range(2))
    return zip(shorter, longer, strict=True), zip(longer, shorter), longer


@pytest.mark.parametrize(
    "build", [_pairs_of_one, _numbered_pairs_of_one, _of_mapped(zip), _of_mapped(enumerate), _strict_and_uneven]
)
def test_iterators_over_the_same(build: Callable[[], tuple[Any, ...]]) -> None:
    def program(iterators: Any, x: torch.Tensor) -> Any:
        return [next(it, None) for it in (*iterators, *iterators) if not isinstance(it, list)], x + 1

    def call(fn: Any) -> Any:
        iterators = build()
        results: list[Any] = []
        for _ in range(4):
            try:
                results.append((shown(fn(iterators, X)), *(x.copy() for x in iterators if isinstance(x, list))))
            except ValueError as error:
                results.append(str(error))
        return results, [x if isinstance(x, list) else list(x) for x in iterators[::-1]]

    assert call(capture.compile(program)) == call(program)


@pytest.mark.parametrize(
    "build", [lambda d: iter(d), lambda d: enumerate(d.items()), lambda d: zip(set(d), d.values())]
)
def test_dictionary_changed_before_the_call(build: Callable[[Any], Any]) -> None:
    def program(it: Any, x: torch.Tensor) -> Any:
        return x + 1, next(it)

    def call(fn: Any) -> Any:
        d = {1: 2, 3: 4, 5: 6}
        it = build(d)
        results = [fn(it, X)[1]]
        d[7] = 8
        for _ in range(2):
            with pytest.raises(RuntimeError, match="changed size"):
                fn(it, X)
        return results

    assert call(capture.compile(program)) == call(program)
