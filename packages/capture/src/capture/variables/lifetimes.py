"""What a program sees of when objects die: weak references to objects of its own, counts of references.

Generated code holds objects at other lines than the program does. A frame that looks is left to the interpreter.
"""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

from capture.errors import SkipFrame, Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .constants import Real
from .handlers import handles


def require_from_outside(m: Interpreter, referent: Variable) -> None:
    """Leave the frame alone if it refers weakly to an object that it made: that dies where the program lets go of it."""
    value = referent.realize(m)
    if value.source is None and not isinstance(value, Real):
        raise SkipFrame("it makes a weak reference to an object of its own")


def acts_as_it_dies(value: Any) -> bool:
    """Whether an object's end is seen: its class has a finalizer, or there is one for it."""
    return hasattr(type(value), "__del__") or any(
        isinstance(each, weakref.finalize) or not _is_of_a_container(each)
        for each in (reference.__callback__ for reference in weakref.getweakrefs(value))
        if each is not None
    )


def _is_of_a_container(callback: Any) -> bool:
    """Whether a callback takes what died out of the library's or torch's own containers: that is seen in these alone."""
    return str(getattr(callback, "__module__", "")).partition(".")[0] in ("weakref", "_weakrefset", "torch")


@handles(weakref.proxy)
def _proxy(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    for referent in args[:1]:
        require_from_outside(m, referent)
    raise Unsupported("call of weakref.proxy, which is written in C")


@handles(weakref.ref.__new__)
def _new_reference(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    for referent in args[1:2]:
        require_from_outside(m, referent)
    raise Unsupported("call of weakref.ref.__new__, which is written in C")


@handles(sys.getrefcount, gc.get_referrers, gc.get_objects)
def _counted(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    raise SkipFrame("it asks what refers to an object")
