"""Attributes of `threading.local`: each thread's own, in the graph and where it is run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture


class Counter(threading.local):
    kind = 7

    def __init__(self) -> None:
        self.count = 1

    @property
    def twice(self) -> int:
        return self.count * 2

    def add(self, more: int) -> int:
        self.count += more
        return self.count


COUNTER = Counter()
PLAIN = threading.local()


def told(x: torch.Tensor) -> Any:
    COUNTER.extra = 5
    COUNTER.count += 1
    y = x * COUNTER.count + COUNTER.twice + COUNTER.kind + COUNTER.add(2)
    PLAIN.count = getattr(PLAIN, "count", 0) + 1
    found = [hasattr(COUNTER, "none"), COUNTER.extra, sorted(vars(COUNTER)), PLAIN.count, y.tolist()]
    del COUNTER.extra
    for act in (lambda: COUNTER.none, lambda: delattr(COUNTER, "none")):
        try:
            act()
        except AttributeError as error:
            found.append(str(error))
    return found


def in_threads(fn: Callable[..., Any]) -> list[Any]:
    vars(COUNTER).clear()
    vars(PLAIN).clear()
    COUNTER.__init__()
    found = [fn(torch.ones(2)) for _ in range(4)]

    def other() -> None:
        PLAIN.count = 10
        found.append((fn(torch.ones(2)), dict(vars(COUNTER)), dict(vars(PLAIN))))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    return [*found, dict(vars(COUNTER)), dict(vars(PLAIN))]


def test_each_thread_has_its_own() -> None:
    compiled = capture.compile(told, fullgraph=True)
    assert in_threads(compiled) == in_threads(told)


class Shouting(threading.local):
    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name.upper(), value)


class Asked(threading.local):
    def __getattribute__(self, name: str) -> Any:
        return name if name.startswith("ask") else super().__getattribute__(name)

    def __getattr__(self, name: str) -> Any:
        return f"no {name}"


@pytest.mark.parametrize("kind", [Shouting, Asked])
def test_classes_with_ways_of_their_own(kind: Any) -> None:
    def fn(x: torch.Tensor, local: Any) -> Any:
        local.size = x.shape[0]
        return (x * 2).tolist(), getattr(local, "ask", None), getattr(local, "size", None), getattr(local, "SIZE", None)

    compiled = capture.compile(fn)
    for n in (2, 2, 3):
        plain, made = kind(), kind()
        assert compiled(torch.ones(n), made) == fn(torch.ones(n), plain)
        assert vars(made) == vars(plain)


class Slotted(threading.local):
    __slots__ = ("size",)


def test_slots_are_of_all_threads() -> None:
    def fn(x: torch.Tensor, local: Any) -> Any:
        local.size, local.other = x.shape[0], 1
        return x * local.size, local.other

    compiled = capture.compile(fn, fullgraph=True)
    for n in (2, 2, 3):
        made = Slotted()
        assert compiled(torch.ones(n), made)[0].tolist() == [n] * n
        assert (made.size, vars(made)) == (n, {"other": 1})
