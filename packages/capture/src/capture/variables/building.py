"""Which function makes the variable of a real value: registered beside each family, found by the value's class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from capture.errors import Unsupported
from capture.sources import Attr, Const, Source

from .base import Interpreter, Variable
from .families import meet_class
from .placeholders import Lazy

#: Takes the interpreter, the value and where it was read (None: its identity is fixed); adds the guards on what it is.
BuildFunction = Callable[[Interpreter, Any, Source | None], Variable]

#: Of exactly these classes.
_EXACT: dict[type, BuildFunction] = {}
#: Of these classes and those made from them.
_INHERITED: dict[type, BuildFunction] = {}
#: Of classes that are none of these, by a question.
_OTHERS: list[tuple[Callable[[type], bool], BuildFunction]] = []

#: Takes the interpreter and a value that was computed for real: nothing else has it.
Convert = Callable[[Interpreter, Any], Variable]
#: Of exactly these classes.
_COMPUTED: dict[type, Convert] = {}


def _add(table: dict[type, Any], classes: tuple[type, ...], function: Any) -> None:
    for cls in classes:
        if cls in table:
            raise ValueError(f"{cls.__qualname__} has a builder already")
        table[cls] = function


def builds(*classes: type, subclasses: bool = False) -> Callable[[BuildFunction], BuildFunction]:
    """Register how values of these classes, and maybe of their subclasses, become variables.

    Raises ``ValueError`` for a class that has a builder.
    """
    table = _INHERITED if subclasses else _EXACT

    def register(builder: BuildFunction) -> BuildFunction:
        _add(table, classes, builder)
        return builder

    return register


def converts(*classes: type) -> Callable[[Convert], Convert]:
    """Register how fresh values of exactly these classes, computed for real, become variables.

    Those of all other classes are objects of fixed identity. Raises ``ValueError`` for a class that has a function for it.
    """

    def register(convert: Convert) -> Convert:
        _add(_COMPUTED, classes, convert)
        return convert

    return register


def converter_of(cls: type) -> Convert | None:
    """How a value of a class that was computed for real becomes a variable; None if it is known by its identity."""
    found = _COMPUTED.get(cls)
    return _COMPUTED.get(cls) if found is None and meet_class(cls) else found


def unregister(*classes: type) -> None:
    """Take the builders of exactly these classes away again, and how they are converted; raises ``KeyError`` where there is none."""
    for cls in classes:
        del _EXACT[cls]
        _COMPUTED.pop(cls, None)


def builds_where(applies: Callable[[type], bool]) -> Callable[[BuildFunction], BuildFunction]:
    """Register how values become variables whose class no other builder is for, and that ``applies`` says yes to."""

    def register(builder: BuildFunction) -> BuildFunction:
        _OTHERS.append((applies, builder))
        return builder

    return register


def builder_of(cls: type) -> BuildFunction | None:
    """By the class that a value has, whatever it claims; None for instances of any other class."""
    found = _EXACT.get(cls)
    if found is not None:
        return found
    if meet_class(cls):
        return builder_of(cls)
    for base in cls.__mro__:
        found = _INHERITED.get(base)
        if found is not None:
            return found
    return next((builder for applies, builder in _OTHERS if applies(cls)), None)


def part(source: Source | None, name: str) -> Source:
    """Where an attribute of an input is read."""
    if source is None:
        raise Unsupported(f"attribute {name!r} of unknown origin")
    return Attr(source, name)


def known_part(value: Any, name: str) -> Source:
    """The same of an object of fixed identity."""
    return Attr(Const(value, getattr(value, "__name__", "")), name)


def lazy(value: Any, source: Source | None) -> Variable:
    """An input to be looked at when needed."""
    if source is None:
        raise Unsupported("input of unknown origin")
    return Lazy(value, source)
