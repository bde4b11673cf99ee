"""Functions that remember, called with objects of the program's own that hash and compare by what they hold: one graph."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import pytest
import torch

import capture

Log = list[str]


@dataclasses.dataclass(frozen=True)
class Spec:
    size: int
    axes: tuple[str, ...] = ()


class Frozen(dict[str, Any]):
    """As a frozen dictionary is written: it keeps its hash."""

    kept = -1

    def __hash__(self) -> int:  # type: ignore[override]
        if self.kept != -1:
            return self.kept
        found = hash(frozenset(self.items()))
        object.__setattr__(self, "kept", found)
        return found


class Backend:
    """Hashed by its identity, said in words of its own."""

    scale = 3

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


class Counting:
    """Whoever compares it is counted."""

    asked = 0

    def __init__(self, n: int) -> None:
        self.n = n

    def __hash__(self) -> int:
        return self.n

    def __eq__(self, other: object) -> bool:
        Counting.asked += 1
        return isinstance(other, Counting) and self.n == other.n


BACKEND = Backend()
SPEC = Spec(3, ("a",))
SPECS = (Spec(1), ("a", SPEC))


def remembering(**settings: Any) -> tuple[Callable[..., Any], list[Any]]:
    calls: list[Any] = []

    @functools.lru_cache(**settings)
    def plan(spec: Any, more: Hashable = 1, **named: Any) -> int:
        return spec.size if isinstance(spec, Spec) else spec["n"] * getattr(spec.get("by"), "scale", 1)

    return plan, calls


def made_here(plan: Any, x: torch.Tensor) -> Any:
    return x * plan(Spec(x.shape[0], ("a", "b")))


def in_a_tuple(plan: Any, x: torch.Tensor) -> Any:
    return x * plan(Spec(2), (Spec(1), "a"), by=Spec(5))


class Pair(NamedTuple):
    first: Spec
    second: int = 2


def in_named_tuples(plan: Any, x: torch.Tensor) -> Any:
    return x * plan(Spec(2), Pair(Spec(x.dim())), by=Pair(Spec(1), x.shape[0]))


def in_a_tuple_from_outside(plan: Any, x: torch.Tensor) -> Any:
    return x * plan(SPEC, SPECS)


def from_outside(plan: Any, x: torch.Tensor) -> Any:
    return x * plan(SPEC)


def a_frozen_dictionary(plan: Any, x: torch.Tensor) -> Any:
    return x * plan(Frozen(n=x.dim(), by=BACKEND), BACKEND)


PROGRAMS = [
    made_here,
    in_a_tuple,
    in_named_tuples,
    in_a_tuple_from_outside,
    from_outside,
    a_frozen_dictionary,
]


@pytest.mark.parametrize("settings", [{"maxsize": None}, {"maxsize": 8}, {"maxsize": None, "typed": True}])
@pytest.mark.parametrize("fn", PROGRAMS)
def test_one_graph_that_counts_as_the_program(fn: Any, settings: dict[str, Any]) -> None:
    plan, other = remembering(**settings)[0], remembering(**settings)[0]
    compiled = capture.compile(fn, fullgraph=True, dynamic=False)
    for size in (2, 2, 3, 2, 3):
        x = torch.ones(size)
        assert torch.equal(compiled(plan, x), fn(other, x))
    assert plan.cache_info() == other.cache_info()  # type: ignore[attr-defined]


def test_a_memory_that_is_emptied_is_asked_again() -> None:
    plan, other = remembering()[0], remembering()[0]
    compiled = capture.compile(made_here, dynamic=False)
    for _ in range(2):
        for _ in range(3):
            assert torch.equal(compiled(plan, torch.ones(2)), made_here(other, torch.ones(2)))
        assert plan.cache_info() == other.cache_info()  # type: ignore[attr-defined]
        plan.cache_clear()  # type: ignore[attr-defined]
        other.cache_clear()  # type: ignore[attr-defined]


def test_what_an_argument_holds_counts() -> None:
    def fn(x: torch.Tensor, spec: Spec) -> torch.Tensor:
        return x * plan(spec)

    plan = remembering()[0]
    compiled, spec = capture.compile(fn, dynamic=False), Spec(2)
    x = torch.ones(2)
    assert compiled(x, spec)[0] == 2
    assert compiled(x, Spec(2))[0] == 2
    assert compiled(x, Spec(5))[0] == 5
    object.__setattr__(spec, "size", 7)
    assert compiled(x, spec)[0] == 7


def test_keys_that_do_more_than_tell_are_left_to_the_program() -> None:
    @functools.lru_cache
    def plan(key: Counting) -> int:
        return key.n

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * plan(Counting(2))

    compiled = capture.compile(fn)
    asked = []
    for call in (fn, compiled, compiled, fn):
        before = Counting.asked
        call(torch.ones(2))
        asked.append(Counting.asked - before)
    assert asked == [0, 1, 1, 1]


def test_objects_that_hash_by_their_ids() -> None:
    def fn(x: torch.Tensor) -> Any:
        mine = Backend()
        table = {mine: 1, BACKEND: 2}
        told = hash((BACKEND, 1)) != -1, hash(BACKEND) == id(BACKEND)
        return x * table[BACKEND], table[mine], Backend() in table, len({mine, BACKEND, mine}), told

    compiled = capture.compile(fn, fullgraph=True)
    for _ in range(2):
        assert str(compiled(torch.ones(2))) == str(fn(torch.ones(2)))


def test_first_calls_that_break_do_so_once() -> None:
    said: Log = []

    @functools.lru_cache
    def plan(spec: Spec) -> int:
        said.append("once")
        return spec.size

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * plan(Spec(2))

    compiled = capture.compile(fn)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    assert said == ["once"]
    assert plan.cache_info()[:2] == (2, 1)
    assert len(capture.report(compiled).breaks) == 1


def test_what_is_done_once_is_not_captured() -> None:
    def read(n: int) -> int:
        with open(__file__) as file:
            return n + len(file.read(0))

    @functools.lru_cache
    def plan(spec: Spec) -> int:
        return read(spec.size) + read(0)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * plan(Spec(2))

    compiled = capture.compile(fn)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    report = capture.report(compiled)
    assert len(report.breaks) == 1
    assert "does once" in str(report)
    assert plan.cache_info()[:2] == (2, 1)


def test_keys_of_the_frame_that_are_equal_to_nothing_else() -> None:
    """What it was asked with ahead is not found again: it was called once more for each capture."""

    @functools.lru_cache
    def scale_of(backend: Backend) -> int:
        return backend.scale

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x * scale_of(Backend())

    compiled = capture.compile(fn)
    for calls in (1, 2, 3):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0))
        assert scale_of.cache_info()[:2] == (0, calls)


def test_numbers_that_are_none_are_other_keys_each() -> None:
    """One of them was said to be remembered for another, of the same bits."""

    @functools.lru_cache
    def held(k: float) -> list[float]:
        return [k]

    def fn(x: torch.Tensor, k: float) -> Any:
        return x + 1, held(k), held((k, 1)[0])

    compiled, x = capture.compile(fn), torch.ones(2)
    given = [float("nan"), float("nan"), float("nan")]
    found = [compiled(x, k)[1:] for k in (*given, given[0])]
    assert all(first is second for first, second in found)
    assert len({id(first) for first, _ in found}) == 3
    assert held.cache_info()[:2] == (5, 3)


@pytest.mark.parametrize(
    "key_of", [lambda x, key: key, lambda x, key: x.shape, lambda x, key: torch.return_types.max((1, 2))]
)
def test_tuples_of_classes_that_make_their_own(key_of: Callable[..., Any]) -> None:
    """`tuple.__new__` refuses those of torch, which was an internal error."""

    @functools.lru_cache
    def held(key: Any) -> list[Any]:
        return [key]

    def fn(x: torch.Tensor, key: torch.Size) -> Any:
        return x + 1, held(key_of(x, key))

    compiled, x, key = capture.compile(fn), torch.ones(1, 2), torch.Size((1, 2))
    for hits in range(3):
        (found,) = compiled(x, key)[1]
        assert found == (1, 2) and type(found) is type(key_of(x, key))
        assert held.cache_info()[:2] == (hits, 1)
