"""Whether some of the program's objects lead to others: through containers, attributes, closures and defaults.

Not through what classes and modules hold: whoever reads that is told of it by itself. No code of the program runs for it.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

_ENDS = (str, bytes, int, float, complex, type(None), type, types.ModuleType, types.BuiltinFunctionType, torch.Tensor)
#: The flag of classes that a class statement has made.
_MADE = 1 << 9
_CONTAINERS = (list, tuple, set, frozenset)


def may_reach(starts: Iterable[Any], is_wanted: Callable[[Any], bool], most: int = 10_000) -> bool:
    """Whether a wanted object is found from ``starts``, or more than ``most`` are to be looked at."""
    waiting, seen = list(starts), set[int]()
    while waiting:
        value = waiting.pop()
        if is_wanted(value):
            return True
        if id(value) in seen or issubclass(type(value), _ENDS):
            continue
        seen.add(id(value))
        if len(seen) > most:
            return True
        waiting += _parts(value)
    return False


def _parts(value: Any) -> list[Any]:
    cls, found = type(value), []
    if issubclass(cls, dict):
        found += [*dict.keys(value), *dict.values(value)]
    for base in _CONTAINERS:
        if issubclass(cls, base):
            found += base.__iter__(value)
    if cls is types.FunctionType:
        found += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        for cell in value.__closure__ or ():
            with contextlib.suppress(ValueError):  # it is empty
                found.append(cell.cell_contents)
    elif cls is types.MethodType:
        found += [value.__self__, value.__func__]
    for made in cls.__mro__ if cls.__flags__ & _MADE else ():
        for entry in made.__dict__.values():
            if type(entry) is types.MemberDescriptorType:
                with contextlib.suppress(AttributeError):
                    found.append(entry.__get__(value))
    with contextlib.suppress(AttributeError):
        own = object.__getattribute__(value, "__dict__")
        found += dict.values(own) if type(own) is dict else [own]
    return found
