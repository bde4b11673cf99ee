"""Annotations of functions and classes from outside the frame, which from 3.14 are made when they are asked for.

In: what has them. Out: they are made, where that only reads what is there as the program has it by then; else the graph ends.
"""

from __future__ import annotations

import types
from typing import Any

from capture import _native
from capture.errors import Unsupported
from capture.trace_rules import only_reads

from .base import Interpreter

#: What a class has them under once they are made, or given to it.
_OF_CLASSES = ("__annotations__", "__annotations_cache__")


def _annotate_of(real: types.FunctionType | type) -> object:
    """What makes the annotations; None before 3.14."""
    if isinstance(real, types.FunctionType):
        return getattr(real, "__annotate__", None)
    asked = type.__dict__.get("__annotate__")
    try:
        return None if asked is None else asked.__get__(real)
    except AttributeError:  # a class written in C
        return None


def has_annotations(real: types.FunctionType | type) -> bool:
    """Whether annotations are made already, or nothing is to make any."""
    if _annotate_of(real) is None:
        return True
    if isinstance(real, types.FunctionType):
        return _native.annotations_held(real) is not None
    return any(name in real.__dict__ for name in _OF_CLASSES)


def annotations_of(cls: type) -> dict[str, Any] | None:
    """Those that a class itself has, if they are made."""
    found = next((cls.__dict__[name] for name in _OF_CLASSES if name in cls.__dict__), None)
    return found if isinstance(found, dict) else None


def have_annotations(m: Interpreter, real: types.FunctionType | type) -> None:
    """Have them made now, of what is outside: the frame may not have changed that."""
    changes = m.effects.has_changed_inputs() or m.globals.written or m.classes.rewritten
    if changes and not has_annotations(real):
        raise Unsupported("annotations that are made of what the frame has changed")
    made_annotations(real)


def made_annotations(real: types.FunctionType | type) -> None:
    """Have annotations made if that only reads: they stay then what they are. Else raises ``Unsupported``."""
    if has_annotations(real):
        return
    annotate = _annotate_of(real)
    if not isinstance(annotate, types.FunctionType) or not only_reads(annotate.__code__):
        raise Unsupported("annotations that are made by code of the program's")
    try:
        getattr(real, "__annotations__")  # noqa: B009
    except Exception as error:
        raise Unsupported(f"annotations that cannot be made: {error}") from error
