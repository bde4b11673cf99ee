"""Whether a module's own code gives one of its names, or an attribute, another value once it has one, or changes what that holds.

In: a module's globals and a name. Out: whether some function of the module stores it, or its body does so more than once; of an attribute,
whether a function does that makes no object, or one that is being run has it before it; of a container, whether some code has it by this
name and stores items, or calls what changes such a thing; of a variable of a function around another, whether a function within stores it.
"""

from __future__ import annotations

import collections
import dis
import sys
import types
from collections.abc import Callable, Iterable, Iterator
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

    Functions that are being run, and modules' bodies, count from where they are. What the setter of a property stores, those do who
    store the property.
    """
    namespaces = list(namespaces)
    running = list(_running())
    setters = _setters(namespaces)
    found, waiting = {name}, [name]
    while waiting:
        one = waiting.pop()
        seen: set[int] = set()
        for code, is_ahead in running:
            seen.add(id(code))
            if any(is_ahead(offset) for offset in _stores_attribute(code, one)):
                return False
        for code in (code for namespace in namespaces for code in _codes(namespace)):
            if _sets(code, one, seen):
                properties = setters.get(code)
                if properties is None or any(_sets(each, one, set()) for each in _within(code)):
                    return False
                waiting += properties - found
                found |= properties
    return True


def _setters(namespaces: Iterable[dict[str, Any]]) -> dict[types.CodeType, set[str]]:
    """The setters of properties in the modules' classes, with the properties' names."""
    found: dict[types.CodeType, set[str]] = {}
    for namespace in namespaces:
        for cls in list(namespace.values()):
            if isinstance(cls, type) and cls.__module__ == namespace.get("__name__"):
                for name, value in list(vars(cls).items()):
                    setter = value.fset if isinstance(value, property) else None
                    if isinstance(setter, types.FunctionType):
                        found.setdefault(setter.__code__, set()).add(name)
    return found


def is_settled_content(namespaces: Iterable[dict[str, Any]], name: str, kind: type) -> bool:
    """Whether no code of these modules is seen to change what a container holds that it has by this name, but as an object is made.

    Code that is being run counts from where it is.
    """
    changing = _changing(kind)
    codes = (code for code in _of_modules(namespaces) if code.co_name not in _MAKING)
    return not any(any(_changes(code, name, changing)) for code in codes) and not any(
        any(is_ahead(offset) for offset in _changes(code, name, changing)) for code, is_ahead in _running()
    )


def is_settled_variable(namespaces: Iterable[dict[str, Any]], name: str) -> bool:
    """Whether no function of these modules stores a variable of this name of the function around it, nor one that is being run from where it is."""
    codes = (code for code in _of_modules(namespaces) if name in code.co_freevars)
    return not any(any(_stores_variable(code, name)) for code in codes) and not any(
        any(is_ahead(offset) for offset in _stores_variable(code, name)) for code, is_ahead in _running()
    )


def _of_modules(namespaces: Iterable[dict[str, Any]]) -> Iterator[types.CodeType]:
    """All code of the modules' functions, and of those within them."""
    seen: set[int] = set()
    waiting = [code for namespace in namespaces for code in _codes(namespace)]
    while waiting:
        code = waiting.pop()
        if id(code) not in seen:
            seen.add(id(code))
            yield code
            waiting += _within(code)


def _running() -> Iterator[tuple[types.CodeType, Callable[[int], bool]]]:
    """The program's code that is being run, each with what tells whether an instruction may still come."""
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        if not is_library_line(frame.f_code.co_filename):
            yield frame.f_code, _ahead(frame.f_code, frame.f_lasti)
        frame = frame.f_back


def _ahead(code: types.CodeType, last: int) -> Callable[[int], bool]:
    back: list[int] | None = None

    def is_ahead(offset: int) -> bool:
        nonlocal back
        if offset > last:
            return True
        if back is None:
            jumps = (each for each in dis.get_instructions(code) if "BACKWARD" in each.opname and each.offset > last)
            back = [each.argval for each in jumps]
        return any(start <= offset for start in back)

    return is_ahead


def _changing(kind: type) -> frozenset[str]:
    """The methods of a container's class that one which cannot be changed has not."""
    fixed = next((other for base, other in _FIXED.items() if issubclass(kind, base)), tuple)
    return frozenset(dir(kind)) - frozenset(dir(fixed))


_FIXED: dict[type, type] = {
    dict: types.MappingProxyType, set: frozenset, bytearray: bytes, list: tuple, collections.deque: tuple
}  # fmt: skip


def _changes(code: types.CodeType, name: str, changing: frozenset[str]) -> Iterator[int]:
    """Where a code object that has such a container by this name stores an item, of whatever it may be, or calls one of these methods of it."""
    if name not in code.co_names and name not in code.co_freevars and name not in code.co_cellvars:
        return
    had = asked = False
    for each in dis.get_instructions(code):
        stores = had and each.opname in ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE")
        if stores or (asked and each.opname in ("LOAD_ATTR", "LOAD_METHOD") and each.argval in changing):
            yield each.offset
        asked = each.opname.startswith("LOAD_") and each.argval == name
        had = had or asked


def _stores_variable(code: types.CodeType, name: str) -> Iterator[int]:
    if name in code.co_freevars or name in code.co_cellvars:
        for each in dis.get_instructions(code):
            if each.opname in ("STORE_DEREF", "DELETE_DEREF") and each.argval == name:
                yield each.offset


def _sets(code: types.CodeType, name: str, seen: set[int]) -> bool:
    if id(code) in seen:
        return False
    seen.add(id(code))
    if code.co_name not in _MAKING and any(_stores_attribute(code, name)):
        return True
    return any(_sets(each, name, seen) for each in _within(code))


def _within(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code of the functions within."""
    return (each for each in code.co_consts if isinstance(each, types.CodeType))


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
        elif isinstance(value, (staticmethod, classmethod)):
            waiting.append(value.__func__)
        elif isinstance(value, property):
            waiting += [value.fget, value.fset, value.fdel]
        elif isinstance(value, type) and value.__module__ == namespace.get("__name__"):
            waiting += value.__dict__.values()
        elif isinstance(value, dict) and len(value) < _LARGE:
            waiting += value.values()
        elif isinstance(value, (list, tuple)) and len(value) < _LARGE:
            waiting += value


def _rebinds(code: types.CodeType, name: str, seen: set[int]) -> bool:
    if id(code) in seen:
        return False
    seen.add(id(code))
    if _stores(code, name, "STORE_GLOBAL", "DELETE_GLOBAL"):
        return True
    return any(_rebinds(each, name, seen) for each in _within(code))


def _stores(code: types.CodeType, name: str, *operations: str) -> int:
    if name not in code.co_names:
        return 0
    return sum(each.opname in operations and each.argval == name for each in dis.get_instructions(code))
