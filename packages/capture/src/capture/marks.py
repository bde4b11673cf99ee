"""What a program tells the capture of its functions: kept out of graphs, one operation of them, constant, or to be read as another.

In: functions, modules and classes. Out: themselves, marked, or what stands for them. The counterparts of ``torch.compiler``'s.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from . import _native
from .compiled_module import CompiledModule, DisabledModule, special_methods
from .kept_out import keep_out
from .stance import set_stance
from .target import code_behind
from .variables.base import Args, Interpreter, Kwargs, Variable
from .variables.compiler_marks import keeps_out
from .variables.handlers import handles, refuses
from .variables.known_functions import asked_compiling
from .variables.marks_of_functions import constant_result, in_graph, mark

F = TypeVar("F", bound=Callable[..., Any])


def is_compiling() -> bool:
    """Whether this very code is being captured: False wherever Python runs it, True in what a graph is made of."""
    return False


def disable(fn: Any = None, *, recursive: bool = True, reason: str | None = None) -> Any:
    """``fn`` (a function, method, module or class) as one that is never captured, nor is what it calls; a decorator without it.

    A module comes back as a module that is the original in all but its calls; of a class the calls of its objects are kept
    out, and it is given back itself. With ``recursive=False`` only frames of the function's own code are kept out, what they call
    is captured, and the function itself is given back. ``reason`` is told by graph breaks at its calls.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(disable(fn.__func__, recursive=recursive, reason=reason))
    if not callable(fn):
        raise TypeError(f"disable() needs a function, a module or a class, not {type(fn).__name__}")
    if isinstance(fn, CompiledModule):
        fn = fn.original
    while isinstance(fn, _native.CompiledCallable):
        fn = fn.__wrapped__
    if not recursive:
        code = code_behind(fn)
        if code is None:
            raise TypeError(f"disable(recursive=False) needs something written in Python, not {fn!r}")
        keep_out(code, reason or "")
        return fn
    if isinstance(fn, type):
        cls: Any = fn
        cls.__call__ = disable(cls.__call__, reason=reason)
        return cls
    disabled: Any = _native.DisabledCallable(fn)
    disabled.reason = reason
    if not isinstance(fn, torch.nn.Module):
        return disabled
    own = {
        "__call__": staticmethod(disabled),
        "__doc__": fn.__doc__,
        "__reduce_ex__": lambda self, protocol: (_disabled_again, (self.original, self.reason)),
    }
    return type("DisabledModule", (DisabledModule,), {**special_methods(type(fn)), **own})(fn, reason)


def _disabled_again(module: torch.nn.Module, reason: str | None) -> Any:
    return disable(module, reason=reason)


def allow_in_graph(fn: Any) -> Any:
    """Have calls of a function, or of each in a list, be one operation in graphs: it is run on fake tensors, and its code not looked at.

    Its results must follow from its arguments, and it must change nothing: what else it reads is not guarded.
    """
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(each) for each in fn]
    return _marked(fn, in_graph, "allow_in_graph")


def assume_constant_result(fn: F) -> F:
    """Have a function's result be a constant of what is captured: it is called for real, once for each capture."""
    return _marked(fn, constant_result, "assume_constant_result")


def substitute_in_graph(original: Any, *, skip_signature_check: bool = False) -> Callable[[F], F]:
    """A decorator of a Python function that is captured in the place of another, written in C or not to be captured itself.

    Raises ``TypeError`` if the two take different arguments, as far as is known of the original.
    """

    def register(substitute: F) -> F:
        if not skip_signature_check:
            _check_alike(original, substitute)

        def call(m: Interpreter, function: Any, args: Args, kwargs: Kwargs) -> Variable:
            return m.calls.call(m.builder.known(substitute), args, kwargs)

        _marked(original, call, "substitute_in_graph")
        return substitute

    return register


_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType)


def _marked(fn: Any, handler: Any, name: str) -> Any:
    if not isinstance(fn, _FUNCTIONS):
        raise TypeError(f"{name}() needs a function, not {type(fn).__name__}")
    mark(fn, handler)
    return fn


def _check_alike(original: Any, substitute: Any) -> None:
    try:
        expected = inspect.signature(original)
    except (TypeError, ValueError):
        return
    found = inspect.signature(substitute)
    kinds = [[(p.name, p.kind) for p in each.parameters.values()] for each in (expected, found)]
    if kinds[0] != kinds[1]:
        raise TypeError(f"the substitute takes {found}, and {original.__qualname__} {expected}")


handles(is_compiling)(asked_compiling)
keeps_out(f"{__name__}.disable", lambda: disable)
refuses(set_stance, why="a stance, which is for what is called after it")
refuses(
    allow_in_graph,
    assume_constant_result,
    substitute_in_graph,
    why="a mark on a function, which is for what is captured after it",
)
