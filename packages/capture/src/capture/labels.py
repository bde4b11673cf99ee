"""Texts about objects, for messages: the program's own ways of telling are not asked, which may notice, or raise."""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

_module: Callable[[type], Any] = vars(type)["__module__"].__get__
_qualified: Callable[[type], str] = vars(type)["__qualname__"].__get__

HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: not compiled into the interpreter
_LONG = (10**sys.int_info.str_digits_check_threshold).bit_length()


def place_of(cls: type) -> tuple[str, str]:
    """A class's module, empty if it tells none, and its qualified name."""
    try:
        module = _module(cls)
    except AttributeError:
        return "", _qualified(cls)
    return module if isinstance(module, str) else "", _qualified(cls)


def label_of(value: Any) -> str:
    """The qualified name of an object, or its name; empty if it has none that is a text."""
    kind = type(value)
    if issubclass(kind, type):
        return _qualified(value)
    if issubclass(kind, types.ModuleType):
        found = types.ModuleType.__getattribute__(value, "__dict__").get("__name__")
    elif not type.__getattribute__(kind, "__flags__") & HEAP_TYPE:
        found = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    else:
        try:
            own = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return ""
        found = (own.get("__qualname__") or own.get("__name__")) if type(own) is dict else None
    return found if isinstance(found, str) else ""


class Told:
    """The words for an object that nothing here keeps alive, and the object as long as others do."""

    __slots__ = ("reference", "words")

    def __init__(self, value: Any, words: str) -> None:
        self.words = words
        try:
            self.reference: Callable[[], Any] = weakref.ref(value)
        except TypeError:
            self.reference = _nothing

    def now(self) -> Any:
        """The object. Raises ``LookupError`` if it is gone."""
        value = self.reference()
        if value is None:
            raise LookupError(f"{self.words} is gone")
        return value

    def __repr__(self) -> str:
        return self.words


def _nothing() -> None:
    return None


def is_long(number: int) -> bool:
    """Whether an integer has so many digits that a setting limits its text, and a module makes it that programs may patch."""
    return number.bit_length() >= _LONG


def written(value: Any, how: Callable[[Any], str] = repr) -> str:
    """The text of a literal; of integers that are too long to be written, in it too, that it has them."""
    if type(value) is int and is_long(value):
        return f"an integer of {value.bit_length()} bits"
    try:
        return how(value)
    except ValueError:
        return f"a {type(value).__name__} of long integers"
