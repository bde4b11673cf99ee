"""NaNs as keys: each is equal to itself alone, as the object that it is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

import capture

NAN = float("nan")
COMPLEX = [complex(NAN, 1) for _ in range(2)]


class First:
    """Holds one."""

    key = NAN
    number = COMPLEX[0]


class Second:
    """Holds another."""

    key = float("nan")
    number = COMPLEX[1]


def in_dictionaries(x: torch.Tensor, o: Any) -> Any:
    o.table[First.key] = 3
    o.table[Second.key] = 4
    return x * len(o.table), First.key in o.table, o.table.get(NAN), {First.number: 1, Second.number: 2}


def in_sets(x: torch.Tensor, o: Any) -> Any:
    kept = {First.key}
    kept.add(Second.key)
    kept.discard(NAN)
    return x + len(kept), kept, {First.key, Second.key, NAN}


def told(fn: Any) -> list[Any]:
    """What it gives, and which of the keys are in what it gives."""
    o, found = SimpleNamespace(table={}), []
    keys = [First.key, Second.key, First.number, Second.number]
    for _ in range(3):
        x, *rest = fn(torch.ones(1), o)
        held = [[key in each for key in keys] for each in (*rest, o.table) if isinstance(each, dict | set)]
        found.append((x.tolist(), held, len(o.table), [len(each) for each in rest if isinstance(each, dict | set)]))
    return found


@pytest.mark.parametrize("fn", [in_dictionaries, in_sets])
def test_those_of_classes(fn: Any) -> None:
    assert told(capture.compile(fn, fullgraph=True)) == told(fn)


def test_another_in_the_same_place_is_noticed() -> None:
    class Changing:
        key = NAN

    def fn(x: torch.Tensor, o: Any) -> Any:
        return x + 1, {NAN: 5}.get(Changing.key), {NAN: 6}.get(o.key)

    compiled, o = capture.compile(fn, fullgraph=True), SimpleNamespace()
    for key in (NAN, float("nan"), NAN):
        Changing.key, o.key = key, NAN
        assert compiled(torch.ones(1), o)[1:] == fn(torch.ones(1), o)[1:]
        Changing.key, o.key = NAN, key
        assert compiled(torch.ones(1), o)[1:] == fn(torch.ones(1), o)[1:]
