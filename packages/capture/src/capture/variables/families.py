"""Families of values that few programs have: imported when the first of theirs is met, so that no other program waits for it.

Flows in: real objects that the evaluation meets. Flows out: the family's builders, conversions and handlers, registered as if it had been
imported with the others.
"""

from __future__ import annotations

import types
from typing import Any

from symshapes import import_whole

#: What is to be imported, by the package whose classes, functions and modules a family is for.
_WAITING: dict[str, str] = {}
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)


def waits(package: str, family: str) -> None:
    """Import the module `family` when something of `package` is met."""
    _WAITING[package] = family


def meet(value: Any) -> None:
    """Import the family of an object, if one waits for it: that of its class, or of what its class is made from; or of a package if it is
    a module, class or function of it."""
    if not _WAITING:
        return
    cls = type(value)
    meet_class(cls)
    if cls is types.ModuleType:
        meet_package(vars(value).get("__name__"))
    elif cls in _FUNCTIONS:
        meet_package(value.__module__)
    elif issubclass(cls, type):
        meet_class(value)


def meet_class(cls: type) -> None:
    """Import the family of a class, if one waits for it."""
    if _WAITING:
        for base in cls.__mro__:
            meet_package(_module_of_class(base))


def meet_package(module: Any) -> None:
    """Import the family of a module's package, if one waits for it."""
    package = module.partition(".")[0] if type(module) is str else ""
    family = _WAITING.get(package)
    if family is not None:
        import_whole(family)  # another thread that meets one waits here until all is registered
        _WAITING.pop(package, None)


def _module_of_class(cls: type) -> Any:
    # Without asking its metaclass, which may be the program's.
    return type.__dict__["__module__"].__get__(cls)
