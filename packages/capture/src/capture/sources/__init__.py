"""Where a value comes from: how to say it, how generated code pushes it again, how a guard reads it.

The evaluator gives every value that enters a capture one of these; guards and emitted code read through them.
"""

from __future__ import annotations

from .base import FrameValues, Source
from .parts import (
    PLAIN_KEYS,
    Applied,
    Attr,
    CellContent,
    ClassEntry,
    Default,
    DictKeyAt,
    DictValueAt,
    FunctionGlobal,
    Item,
    KwDefault,
    Made,
    ReadFrom,
    Referent,
    TypeOf,
    is_module_owned,
)
from .remembered import remembered
from .roots import Builtin, Closure, ClosureCell, Const, Global, Local, ModuleGlobal, Namespace

__all__ = [
    "PLAIN_KEYS",
    "Applied",
    "Attr",
    "Builtin",
    "CellContent",
    "ClassEntry",
    "Closure",
    "ClosureCell",
    "Const",
    "Default",
    "DictKeyAt",
    "DictValueAt",
    "FrameValues",
    "FunctionGlobal",
    "Global",
    "Item",
    "KwDefault",
    "Local",
    "Made",
    "ModuleGlobal",
    "Namespace",
    "ReadFrom",
    "Referent",
    "Source",
    "TypeOf",
    "is_module_owned",
    "remembered",
]
