"""What keeps ``repr`` of objects that contain themselves from going on for ever, in ``dataclasses`` and ``reprlib``."""

from __future__ import annotations

from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant
from .handlers import handles_wrapper
from .objects import Object


def _unless_running(m: Interpreter, function: Variable, fill: Variable, args: Args, kwargs: Kwargs) -> Variable:
    value = args[0].realize(m)
    if not isinstance(value, Object):
        return m.calls.call(function, args, kwargs)
    if value.is_told:
        return fill
    value.is_told = True
    try:
        return m.calls.call(function, args, kwargs)
    finally:
        value.is_told = False


@handles_wrapper("dataclasses._recursive_repr.<locals>.wrapper", "user_function")
def _of_dataclass(m: Interpreter, function: Variable, args: Args, kwargs: Kwargs) -> Variable:
    return _unless_running(m, function, Constant("..."), args, kwargs)


@handles_wrapper("reprlib.recursive_repr.<locals>.decorating_function.<locals>.wrapper", "user_function")
def _of_container(m: Interpreter, function: Variable, args: Args, kwargs: Kwargs) -> Variable:
    return _unless_running(m, function, Constant("..."), args, kwargs)
