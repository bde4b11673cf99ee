"""The methods behind the operators, called by name, and operators on instances of subclasses of built-in types: as plain Python has them."""

from __future__ import annotations

import collections
import enum
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture


class Plain:
    """One without any of them."""

    def __repr__(self) -> str:
        return "plain"


class Reflected:
    """One that takes everything, and says by which method."""

    __eq__ = lambda s, o: "eq"  # type: ignore[assignment]  # noqa: E731
    __ne__ = lambda s, o: "ne"  # type: ignore[assignment]  # noqa: E731
    __lt__ = __gt__ = __le__ = __ge__ = lambda s, o: "order"
    __add__ = __mul__ = __or__ = __sub__ = lambda s, o: "left"
    __radd__ = __rmul__ = __ror__ = __rsub__ = __rmod__ = lambda s, o: "right"
    __repr__ = lambda s: "reflected"  # noqa: E731


class Counts:
    """One that is an index."""

    def __index__(self) -> int:
        return 2

    def __repr__(self) -> str:
        return "counts"


class Once:
    """An iterator."""

    def __init__(self, left: list[Any]) -> None:
        self.left = left

    def __iter__(self) -> Once:
        return self

    def __next__(self) -> Any:
        if not self.left:
            raise StopIteration
        return self.left.pop()

    def __repr__(self) -> str:
        return "once"


class Numbers(list):  # type: ignore[type-arg]
    """One that hands on."""

    def __eq__(self, other: object) -> Any:
        return super().__eq__(other)

    def __add__(self, other: Any) -> Any:
        return super().__add__(other)


class Own(list):  # type: ignore[type-arg]
    """One with a say of its own."""

    __eq__ = lambda s, o: "own eq"  # type: ignore[assignment]  # noqa: E731
    __radd__ = lambda s, o: "own radd"  # noqa: E731


class Level(enum.IntEnum):
    """A number."""

    LOW = 1


List, Dict, Set, Int, Float, Text, Pair = (
    type(f"My{kind.__name__}", (kind,), {}) for kind in (list, dict, set, int, float, str, tuple)
)
MAKERS: dict[str, Callable[[], Any]] = {
    "list": lambda: [1], "tuple": lambda: (1,), "dict": lambda: {1: 2}, "set": lambda: {1}, "frozenset": lambda: frozenset([1]),
    "int": lambda: 1, "float": lambda: 1.5, "bool": lambda: True, "text": lambda: "a%s", "bytes": lambda: b"a", "None": lambda: None,
    "deque": lambda: collections.deque([1]), "ordered": lambda: collections.OrderedDict({1: 2}), "keys": lambda: {1: 2}.keys(),
    "values": lambda: {1: 2}.values(), "items": lambda: {1: 2}.items(), "range": lambda: range(3), "plain": Plain,
    "List": lambda: List([1]), "Dict": lambda: Dict({1: 2}), "Set": lambda: Set([1]), "Int": lambda: Int(1), "Float": lambda: Float(1.5),
    "Text": lambda: Text("a"), "Pair": lambda: Pair((1,)), "Numbers": lambda: Numbers([1]), "Own": lambda: Own([1]),
    "level": lambda: Level.LOW, "reflected": Reflected, "counts": Counts, "iterator": lambda: Once([1]),
}  # fmt: skip
METHODS = [
    "__eq__",
    "__lt__",
    "__add__",
    "__rmul__",
    "__rsub__",
    "__ror__",
    "__mod__",
    "__divmod__",
    "__iadd__",
    "__ior__",
]
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda a, b: a == b, "<": lambda a, b: a < b, "+": lambda a, b: a + b, "*": lambda a, b: a * b,
    "-": lambda a, b: a - b, "|": lambda a, b: a | b, "%": lambda a, b: a % b,
}  # fmt: skip


def _plus(a: Any, b: Any) -> Any:
    a += b
    return a


def _or(a: Any, b: Any) -> Any:
    a |= b
    return a


OPERATORS |= {"+=": _plus, "|=": _or}


#: An ordered dictionary has other words where it is given no pairs; a text that has no place in it comes to itself, of its own class,
#: and one of bytes is a break.
UNLIKE = {"__ior__": ["ordered"], "|=": ["ordered"], "__mod__": ["Text"], "%": ["Text", "bytes"]}


def told(value: Any) -> Any:
    """What a result is."""
    if isinstance(value, set | frozenset):
        return type(value), sorted(map(repr, value))
    return type(value), repr(value)


def differences(operate: Callable[[Any, Any], Any], make: Callable[[], Any], others: dict[str, Any]) -> list[str]:
    """What comes of an operation on one value and each of others, where it is something else captured."""

    def run(x: torch.Tensor) -> Any:
        out = []
        for make_other in others.values():
            try:
                out.append(operate(make(), make_other()))
            except Exception as error:
                out.append((type(error), str(error)))
        return x + 1, out

    capture.reset()
    x = torch.ones(2)
    expected, got = run(x)[1], capture.compile(run)(x)[1]
    pairs = zip(others, map(told, expected), map(told, got), strict=True)
    return [f"{name}: {one}, captured {other}" for name, one, other in pairs if one != other]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", METHODS)
def test_called_by_name(name: str) -> None:
    leave = ("reflected", "iterator", "range", *UNLIKE.get(name, ()))
    found = {
        owner: differences(lambda a, b: getattr(a, name)(b), make, MAKERS)
        for owner, make in MAKERS.items()
        if owner not in leave
    }
    assert not any(found.values()), found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("symbol", OPERATORS)
def test_operators_of_subclasses(symbol: str) -> None:
    of_subclasses = {name: make for name, make in MAKERS.items() if name[0].isupper()}
    found = {
        left: differences(OPERATORS[symbol], make, MAKERS if left in of_subclasses else of_subclasses)
        for left, make in MAKERS.items()
        if left not in UNLIKE.get(symbol, ())
    }
    assert not any(found.values()), found


def test_what_is_not_taken_breaks_no_graph() -> None:
    def fn(x: torch.Tensor) -> Any:
        told = [1].__eq__(None), (1).__eq__("a"), (1).__add__(1.5), {1}.__or__([1]), {}.__eq__([]), [x].__eq__((x,))
        told += (
            x.shape[0].__add__(2.5),
            (2).__mul__(Plain()),
            "a".__eq__(Plain()),
            object().__ne__(1),
            None.__eq__(Plain()),
        )
        told += list.__eq__([1], ()), dict.__or__({}, None), int.__add__(1, 2.5), Numbers([1]).__eq__(3)
        return x + 1, told

    x = torch.ones(3)
    assert capture.compile(fn, fullgraph=True)(x)[1] == fn(x)[1]


def test_a_view_and_an_iterator() -> None:
    def fn(x: torch.Tensor) -> Any:
        made = {1: 2, 3: 4}
        return x + 1, made.items() | iter([1, 2]), made.keys() | made.values(), made.keys() ^ made.values()

    x = torch.ones(3)
    assert capture.compile(fn, fullgraph=True)(x)[1:] == fn(x)[1:]


def test_a_symbolic_number_stays_one() -> None:
    def fn(x: torch.Tensor) -> Any:
        n = x.shape[0]
        return x * n.__add__(1), n.__mul__(2.5), n.__eq__("a")

    compiled = capture.compile(fn, fullgraph=True, dynamic=True)
    for size in (3, 4, 5):
        x = torch.ones(size)
        expected, got = fn(x), compiled(x)
        assert torch.equal(expected[0], got[0]) and expected[1:] == got[1:]
    assert len(capture.report(compiled).graphs) == 1


class _Times(int):
    def __rmul__(self, other: Any) -> Any:
        return "rmul", other, int(self)

    def __index__(self) -> int:
        return 2


class _Joins(dict):  # type: ignore[type-arg]
    def __or__(self, other: Any) -> Any:
        return NotImplemented

    def __ror__(self, other: Any) -> Any:
        return "ror"


class _Adds(list):  # type: ignore[type-arg]
    def __radd__(self, other: Any) -> Any:
        return "radd", other, list(self)


class _Refuses:
    def __add__(self, other: Any) -> Any:
        return NotImplemented

    def __radd__(self, other: Any) -> Any:
        return "radd"


class _Inherits(_Refuses):
    pass


ONE = [1]
IN_ORDER: dict[str, Callable[[], Any]] = {
    "a list times what multiplies": lambda: [2] * _Times(3),
    "a tuple times what multiplies": lambda: (1,) * _Times(2),
    "a text times what multiplies": lambda: "a" * _Times(2),
    "what multiplies times a list": lambda: _Times(3) * [1],
    "two of one class": lambda: _Times(3) * _Times(2),
    "two dictionaries of one class": lambda: _Joins() | _Joins(),
    "a dictionary and one of a class": lambda: {} | _Joins(),
    "one of a class and a dictionary": lambda: _Joins() | {},
    "a list and one of a class": lambda: ONE + _Adds([2]),
    "two lists of one class": lambda: _Adds([1]) + _Adds([2]),
    "two that refuse": lambda: _Refuses() + _Refuses(),
    "one that refuses and one that inherits": lambda: _Refuses() + _Inherits(),
    "one that inherits and one that refuses": lambda: _Inherits() + _Refuses(),
}


@pytest.mark.parametrize("name", IN_ORDER)
def test_who_is_asked(name: str) -> None:
    def outcome(do: Callable[[], Any]) -> str:
        try:
            return repr(do())
        except TypeError as error:
            return str(error)

    compiled = capture.compile(lambda x: (x + 1, IN_ORDER[name]()))
    assert outcome(lambda: compiled(torch.ones(2))[1]) == outcome(IN_ORDER[name])
