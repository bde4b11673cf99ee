"""Whether a module's own code gives one of its names another value once it has one.

In: a module's globals and a name. Out: whether some function of the module stores it, or its body does so more than once.
"""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Iterator
from typing import Any

from .trace_rules import is_library_line


def is_settled(namespace: dict[str, Any], name: str) -> bool:
    """Whether no code of the module gives the name another value, as far as all its code is in sight.

    Of torch, of the standard library and of modules in C it goes without saying.
    """
    file, module = namespace.get("__file__"), namespace.get("__name__")
    if module != "__main__" and (not isinstance(file, str) or not file.endswith(".py") or is_library_line(file)):
        return module in sys.modules
    bodies = list(_bodies(namespace))
    if module == "__main__" and not bodies:
        return False  # typed in piece by piece, or another thread's
    if any(_stores(body, name, "STORE_NAME", "DELETE_NAME") > 1 for body in bodies):
        return False
    seen: set[int] = set()
    return not any(_rebinds(code, name, seen) for code in _codes(namespace))


def _bodies(namespace: dict[str, Any]) -> Iterator[types.CodeType]:
    """The code of the module itself, where that is still being run."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals is namespace and frame.f_code.co_name == "<module>":
            yield frame.f_code


def _codes(namespace: dict[str, Any]) -> Iterator[types.CodeType]:
    """The code of the functions that are in a module, and in its classes."""
    waiting, seen = list(namespace.values()), set[int]()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, types.FunctionType):
            if value.__globals__ is namespace:
                yield value.__code__
            waiting.append(value.__dict__.get("__wrapped__"))
        elif isinstance(value, staticmethod | classmethod):
            waiting.append(value.__func__)
        elif isinstance(value, property):
            waiting += [value.fget, value.fset, value.fdel]
        elif isinstance(value, type) and value.__module__ == namespace.get("__name__"):
            waiting += value.__dict__.values()


def _rebinds(code: types.CodeType, name: str, seen: set[int]) -> bool:
    if id(code) in seen:
        return False
    seen.add(id(code))
    if _stores(code, name, "STORE_GLOBAL", "DELETE_GLOBAL"):
        return True
    return any(_rebinds(each, name, seen) for each in code.co_consts if isinstance(each, types.CodeType))


def _stores(code: types.CodeType, name: str, *operations: str) -> int:
    if name not in code.co_names:
        return 0
    return sum(each.opname in operations and each.argval == name for each in dis.get_instructions(code))
