"""Whether a module's own code gives one of its names, or an attribute, another value once it has one.

In: a module's globals and a name. Out: whether some function of the module stores it, or its body does so more than once; of an attribute,
whether a function does that makes no object, or one that is being run has it before it.
"""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Iterable, Iterator
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


#: Tables of functions have fewer entries.
_LARGE = 1000
#: What gives a new object its attributes.
_MAKING = frozenset({"__init__", "__post_init__", "__new__", "__setstate__"})


def is_settled_attribute(namespaces: Iterable[dict[str, Any]], name: str) -> bool:
    """Whether no code of these modules is seen to give anything's attribute another value, but to an object that it makes.

    Functions that are being run, and modules' bodies, count from where they are.
    """
    seen: set[int] = set()
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        seen.add(id(frame.f_code))
        if not is_library_line(frame.f_code.co_filename) and _sets_from(frame.f_code, name, frame.f_lasti):
            return False
        frame = frame.f_back
    return not any(_sets(code, name, seen) for namespace in namespaces for code in _codes(namespace))


def _sets(code: types.CodeType, name: str, seen: set[int]) -> bool:
    if id(code) in seen:
        return False
    seen.add(id(code))
    if code.co_name not in _MAKING and any(_stores_attribute(code, name)):
        return True
    return any(_sets(each, name, seen) for each in code.co_consts if isinstance(each, types.CodeType))


def _sets_from(code: types.CodeType, name: str, last: int) -> bool:
    stored = list(_stores_attribute(code, name))
    if not stored:
        return False
    back = [each.argval for each in dis.get_instructions(code) if "BACKWARD" in each.opname and each.offset > last]
    return any(offset > last or any(start <= offset for start in back) for offset in stored)


def _stores_attribute(code: types.CodeType, name: str) -> Iterator[int]:
    """Where a code object does, or names the attribute to what may."""
    if name in code.co_names:
        for each in dis.get_instructions(code):
            if each.opname in ("STORE_ATTR", "DELETE_ATTR") and each.argval == name:
                yield each.offset
    if name in code.co_consts and not {"setattr", "delattr", "__dict__", "vars"}.isdisjoint(code.co_names):
        for each in dis.get_instructions(code):
            if each.opname == "LOAD_CONST" and each.argval == name:
                yield each.offset


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
        elif isinstance(value, dict) and len(value) < _LARGE:
            waiting += value.values()
        elif isinstance(value, list | tuple) and len(value) < _LARGE:
            waiting += value


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
