"""Programs that see when objects die, and what compares them with plain Python: by weak references, finalizers and counts of references."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import capture

LOG: list[Any] = []
"""What a program tells."""
STATE: dict[str, Any] = {}
"""What is held outside of it, under a name."""
Program = Callable[[torch.Tensor], Any]


class Programs(list[Program]):
    """Those of one file, each noted by a decorator."""

    def __call__(self, fn: Program) -> Program:
        self.append(fn)
        return fn


def line() -> int:
    """Where the program is that lets go of what calls this."""
    return sys._getframe(2).f_lineno


class Plain:
    held: Any


class Last:
    """Says when it dies."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __del__(self) -> None:
        LOG.append((self.name, line()))


HOLDER = Plain()


@capture.disable
def tell(word: str) -> None:
    """A graph break."""
    LOG.append(word)


@capture.disable
def made(cls: Callable[..., Any], *args: Any) -> Any:
    """What nobody else holds, from a call that breaks the graph."""
    return cls(*args)


def closing() -> Iterator[int]:
    try:
        yield 1
        yield 2
    finally:
        LOG.append(("closed", line()))


def told(fn: Program) -> list[Any]:
    """What a program gives and tells, with new objects in `STATE` and `HOLDER`."""
    STATE.clear()
    STATE["last"] = HOLDER.held = Last("from outside")
    HOLDER.held = Last("held")
    STATE["reference"] = weakref.ref(STATE["last"])
    gc.collect()
    LOG.clear()
    result = fn(torch.ones(2))
    seen = list(LOG)
    return [str(result), seen]


def assert_told_alike(fn: Program) -> None:
    """Compiled, a program tells what it does in plain Python, each time."""
    expected = told(fn)
    compiled = capture.compile(fn)
    for _ in range(3):
        assert told(compiled) == expected


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left() -> Iterator[None]:
    """What programs put into `STATE` and `HOLDER` says when it dies, while there is still somebody to tell."""
    yield
    STATE.clear()
    vars(HOLDER).clear()
