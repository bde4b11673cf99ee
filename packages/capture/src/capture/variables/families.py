"""Families of values that few programs have: imported when the first of theirs is met, so that no other program waits for it.

Flows in: real objects that the evaluation meets, and their classes where no builder is known. Flows out: the family's builders, conversions
and handlers, registered as if it had been imported with the others.
"""

from __future__ import annotations

import types
from typing import Any

from symshapes import import_whole

#: What is to be imported, by the package whose classes, functions and modules a family is for.
_WAITING: dict[str, str] = {}
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
#: Without asking a metaclass, which may be the program's.
_module_of_class = type.__dict__["__module__"].__get__


def waits(package: str, family: str) -> None:
    """Import the module `family` when something of `package` is met."""
    _WAITING[package] = family


def meet(value: Any) -> None:
    """Import the family of a module, function or class, if one waits for it. Of other objects it is asked by their classes."""
    if not _WAITING:
        return
    cls = type(value)
    if cls in _FUNCTIONS:
        module = value.__module__
    elif cls is types.ModuleType:
        module = vars(value).get("__name__")
    else:
        if issubclass(cls, type):
            meet_class(value)
        return
    if type(module) is str and module.startswith(tuple(_WAITING)):
        meet_package(module)


def meet_class(cls: type) -> bool:
    """Import the family of a class, or of what it is made from, if one waits for it; whether one did."""
    found = False
    if _WAITING:
        packages = tuple(_WAITING)
        for base in cls.__mro__ or ():  # None while a metaclass makes it
            module = _module_of_class(base)
            if type(module) is str and module.startswith(packages):
                found = meet_package(module) or found
    return found


def meet_package(module: str) -> bool:
    """Import the family of a module's package, if one waits for it; whether one did."""
    package = module.partition(".")[0]
    family = _WAITING.get(package)
    if family is not None:
        import_whole(family)  # another thread that meets one waits here until all is registered
        _WAITING.pop(package, None)
    return family is not None
