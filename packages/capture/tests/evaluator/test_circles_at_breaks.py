"""Objects that hold each other are made once, whichever of them goes over a break first."""

from __future__ import annotations

from collections import UserList
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture


class Box:
    pass


@capture.disable
def outside() -> None:
    pass


def passed_on(*args: Any) -> Any:
    first, *args = args  # type: ignore[assignment]
    outside()
    return first


def boxes(x: torch.Tensor) -> Any:
    a: Any = Box()
    b: Any = Box()
    a.it, b.it = b, a
    passed_on(1, a, b)
    return x + 1, a.it is b, b.it is a


def lists(x: torch.Tensor) -> Any:
    a: Any = UserList()
    b: Any = UserList()
    a.append(b)
    b.append(a)
    passed_on(1, a, b)
    a.append(17)
    return x + 1, a.data[0] is b, b.data[0] is a, len(b.data[0])


def three(x: torch.Tensor) -> Any:
    a: Any = [1]
    b: Any = {"a": a}
    c: Any = Box()
    c.b = b
    c.it = a
    a.append(c)
    d: Any = [b, c]
    a.append(d)
    passed_on(c, b, a, d)
    passed_on(d, a)
    return x + 1, a[1] is c, c.b is b, b["a"] is a, c.it is a, a[2] is d, d[0] is b, d[1] is c


@pytest.mark.parametrize("program", [boxes, lists, three])
def test_each_is_made_once(program: Callable[[torch.Tensor], Any]) -> None:
    compiled, x = capture.compile(program), torch.ones(2)
    for _ in range(2):
        assert compiled(x)[1:] == program(x)[1:]
