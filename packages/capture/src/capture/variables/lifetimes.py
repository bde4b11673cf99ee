"""What a program sees of when objects die: weak references to objects of its own, counts of references.

Generated code holds objects at other lines than the program does. A frame that looks is left to the interpreter.
"""

from __future__ import annotations

import gc
import inspect
import sys
import types
import weakref
from typing import Any

from capture.errors import SkipFrame, Unsupported
from capture.trace_rules import is_infrastructure, is_torchs
from symshapes import is_own_file

from .base import Args, Interpreter, Kwargs, Variable
from .constants import Real
from .handlers import handles


def require_from_outside(m: Interpreter, referent: Variable) -> None:
    """Leave the frame alone if it refers weakly to an object that it made: that dies where the program lets go of it."""
    value = referent.realize(m)
    if value.source is None and not isinstance(value, Real):
        raise SkipFrame("it makes a weak reference to an object of its own")


def acts_as_it_dies(m: Interpreter, value: Any) -> bool:
    """Whether an object's end is seen: its class has a finalizer, or the program has one for it, or it then leaves a container that was
    looked at; or it keeps another from changing."""
    if isinstance(value, types.GeneratorType):
        return inspect.getgeneratorstate(value) == inspect.GEN_SUSPENDED
    if isinstance(value, memoryview):
        return True
    callbacks = (reference.__callback__ for reference in weakref.getweakrefs(value))
    finalizes = any("__del__" in each.__dict__ for each in type(value).__mro__)  # its metaclass is not asked
    return finalizes or any(
        _is_programs(each) if isinstance(each, weakref.finalize) else _is_noticed(m, each) for each in callbacks
    )


def _is_noticed(m: Interpreter, callback: Any) -> bool:
    """Whether what a weak reference calls is the program's, or changes what the frame has looked at."""
    code = getattr(callback, "__code__", None)
    if code is None:  # none, or a method written in C
        return m.builder.met(getattr(callback, "__self__", None)) is not None
    if is_own_file(code.co_filename) or is_torchs(code.co_filename):
        return False
    if not is_infrastructure(code.co_filename):
        return True
    # A container of weak references: what is called for its elements refers to it weakly.
    held = (each() for each in callback.__defaults__ or () if isinstance(each, weakref.ref))
    return any(m.builder.met(each) is not None for each in held)


def _is_programs(finalizer: weakref.finalize[Any, Any]) -> bool:
    """Whether what is to be called is neither ours nor torch's, who keep books of their own."""
    found = finalizer.peek()
    code = None if found is None else getattr(found[1], "__code__", None)
    return code is None or not (is_own_file(code.co_filename) or is_torchs(code.co_filename))


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
