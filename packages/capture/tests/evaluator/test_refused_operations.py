"""What the interpreter refuses to do with a value, it refuses captured with the same exception and words."""

from __future__ import annotations

import collections
import functools
import itertools
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture


class Plain:
    pass


class Places:
    def __len__(self) -> int:
        return 2

    def __getitem__(self, place: int) -> int:
        return [1, 2][place]


class Unwilling:
    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Any:
        raise TypeError("not today")


def numbered() -> Any:
    yield 1
    yield 2


#: Made anew for each question: some are used up by it.
KINDS: dict[str, Callable[[], Any]] = {
    "list iterator": lambda: iter([1, 2]),
    "tuple iterator": lambda: iter((1, 2)),
    "text iterator": lambda: iter("ab"),
    "range iterator": lambda: iter(range(2)),
    "dict iterator": lambda: iter({1: 2, 3: 4}),
    "values iterator": lambda: iter({1: 2}.values()),
    "set iterator": lambda: iter({1, 2}),
    "reversed list": lambda: reversed([1, 2]),
    "reversed places": lambda: reversed(Places()),
    "places iterator": lambda: iter(Places()),
    "enumerate": lambda: enumerate([1, 2]),
    "zip": lambda: zip([1, 2], [3, 4]),
    "map": lambda: map(abs, [1, 2]),
    "filter": lambda: filter(None, [1, 2]),
    "generator": numbered,
    "chain": lambda: itertools.chain([1], [2]),
    "repeat": lambda: itertools.repeat(3, 2),
    "None": lambda: None,
    "int": lambda: 3,
    "bool": lambda: True,
    "float": lambda: 1.5,
    "complex": lambda: 1j,
    "Ellipsis": lambda: ...,
    "text": lambda: "ab",
    "bytes": lambda: b"ab",
    "list": lambda: [1],
    "tuple": lambda: (1,),
    "dict": lambda: {1: 2},
    "set": lambda: {1},
    "frozenset": lambda: frozenset({1}),
    "keys": lambda: {1: 2}.keys(),
    "values": lambda: {1: 2}.values(),
    "mappingproxy": lambda: types.MappingProxyType({1: 2}),
    "deque": lambda: collections.deque([1]),
    "size": lambda: torch.Size([1]),
    "object": Plain,
    "unwilling": Unwilling,
    "module": torch.nn.ReLU,
    "namespace": lambda: types.SimpleNamespace(a=1),
    "function": lambda: numbered,
    "class": lambda: Plain,
    "int class": lambda: int,
    "built-in": lambda: len,
    "method": lambda: Plain().__eq__,
    "partial": lambda: functools.partial(numbered),
    "slice": lambda: slice(1, 2),
    "exception": lambda: ValueError("a"),
    "dtype": lambda: torch.float32,
    "device": lambda: torch.device("cpu"),
    "code": lambda: numbered.__code__,
}


def outcome(ask: Callable[[], Any]) -> str:
    try:
        found = ask()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return repr(found) if isinstance(found, int | str | list | dict | type) else type(found).__name__


def set_item(v: Any, key: Any) -> None:
    v[key] = 1


def delete_item(v: Any, key: Any) -> None:
    del v[key]


def set_slice(v: Any, step: int | None) -> list[int]:
    found = [1, 2, 3]
    found[::step] = v
    return found


def unpack(v: Any) -> Any:
    a, _b = v
    return a


def update(v: Any) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    try:
        found.update([(1, 2), v])
    except Exception as error:
        found["error"] = str(error)
    return found


def keywords(**kwargs: Any) -> dict[str, Any]:
    return kwargs


def add_to(v: Any) -> Any:
    v += 2
    return type(v)


def many_times(v: Any) -> list[int]:
    found = [1, 2]
    found *= v
    return found


def asked(v: Any) -> list[str]:
    return [
        outcome(lambda: len(v)),
        outcome(lambda: "a" in v),
        outcome(lambda: v[0]),
        outcome(lambda: v["a"]),
        outcome(lambda: v[:1]),
    ]


def changed(v: Any) -> list[str]:
    return [
        outcome(lambda: set_item(v, 0)),
        outcome(lambda: set_item(v, "a")),
        outcome(lambda: delete_item(v, 0)),
        outcome(lambda: delete_item(v, "a")),
        outcome(lambda: add_to(v)),
    ]


def unpacked(v: Any) -> list[str]:
    return [outcome(lambda: unpack(v))]


def displayed(v: Any) -> list[str]:
    return [outcome(lambda: [*v]), outcome(lambda: {**v})]


def called_with(v: Any) -> list[str]:
    return [outcome(lambda: max(*v)), outcome(lambda: keywords(**v))]


def joined(v: Any) -> list[str]:
    return [outcome(lambda: ",".join(v)), outcome(lambda: update(v)), outcome(lambda: dict(v))]


def assigned(v: Any) -> list[str]:
    return [outcome(lambda: set_slice(v, None)), outcome(lambda: set_slice(v, 2))]


def called(v: Any) -> list[str]:
    return [outcome(lambda: v(1, 2, 3)), outcome(lambda: v(nothing=1))]


def hashed(v: Any) -> list[str]:
    return [outcome(lambda: {}[v] if type(v).__hash__ is None else 0), outcome(lambda: len({v}))]


def index(v: Any) -> list[str]:
    return [outcome(lambda: [1, 2, 3, 4][v]), outcome(lambda: [1, 2, 3, 4][:v]), outcome(lambda: range(v))]


def computed(v: Any) -> list[str]:
    return [
        outcome(lambda: v + "a"),
        outcome(lambda: "a" + v),
        outcome(lambda: v * []),
        outcome(lambda: [] * v),
        outcome(lambda: many_times(v)),
        outcome(lambda: v % 2),
        outcome(lambda: divmod(v, 2)),
        outcome(lambda: 2 < v),
        outcome(lambda: -v),
    ]


QUESTIONS = (
    asked, changed, unpacked, displayed, called_with, joined, assigned, called, hashed, index, computed,
)  # fmt: skip


@pytest.mark.parametrize("ask", QUESTIONS, ids=lambda ask: ask.__name__)
def test_refused_in_the_same_words(ask: Callable[[Any], list[str]]) -> None:
    def compute(x: torch.Tensor, v: Any) -> Any:
        return x + 1, ask(v)

    for kind, make in KINDS.items():
        capture.reset()
        compiled = capture.compile(compute)
        assert compiled(torch.ones(2), make())[1] == ask(make()), kind


class Pairs:
    def __iter__(self) -> Any:
        return iter([("a", 1), ("b", 2)])


class Falling:
    def __getattr__(self, name: str) -> Any:
        if name == "keys":
            return lambda: ["q"]
        raise AttributeError(name)

    def __getitem__(self, key: str) -> int:
        return 6


def one_pair_too_short() -> Any:
    yield "a", 1
    yield ("b",)


def test_what_is_taken_for_a_mapping() -> None:
    def compute(x: torch.Tensor, pairs: Any, falling: Any) -> Any:
        partly: dict[str, int] = {}
        return x + 1, [
            outcome(lambda: {**pairs}),
            outcome(lambda: {**falling}),
            outcome(lambda: keywords(**pairs)),
            outcome(lambda: keywords(**falling)),
            outcome(lambda: keywords(**[("a", 1)])),  # type: ignore[arg-type]
            outcome(lambda: partly.update(one_pair_too_short())),
            dict(partly),
        ]

    assert (
        capture.compile(compute)(torch.ones(2), Pairs(), Falling())[1] == compute(torch.ones(2), Pairs(), Falling())[1]
    )


def test_tensors_refused_by_built_in_functions() -> None:
    def compute(x: torch.Tensor) -> Any:
        return x + 1, outcome(lambda: divmod(x, 2)), outcome(lambda: round(x)), reversed(x) + 1

    x = torch.arange(3.0)
    one, other = compute(x), capture.compile(compute)(x)
    assert one[1:3] == other[1:3]
    assert torch.equal(one[3], other[3])


def test_what_watches_autograd_is_told_by_what_it_does() -> None:
    """And not by the name that a function of C has, of many words that say nothing."""

    def kept(x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
            return x.sin()

    def looked_at(x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.set_detect_anomaly(True):
            return x.sin()

    for program, words in ((kept, "hooks on what autograd saves"), (looked_at, "anomaly mode")):
        compiled, x = capture.compile(program), torch.ones(3, requires_grad=True)
        assert torch.equal(compiled(x), program(x))
        found = capture.report(compiled).breaks
        assert found and all(words in each.reason and each.cause.id == "B319" for each in found)
