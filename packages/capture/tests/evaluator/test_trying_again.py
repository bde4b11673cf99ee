"""Loops that try again what broke the graph: what handles the exception gives values to locals, or takes them, and comes back to the break."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import capture


@capture.disable
def aside(n: int = 1) -> int:
    if n == 0:
        raise ValueError(n)
    return n


def within(n: int, x: Any) -> Any:
    y = x + 1
    aside(n)
    return y * 2


def gives_a_value(x: Any) -> Any:
    n = 0
    while True:
        try:
            aside(n)
            break
        except ValueError:
            z = x + 1
            n = 1
    return z


def never_raises(x: Any) -> Any:
    n = 1
    while True:
        try:
            aside(n)
            break
        except ValueError:
            z = x + 1
            n = 1
    return z


def goes_on(x: Any) -> Any:
    n = 0
    noted = []
    while True:
        try:
            v = aside(n)
        except ValueError as error:
            z = x + 1
            n = 1
            noted.append(str(error))
            continue
        else:
            break
        finally:
            noted.append(n)
    return z + v, noted


def takes_a_value(x: Any) -> Any:
    z = x
    n = 0
    while True:
        try:
            aside(n)
            break
        except ValueError:
            del z
            n = 1
    return z


def in_what_is_called(x: Any) -> Any:
    n = 0
    while True:
        try:
            y = within(n, x)
            break
        except ValueError:
            z = x + 1
            n = 1
    return z + y


def in_turn(x: Any) -> Any:
    n = 0
    for i in range(4):
        try:
            y = within(i % 2, x)
            if i == 1:
                z = y
        except ValueError:
            w = x + 1
            n += 1
        x = x + 1
    return z + w, n


def of_a_frame_within(x: Any) -> Any:
    y = x * 2
    return gives_a_value(y) + y


def in_a_cell(x: Any) -> Any:
    def read() -> Any:
        return z

    aside()
    n = 0
    while True:
        try:
            aside(n)
            break
        except ValueError:
            z = x + 1
            n = 1
    return z + read()


def twice(x: Any) -> Any:
    aside()
    n = 0
    while True:
        try:
            y = within(n, x)
            aside(n - 1)
            break
        except ValueError:
            n += 1
            k = x * n
            aside()
            k = k + 1
    return k, y, n


def reads_what_has_no_value(x: Any) -> Any:
    t = x * 2
    while True:
        try:
            u = u + 1  # type: ignore[has-type]  # noqa: F821
            break
        except UnboundLocalError:
            u = t + t
    return u


PROGRAMS = [
    gives_a_value, never_raises, goes_on, takes_a_value, in_what_is_called, in_turn, of_a_frame_within, in_a_cell, twice,
    reads_what_has_no_value,
]  # fmt: skip


@pytest.mark.parametrize("fn", PROGRAMS)
@pytest.mark.parametrize("sparse", [False, True])
def test_what_handles_it_comes_back(fn: Any, sparse: bool) -> None:
    def outcome(call: Any) -> str:
        x = torch.arange(4.0).reshape(2, 2)
        try:
            return repr(call(x.to_sparse() if sparse else x))
        except Exception as error:
            return repr(error)

    compiled = capture.compile(fn)
    for _ in range(3):
        assert outcome(compiled) == outcome(fn)
