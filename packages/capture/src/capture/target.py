"""What a compiled callable enters: for any callable, a Python function whose frame can be captured.

In: a function, method, module, class, object with ``__call__``, or something written in C. Out: a function or method.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch

from .evaluator.scope import is_infrastructure
from .tracebacks import note_stand_in


def entered_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` itself if its own frame is one that is captured, else a function that calls it."""
    if isinstance(fn, torch.nn.Module):
        return _call_of_module(fn)
    code = code_of(fn)
    if code is not None and not is_infrastructure(code.co_filename):
        return fn
    return _call_of(fn)


def code_of(fn: Callable[..., Any]) -> CodeType | None:
    """The code that calling ``fn`` enters first, if ``fn`` is a Python function or a method of one."""
    function = fn.__func__ if isinstance(fn, MethodType) else fn
    return function.__code__ if isinstance(function, FunctionType) else None


def _call_of_module(module: torch.nn.Module) -> FunctionType:
    """A function of the module's arguments that calls it: hooks and ``forward`` are then captured as one frame.

    Its code object is its own, so that every compiled module has its own cache; its lines are ``forward``'s.
    """
    return _in_place_of(lambda *args, **kwargs: module(*args, **kwargs), module)


def _call_of(fn: Callable[..., Any]) -> FunctionType:
    """A function of the callable's arguments that calls it."""
    made = _in_place_of(lambda *args, **kwargs: fn(*args, **kwargs), fn)
    functools.update_wrapper(made, fn)
    return made


def _in_place_of(call: Any, fn: Callable[..., Any]) -> FunctionType:
    """With the place and name of the user's function that it stands for; each made has a code object of its own.

    ``call`` is of one line, which becomes the first of that function.
    """
    inner = _code_behind(fn)
    if inner is not None and not is_infrastructure(inner.co_filename):
        code = call.__code__.replace(
            co_filename=inner.co_filename,
            co_firstlineno=inner.co_firstlineno,
            co_name=inner.co_name,
            co_qualname=inner.co_qualname,
        )
    else:
        name = getattr(fn, "__name__", type(fn).__name__)
        code = call.__code__.replace(co_filename=f"<compiled {name}>", co_firstlineno=1, co_name=name, co_qualname=name)
    note_stand_in(code)
    return FunctionType(code, call.__globals__, code.co_name, None, call.__closure__)


def _code_behind(fn: Any) -> CodeType | None:
    """The Python code that a callable leads to, through wrappers, partial applications and classes that call."""
    while True:
        code = code_of(fn)
        wrapped = getattr(fn, "__wrapped__", None) or (fn.func if isinstance(fn, functools.partial) else None)
        if wrapped is None or (code is not None and not is_infrastructure(code.co_filename)):
            break
        fn = wrapped
    if code is not None:
        return code
    method = "forward" if isinstance(fn, torch.nn.Module) else "__call__"
    return code_of(inspect.getattr_static(type(fn), method, fn))
