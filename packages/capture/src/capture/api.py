"""The public functions: ``compile``, ``trace``, ``explain``, ``disable``, ``reset``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch import fx

from symshapes import on_generated, reset_generated

from . import _native
from .compiled_module import CompiledModule
from .evaluator.program import reset_programs
from .evaluator.scope import is_infrastructure
from .report import Trace
from .resume import reset_resumes
from .session import Backend, Session

# What the parts generate is no user's program, nor is anything beneath it.
on_generated(functools.partial(_native.mark_skip, recursive=True))


def eager_backend(module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """Runs the captured graph as it is."""
    return module.forward


def _call_of(module: torch.nn.Module) -> FunctionType:
    """A function of the module's arguments that calls it: hooks and ``forward`` are then captured as one frame.

    Its code object is its own, so that every compiled module has its own cache; its lines are ``forward``'s.
    """

    def forward(*args: Any, **kwargs: Any) -> Any:
        return module(*args, **kwargs)

    code = forward.__code__.replace(co_filename="<compiled module>")
    inner = getattr(type(module).forward, "__code__", None)
    if inner is not None and not is_infrastructure(inner.co_filename):
        code = code.replace(
            co_filename=inner.co_filename,
            co_firstlineno=inner.co_firstlineno,
            co_name=inner.co_name,
            co_qualname=inner.co_qualname,
        )
    return FunctionType(code, forward.__globals__, "forward", None, forward.__closure__)


def compile(fn: Any, backend: Backend = eager_backend, *, dynamic: bool | None = None, fullgraph: bool = False) -> Any:
    """A callable like ``fn`` (a function, method or ``nn.Module``) that runs captured graphs through ``backend``.

    ``backend(graph_module, example_inputs)`` gets torch calls over placeholders, and fakes; it returns a callable
    over the same positional inputs that gives a tuple. ``dynamic=True`` makes sizes symbolic. With ``fullgraph`` a
    graph break raises ``GraphBreakError`` with its reason and the user's line.
    """
    session = Session(backend, dynamic=dynamic, fullgraph=fullgraph)
    if isinstance(fn, torch.nn.Module):
        call = _native.CompiledCallable(_call_of(fn), session)
        made = type("CompiledModule", (CompiledModule,), {"__call__": staticmethod(call), "__doc__": fn.__doc__})
        return made(fn, session)
    if not callable(fn):
        raise TypeError(f"compile() needs a function or a module, not {type(fn).__name__}")
    return _native.CompiledCallable(fn, session)


def explain(fn: Any, *args: Any, **kwargs: Any) -> Trace:
    """Call ``fn`` once, captured and run eagerly graph by graph; what was captured."""
    session = Session(eager_backend, dynamic=None, fullgraph=False)
    target = _call_of(fn) if isinstance(fn, torch.nn.Module) else fn
    _native.CompiledCallable(target, session)(*args, **kwargs)
    return session.report


def trace(fn: Any, *args: Any, **kwargs: Any) -> Trace:
    """``explain``, printed as well."""
    found = explain(fn, *args, **kwargs)
    print(found)
    return found


def disable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` as a callable that is never captured, nor is what it calls."""
    disabled: Callable[..., Any] = _native.DisabledCallable(fn)
    return disabled


def reset() -> None:
    """Drop everything captured in this process."""
    _native.reset()
    reset_programs()
    reset_resumes()
    reset_generated()
