"""Objects that are no tensors and say what torch's functions make of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from overriding import Diagonal, MoreDiagonal, NotingAll, Quantity, check, count

import capture


class OfItself:
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return "itself"


class Static:
    @staticmethod
    def __torch_function__(func, types, args=(), kwargs=None):
        return 3


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]], int]] = {
    "a function": (lambda q: torch.mul(q, 2).value, lambda: (Quantity(count(3), "m"),), 1),
    "operators": (lambda q, x: (q + x, x + q), lambda: (Quantity(count(3), "m"), count(3)), 1),
    "a function in Python": (lambda q: F.relu(q), lambda: (Quantity(count(3), "m"),), 1),
    "made in the frame": (lambda x: torch.exp(Quantity(x, "m")).value + x, lambda: (count(3),), 1),
    "matrices": (
        lambda d, x: (d @ x, torch.mm(d, x), F.linear(x, d), x + d, torch.trace(d)),
        lambda: (Diagonal(count(3)), count(3, 3)),
        1,
    ),
    "two classes": (lambda d, e: torch.add(d, e), lambda: (Diagonal(count(3)), MoreDiagonal(count(3))), 1),
    "to a method": (lambda d, x: x.add(d), lambda: (Diagonal(count(3)), count(3, 3)), 1),
    "a method of the object": (lambda d: torch.sum(d), lambda: (OfItself(),), 0),
    "a static method": (lambda d: torch.sum(d), lambda: (Static(),), 0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    fn, make, graphs = PROGRAMS[name]
    check(fn, make, graphs=graphs)


def test_under_a_mode() -> None:
    check(lambda d, x: torch.mm(d, x), lambda: (Diagonal(count(3)), count(3, 3)), NotingAll)


def test_nobody_takes_it() -> None:
    class Refuses:
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match=r"torch\.sum"):
        capture.compile(lambda d: torch.sum(d))(Refuses())


def test_changes_are_noticed() -> None:
    class Changing:
        unit = "m"

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return cls.unit

    f = capture.compile(lambda q: torch.mul(q, 2))
    assert f(Changing()) == "m"
    Changing.unit = "s"
    assert f(Changing()) == "s"
    Changing.__torch_function__ = classmethod(lambda cls, *args: "new")  # type: ignore[method-assign]
    assert f(Changing()) == "new"
