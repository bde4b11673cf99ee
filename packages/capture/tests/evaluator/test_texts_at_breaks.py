"""Texts that the program computes are objects of their own after a graph break and where they are given back, as in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture

TEXT = "a3"
LONG = "a3 b"
LIST = "a3,b3,a3"


@capture.disable
def aside(*values: Any) -> None:
    """The graph breaks here."""


class Told:
    def __str__(self) -> str:
        return "a3"


TOLD = Told()


def concatenated(n: int) -> list[str]:
    return ["a" + str(n), "a" + str(n), TEXT]


def formatted(n: int) -> list[str]:
    return [f"a{n}", f"a{n}", "a{}".format(n), "a%d" % n, f"{TEXT}", "%s" % TEXT, str(TEXT)]  # noqa: UP031, UP032


def told(n: int) -> list[str]:
    return [f"{TOLD}{n}", "%s!" % TOLD, "{}{}".format(TOLD, n)]  # noqa: UP031, UP032


def sliced(n: int) -> list[str]:
    return [LONG[:2], LONG[:2], LONG[:], LONG[n - 3 :], LONG]


def joined(n: int) -> list[str]:
    return ["".join(["a", str(n)]), "".join([TEXT]), ",".join([TEXT, TEXT])]


def in_a_list(n: int) -> list[str]:
    return [*LIST.split(","), *LIST.partition(",")]


def by_methods(n: int) -> list[str]:
    return ["A3".lower(), TEXT.strip(), TEXT.replace("z", "y"), TEXT.upper()]


def digits(n: int) -> list[str]:
    return [str(n), repr(n), f"{n}", "3"]


def twice(n: int) -> list[str]:
    text = "a" + str(n)
    return [text, text, *[text] * 2]


PROGRAMS = [concatenated, formatted, told, sliced, joined, in_a_list, by_methods, digits, twice]


def one_break(x: torch.Tensor, texts: Callable[[int], list[str]], n: int) -> Any:
    found = texts(n)
    first, last = found[0], found[-1]
    aside()
    return x + 1, found, [each is TEXT for each in found], [first is last, first is TEXT, last is LONG]


def two_breaks(x: torch.Tensor, texts: Callable[[int], list[str]], n: int) -> Any:
    first = texts(n)[0]
    aside(first)
    second = first is TEXT
    aside()
    return x + 1, second, first is TEXT, first is first


def no_break(x: torch.Tensor, texts: Callable[[int], list[str]], n: int) -> Any:
    return x + 1, texts(n), {"found": texts(n)}


def within_a_call(x: torch.Tensor, texts: Callable[[int], list[str]], n: int) -> Any:
    def within(text: str) -> bool:
        aside()
        return text is TEXT

    return x + 1, within(texts(n)[0])


def alike(result: Any) -> Any:
    """The result, and which of its texts are one object."""
    texts: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, str):
            texts.append(value)
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
            look(each)

    look(result)
    return str(result), [[a is b for a in [*texts, TEXT, LONG]] for b in texts]


@pytest.mark.parametrize("texts", PROGRAMS)
@pytest.mark.parametrize("fn", [one_break, two_breaks, no_break, within_a_call])
def test_texts(fn: Callable[..., Any], texts: Callable[[int], list[str]]) -> None:
    x, compiled = torch.ones(2), capture.compile(fn)
    for n in (3, 3, 3):
        assert alike(compiled(x, texts, n)) == alike(fn(x, texts, n))
