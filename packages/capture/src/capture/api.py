"""The public functions: ``compile``, ``trace``, ``explain``, ``disable``, ``reset``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from symshapes import on_generated, reset_generated

from . import _native
from .compiled_module import CompiledModule
from .evaluator.program import reset_programs
from .report import Trace
from .resume import reset_resumes
from .session import Backend, Session
from .target import code_of, entered_function

# What the parts generate is no user's program, nor is anything beneath it.
on_generated(functools.partial(_native.mark_skip, recursive=True))


def eager_backend(module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """Runs the captured graph as it is."""
    return module.forward


def compile(fn: Any, backend: Backend = eager_backend, *, dynamic: bool | None = None, fullgraph: bool = False) -> Any:
    """A callable like ``fn`` (a function, method, ``nn.Module`` or any callable) that runs captured graphs through ``backend``.

    ``backend(graph_module, example_inputs)`` gets torch calls over placeholders, and fakes; it returns a callable
    over the same positional inputs that gives a tuple. ``dynamic=True`` makes sizes symbolic. With ``fullgraph`` a
    call either runs captured as a whole or raises ``GraphBreakError`` with the reason and the user's line.
    """
    if not callable(fn):
        raise TypeError(f"compile() needs a function or a module, not {type(fn).__name__}")
    call = _compiled(fn, backend, dynamic, fullgraph)
    if isinstance(fn, torch.nn.Module):
        made = type("CompiledModule", (CompiledModule,), {"__call__": staticmethod(call), "__doc__": fn.__doc__})
        return made(fn, call.session)
    return call


def _compiled(fn: Callable[..., Any], backend: Backend, dynamic: bool | None, fullgraph: bool) -> Any:
    target = entered_function(fn)
    session = Session(backend, dynamic=dynamic, fullgraph=fullgraph, root=code_of(target))
    call = _native.CompiledCallable(target, session, whole=fullgraph)
    call.__wrapped__ = fn
    return call


def explain(fn: Any, *args: Any, **kwargs: Any) -> Trace:
    """Call ``fn`` once, captured and run eagerly graph by graph; what was captured."""
    call = _compiled(fn, eager_backend, None, False)
    call(*args, **kwargs)
    found: Trace = call.session.report
    return found


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
