"""Whether a fact holds of a value now, asked in Python while a frame is evaluated: the native program asks it at calls."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from capture._native import exactly_equal
from capture.sources import PLAIN_KEYS

from .kinds import GuardKind

#: Classes of tables whose look-ups run nothing of the program's.
_TABLES = frozenset({dict, collections.OrderedDict})


def _has(value: Any, key: Any) -> bool | None:
    """Whether a table has a key; None where asking could run code of the program's."""
    if not isinstance(value, dict) or type(key) not in PLAIN_KEYS:
        return None
    return dict.__contains__(value, key)


def _is_empty_at(value: Any, names: tuple[str, ...]) -> bool:
    if type(value) is not dict:
        return False
    for name in names:
        table = value.get(name)
        if type(table) not in _TABLES or table:
            return False
    return True


def _has_keys(value: Any, names: tuple[Any, ...]) -> bool:
    if not isinstance(value, dict) or len(value) != len(names):
        return False
    keys = [*dict.keys(value)]
    return all(type(key) is str for key in keys) and keys == [*names]


#: What is asked of a value, by kind; a kind that is missing is not asked here.
_HOLDS: dict[GuardKind, Callable[[Any, Any], bool]] = {
    GuardKind.TYPE: lambda value, expected: type(value) is expected,
    GuardKind.BOUND: lambda value, expected: type(value) is expected,
    GuardKind.ID: lambda value, expected: value is expected,
    GuardKind.EQUALS: lambda value, expected: value is expected or exactly_equal(value, expected),
    GuardKind.LEN: lambda value, expected: type(value) in (list, tuple, str, *_TABLES) and len(value) == expected,
    GuardKind.DICT_KEYS: _has_keys,
    GuardKind.HAS_KEY: lambda value, expected: _has(value, expected) is True,
    GuardKind.NO_KEY: lambda value, expected: _has(value, expected) is False,
    GuardKind.NO_KEYS: lambda value, expected: type(value) is dict and value.keys().isdisjoint(expected),
    GuardKind.EMPTY_AT: _is_empty_at,
}
#: The kinds that are asked here: of one value, without running anything of the program's.
ASKED = frozenset(_HOLDS)


def holds(kind: GuardKind, value: Any, expected: Any) -> bool:
    """Whether a value is as a fact of one of these kinds says; False, too, where only the program's code could tell."""
    return _HOLDS[kind](value, expected)
