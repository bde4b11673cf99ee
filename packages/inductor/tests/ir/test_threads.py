"""Bodies that several threads record at once are each thread's own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest
import sympy
import torch

from inductor.ir.body import Body, record
from inductor.ops import install, ops

I0, R0 = sympy.symbols("i r", integer=True, nonnegative=True)


def test_a_handler_is_its_threads_alone() -> None:
    refused: list[str] = []

    def ask() -> None:
        try:
            ops.constant(1.0, torch.float32)
        except RuntimeError as error:
            refused.append(str(error))

    with install(object()):
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    assert refused == ["ops.constant called with no handler installed"]


@pytest.fixture
def hasty() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty")
def test_bodies_recorded_at_once() -> None:
    made: list[tuple[int, Body]] = []

    def write(count: int) -> None:
        def body(outer: list[sympy.Symbol], inner: list[sympy.Symbol]) -> None:
            value = ops.load("x", outer[0] * 8 + inner[0])
            for _ in range(count):
                value = ops.add(value, value)
            ops.store("y", outer[0], ops.reduce("sum", value))

        for _ in range(30):
            made.append((count, record(body, [I0], [R0], lambda name: torch.float32)))

    threads = [threading.Thread(target=write, args=(count,)) for count in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 150 and all(len(body.ops) == count + 3 for count, body in made)
