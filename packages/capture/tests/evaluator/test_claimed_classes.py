"""``isinstance`` of objects whose own ``__getattribute__`` says what ``__class__`` is: asked as Python asks it, within the graph."""

from __future__ import annotations

import abc
from typing import Any

import pytest
import torch

import capture


class Renamed:
    """As configurations of libraries do: some names are other names of an attribute."""

    names = {"size": "width"}

    def __init__(self) -> None:
        self.width = 2

    def __getattribute__(self, key: str) -> Any:
        if key != "names" and key in super().__getattribute__("names"):
            key = super().__getattribute__("names")[key]
        return super().__getattribute__(key)


class Other:
    pass


class Claims:
    def __getattribute__(self, key: str) -> Any:
        return Other if key == "__class__" else object.__getattribute__(self, key)


class Classless:
    def __getattribute__(self, key: str) -> Any:
        if key == "__class__":
            raise AttributeError("none")
        return object.__getattribute__(self, key)


class Abstract(abc.ABC):
    pass


Abstract.register(Other)


def asked(x: torch.Tensor, value: Any) -> tuple[torch.Tensor, list[Any]]:
    answers: list[Any] = [isinstance(value, c) for c in (dict, Other, Renamed, (list, Claims), type(value))]
    for ask in (lambda: value.__class__, lambda: isinstance(value, Abstract)):
        try:
            answers.append(ask())
        except AttributeError as error:
            answers.append(str(error))
    return x + 1, answers


@pytest.mark.parametrize("cls", [Renamed, Claims, Classless, Other])
def test_asked_as_python_does(cls: type) -> None:
    x = torch.ones(2)
    assert capture.compile(asked, fullgraph=True)(x, cls())[1] == asked(x, cls())[1]
