"""What a compiled callable enters: for any callable, a Python function whose frame can be captured.

In: a function, method, module, class, object with ``__call__``, or something written in C. Out: a function or method.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch

from .identity_map import IdentityMap
from .trace_rules import is_infrastructure
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


def needs_arguments(fn: Callable[..., Any]) -> bool:
    """Whether it cannot be called without arguments, as far as that is known."""
    try:
        inspect.signature(fn.forward if isinstance(fn, torch.nn.Module) else fn).bind()
    except TypeError:
        return True
    except ValueError:
        pass
    return False


def entered_in_place(module: torch.nn.Module) -> FunctionType:
    """A function of the module's arguments that calls it, past what ``Module.__call__`` finds compiled in its place."""
    self = module
    name = "_call_impl"
    return _in_place_of(lambda *args, **kwargs: getattr(self, name)(*args, **kwargs), module)


def called_by_instances(cls: type) -> Any:
    """What the calls of a class's objects run, as it stands in the class; None for one whose objects cannot be called."""
    return next((vars(base)["__call__"] for base in cls.__mro__ if "__call__" in vars(base)), None)


def entered_by_instances(cls: type, call: Callable[..., Any]) -> Callable[..., Any]:
    """``call``, which calls of the class's objects run, if its own frame is one that is captured, else a function that calls it."""
    code = code_of(call)
    if code is not None and not is_infrastructure(code.co_filename):
        return call
    made = lambda self, /, *args, **kwargs: call(self, *args, **kwargs)  # noqa: E731
    forward = code_of(inspect.getattr_static(cls, "forward", None))
    if forward is None or is_infrastructure(forward.co_filename):
        return made
    return _placed(made, forward)


def _call_of_module(module: torch.nn.Module) -> FunctionType:
    """A function of the module's arguments that calls it: hooks and ``forward`` are then captured as one frame.

    Its lines are ``forward``'s, and its code is that of all modules with this ``forward``: equal ones share what is captured.
    """
    self = module  # as its own code calls it: so it is named in reports
    return _in_place_of(lambda *args, **kwargs: self(*args, **kwargs), module)


def _call_of(fn: Callable[..., Any]) -> FunctionType:
    """A function of the callable's arguments that calls it."""
    made = _in_place_of(lambda *args, **kwargs: fn(*args, **kwargs), fn)
    functools.update_wrapper(made, fn, updated=())  # what an object holds is its own: it may change, and may die
    return made


def _in_place_of(call: Any, fn: Callable[..., Any]) -> FunctionType:
    """With the place and name of the user's function that it stands for.

    ``call`` is of one line, which becomes the first of that function.
    """
    inner = code_behind(fn)
    if inner is not None and not is_infrastructure(inner.co_filename):
        placed = _placed(call, inner)
        if isinstance(fn, torch.nn.Module) and _PARAMETERS.get(placed.__code__) is None:
            _PARAMETERS[placed.__code__] = inner.co_varnames[1 : inner.co_argcount]
        return placed
    name = getattr(fn, "__name__", type(fn).__name__)
    code = _stand_in(call.__code__, f"<compiled {name}>", 1, name, name)
    return FunctionType(code, call.__globals__, code.co_name, None, call.__closure__)


def _placed(call: Any, inner: CodeType) -> FunctionType:
    """``call`` at the place of the user's code: of one code for each of that."""
    made = _STAND_INS.get(inner)
    if made is None:
        made = _STAND_INS[inner] = weakref.WeakValueDictionary()
    code = made.get(call.__code__)
    if code is None:
        place = (inner.co_filename, inner.co_firstlineno, inner.co_name, inner.co_qualname)
        code = made[call.__code__] = _stand_in(call.__code__, *place)
    return FunctionType(code, call.__globals__, code.co_name, None, call.__closure__)


#: By the code of a function that stands for a module's ``forward``: the parameters of that, without the module.
_PARAMETERS: IdentityMap[CodeType, tuple[str, ...]] = IdentityMap()
#: By the code of the user's function: those that stand for it, by what they do.
_STAND_INS: IdentityMap[CodeType, weakref.WeakValueDictionary[CodeType, CodeType]] = IdentityMap()


def _stand_in(call: CodeType, file: str, line: int, name: str, qualified: str) -> CodeType:
    code = call.replace(co_filename=file, co_firstlineno=line, co_name=name, co_qualname=qualified)
    note_stand_in(code)
    return code


def parameters_behind(code: CodeType) -> tuple[str, ...] | None:
    """What ``forward`` calls the arguments, where ``code`` is that of a function of ``*args`` that calls the module; else None."""
    return _PARAMETERS.get(code)


def code_behind(fn: Any) -> CodeType | None:
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
