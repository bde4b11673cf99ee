"""Objects of every kind that a frame makes and hands out, whole or across a graph break: what eager gives, to the last field."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import itertools
import threading
import types
import typing
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture


class Int(int):
    def __init__(self, *args: Any) -> None:
        self.note = 1


class Text(str):
    pass


class Pair(tuple):
    def __new__(cls, a: Any, b: Any) -> Pair:
        return super().__new__(cls, (a, b))


class Twice(list):
    def __init__(self, a: Any) -> None:
        super().__init__([a, a])
        self.note = 3


class Table(dict):
    def __init__(self, **items: Any) -> None:
        super().__init__(**items)
        self.note = 4


class Ring(collections.deque):
    pass


class Defaults(collections.defaultdict):
    pass


class Ordered(collections.OrderedDict):
    pass


class Users(collections.UserDict):
    pass


class Named(typing.NamedTuple):
    a: int
    b: Any = 2


class Colour(enum.Flag):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Plain:
    a: Any
    b: int = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: Any


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a: Any) -> None:
        self.a = a


class WithError(Exception):
    def __init__(self, a: Any, extra: Any) -> None:
        super().__init__(a)
        self.extra = extra


class PerThread(threading.local):
    def __init__(self, a: Any) -> None:
        self.a = a


class Space(types.SimpleNamespace):
    pass


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def in_handler(y: Any) -> BaseException:
    try:
        raise KeyError("first")
    except KeyError:
        try:
            raise ValueError("second")
        except ValueError as caught:
            return caught


MAKERS: dict[str, Callable[[Any], Any]] = {
    "SimpleNamespace": lambda y: types.SimpleNamespace(y=y, k=1),
    "empty SimpleNamespace": lambda y: types.SimpleNamespace(),
    "subclass of SimpleNamespace": lambda y: Space(y=y),
    "int": lambda y: Int(3),
    "str": lambda y: Text("a"),
    "tuple": lambda y: Pair(y, 1),
    "list": lambda y: Twice(y),
    "dict": lambda y: Table(a=y),
    "deque": lambda y: Ring([y, y], 1),
    "defaultdict": lambda y: Defaults(list, {1: y}),
    "OrderedDict": lambda y: Ordered(a=y),
    "Counter": lambda y: collections.Counter("aab"),
    "UserDict": lambda y: Users(a=y),
    "namedtuple": lambda y: Named(1, y),
    "Flag": lambda y: Colour.RED | Colour.BLUE,
    "dataclass": lambda y: Plain(y),
    "frozen": lambda y: Frozen(y),
    "slots": lambda y: Slots(y),
    "exception": lambda y: WithError("a", y),
    "OSError": lambda y: OSError(2, "no", "file"),
    "StopIteration": lambda y: StopIteration(y),
    "SystemExit": lambda y: SystemExit(3),
    "UnicodeDecodeError": lambda y: UnicodeDecodeError("utf8", b"a", 0, 1, "reason"),
    "SyntaxError": lambda y: SyntaxError("m", ("f", 1, 2, "t")),
    "ImportError": lambda y: ImportError("m", name="n"),
    "AttributeError": lambda y: AttributeError("m", name="n", obj=1),
    "ExceptionGroup": lambda y: ExceptionGroup("m", [ValueError(1)]),
    "raised": lambda y: raised(ValueError(1)),
    "raised in a handler": in_handler,
    "partial": lambda y: functools.partial(torch.add, y, other=1),
    "threading.local": lambda y: PerThread(y),
    "cell": lambda y: types.CellType(y),
    "islice": lambda y: itertools.islice([y, y], 1),
    "class": lambda y: type("Made", (), {"a": 1}),
}


def described(value: Any) -> Any:
    """Type, contents, attributes and what C keeps, comparable."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, type):
        return value.__name__, value.__mro__[1:]
    found: list[Any] = [type(value)]
    if isinstance(value, dict | collections.UserDict):
        found += [(k, described(v)) for k, v in value.items()]
    elif isinstance(value, list | tuple | collections.deque):
        found += [getattr(value, "maxlen", None), *map(described, value)]
    elif isinstance(value, int | str):
        found.append(repr(value))
    elif isinstance(value, functools.partial):
        found += [value.func, described(value.args), described(value.keywords)]
    elif isinstance(value, types.CellType):
        found.append(described(value.cell_contents))
    elif isinstance(value, BaseException):
        lines = value.__traceback__ and [value.__traceback__.tb_lineno, value.__traceback__.tb_frame.f_code.co_name]
        found += [described(value.args), lines, described(value.__context__), type(value.__cause__)]
        fields = ("errno", "filename", "name", "obj", "code", "value", "msg", "lineno", "reason", "exceptions")
        found += [described(getattr(value, name, None)) for name in fields]
    for name in (*getattr(value, "__dict__", {}), *getattr(type(value), "__slots__", ())):
        found.append((name, described(getattr(value, name, "unset"))))
    return found


@pytest.mark.parametrize("name", MAKERS)
def test_escaping_object(name: str) -> None:
    make = MAKERS[name]

    def whole(x: torch.Tensor) -> Any:
        made = make(x + 1)
        return made, x * 2

    def broken(x: torch.Tensor) -> Any:
        made = make(x + 1)
        compile("0", "", "eval")
        return made, x * 2

    x = torch.ones(2)
    for fn in (whole, broken):
        compiled = capture.compile(fn)
        expected, _ = fn(x)
        for _ in range(2):
            made, doubled = compiled(x)
            assert described(made) == described(expected)
            assert torch.equal(doubled, x * 2)
            if isinstance(made, itertools.islice):
                assert [y.tolist() for y in made] == [[2.0, 2.0]]


def test_attributes_that_code_in_c_keeps() -> None:
    local = PerThread(torch.ones(2))

    def fn(x: torch.Tensor) -> torch.Tensor:
        local.b = x + local.a
        return local.b * 2

    compiled = capture.compile(fn)
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 4.0))
    assert torch.equal(local.b, torch.full((2,), 2.0))
    seen: list[Any] = []
    thread = threading.Thread(
        target=lambda: seen.append(PerThread.__init__(local, torch.zeros(2)) or compiled(torch.ones(2)))
    )
    thread.start()
    thread.join()
    assert torch.equal(seen[0], torch.full((2,), 2.0))
