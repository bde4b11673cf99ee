"""What a program says of its functions to the compiler: which are graph operations, constants, or kept out of graphs.

In: functions, marked through `capture.allow_in_graph` and its kin, or through those of ``torch.compiler``. Out: what their calls mean.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from capture.errors import NotConstant, Unsupported
from capture.identity_map import IdentityMap
from capture.kept_out import kept_out, refusal

from .base import Args, Interpreter, Kwargs, Variable

#: Takes the interpreter, the function, and the arguments.
MarkHandler = Callable[[Interpreter, Any, Args, Kwargs], Variable]

_MARKED: IdentityMap[Any, MarkHandler] = IdentityMap()


def in_graph(m: Interpreter, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    """One node, run on fakes as an operation is: what is in it is the backend's."""
    return m.recorder.record("call_function", function, args, kwargs)


def constant_result(m: Interpreter, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    """What a call for real gives now, from then on."""
    try:
        real = [_real(m, a.realize(m)) for a in args]
        named = {name: _real(m, a.realize(m)) for name, a in kwargs.items()}
    except NotConstant:
        raise Unsupported(f"arguments of {function.__qualname__}, whose result is a constant, that are not") from None
    return m.builder.from_python(m.builder.fold(function, real, named))


def _real(m: Interpreter, variable: Variable) -> Any:
    """The real value; an object from outside that the frame has not changed is itself, whatever is in it."""
    given = getattr(variable, "value", None)
    if given is None or variable.node is not None or variable.source is None or getattr(variable, "attrs", True):
        return m.builder.to_python(variable)
    m.guards.note_identity(variable, given)
    return given


def mark(function: Any, handler: MarkHandler) -> None:
    """Calls of the function mean from now on what the handler says. It must be one that can be referred to weakly."""
    _MARKED[function] = handler


def unmark_all() -> None:
    """Forget all marks."""
    _MARKED.clear()


def mark_of(function: Any) -> MarkHandler | None:
    """What calls of a function mean that the program marked; None for any other."""
    found = _MARKED.get(function)
    if found is not None:
        return found
    if isinstance(function, types.FunctionType):
        if kept_out(function) is not None:
            return _refuse
        if function.__dict__.get("_dynamo_marked_constant") is True:
            return constant_result
    return None


def _refuse(m: Interpreter, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    raise Unsupported(refusal(kept_out(function)))
