"""Classes whose metaclass says what they are equal to, and maybe has no hash for them: nobody asks it that the program does not ask."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import capture

ASKED: list[Any] = []


class Comparing(type):
    """What Python takes the hash away from, by the ``__eq__``."""

    def __eq__(cls, other: object) -> bool:
        ASKED.append(cls.__name__)
        return cls is other

    def __matmul__(cls, other: Any) -> Any:
        return other * 2

    def __instancecheck__(cls, value: Any) -> bool:
        ASKED.append("instance")
        return super().__instancecheck__(value)


class Hashing(Comparing):
    def __call__(cls, *args: Any) -> Any:
        ASKED.append("call")
        return super().__call__(*args)

    def __eq__(cls, other: object) -> bool:
        return super().__eq__(other)

    def __hash__(cls) -> int:
        ASKED.append("hash")
        return 1


class Telling(type):
    def __getattr__(cls, name: str) -> Any:
        ASKED.append(name)
        raise AttributeError(name)

    def __setattr__(cls, name: str, value: Any) -> None:
        ASKED.append(name)
        super().__setattr__(name, value)


class Named(int):
    def __getattr__(self, name: str) -> Any:
        ASKED.append(name)
        raise AttributeError(name)

    def __repr__(self) -> str:
        ASKED.append("repr")
        return "named"


class A(metaclass=Comparing):
    v = 1


class Told(metaclass=Telling):
    named = Named(2)


class B(metaclass=Hashing):
    def __init__(self, v: Any) -> None:
        self.v = v


class Doubling(nn.Module, metaclass=Comparing):
    def forward(self, x):
        return x * 2


class Integer(int, metaclass=Comparing):
    pass


class Error(Exception, metaclass=Comparing):
    pass


@dataclasses.dataclass
class Data(metaclass=Comparing):
    v: int = 1


a, b, doubling, integer, data, told = A(), B(2), Doubling(), Integer(3), Data(), Told()


@functools.singledispatch
def dispatched(value: Any) -> int:
    return 1


def makes(x):
    return x, B(x).v, type(A()) is A, Data(3), isinstance(A(), A), Integer(4) + 1


def hashes(x):
    return x, {A: 1}


def hashes_by_its_own(x):
    return x, {B: 1}[B], B in {A.v, 2}, {B, int}


def compares(x):
    return x, A == A, A != B, A in [B, A], [A, B].index(B)


def operates(x):
    return A @ x


def is_given_one(x):
    return x + b.v, a, integer + 1, data.v, isinstance(a, A), type(b) is B


def changes_one(x):
    b.v = x + 1
    return b.v * 2


def calls_a_module(x):
    return doubling(x)


def raises(x):
    try:
        raise Error(x)
    except Error as error:
        return error.args[0] + 1


def dispatches(x):
    return x, dispatched(a)


def derives(x):
    class C(B):
        def __init__(self, v):
            super().__init__(v + 1)

    return C(x).v, C == B


def makes_data(x):
    @dataclasses.dataclass
    class C(metaclass=Hashing):
        v: Any = 1

    return C(x).v


def makes_told_data(x):
    @dataclasses.dataclass
    class C(metaclass=Telling):
        v: Any = 1

    return C(x).v


def makes_told_orders(x):
    @functools.total_ordering
    class C(metaclass=Telling):
        def __lt__(self, other):
            return True

    return C() < C(), x


def makes_data_of_a_named(x):
    @dataclasses.dataclass
    class C:
        v: Any = Told.named

    return C().v + x


def is_given_told(x):
    return x + Told().named, told.named, told


PROGRAMS = [
    makes_data, makes_told_data, makes_told_orders, makes_data_of_a_named, is_given_told, makes, hashes, hashes_by_its_own, compares, operates, is_given_one, changes_one, calls_a_module, raises, dispatches, derives,
]  # fmt: skip


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_is_asked_as_the_program_asks(fn: Callable[..., Any]) -> None:
    def outcome(call: Callable[..., Any]) -> str:
        ASKED.clear()
        b.v = 2
        seen = []
        for k in range(3):
            try:
                seen.append(str(call(torch.ones(2) + k)).split(" object at")[0])
            except TypeError as error:
                seen.append(str(error))
        return str([seen, ASKED])

    assert outcome(capture.compile(fn)) == outcome(fn)
