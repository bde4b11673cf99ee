"""The names that objects bear, for texts: the program's own way of telling attributes is not asked, which may notice, or raise."""

from __future__ import annotations

import types
from typing import Any

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: not compiled into the interpreter


def label_of(value: Any) -> str:
    """The qualified name of an object, or its name; empty if it has none that is a text."""
    kind = type(value)
    if issubclass(kind, type):
        return type.__getattribute__(value, "__qualname__")
    if issubclass(kind, types.ModuleType):
        found = types.ModuleType.__getattribute__(value, "__dict__").get("__name__")
    elif not type.__getattribute__(kind, "__flags__") & _HEAP_TYPE:
        found = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    else:
        try:
            own = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return ""
        found = (own.get("__qualname__") or own.get("__name__")) if type(own) is dict else None
    return found if isinstance(found, str) else ""
