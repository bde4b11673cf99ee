"""The public functions: ``compile``, ``compile_module``, ``trace``, ``explain``, ``reset``."""

from __future__ import annotations

import functools
from typing import Any

from symshapes import on_generated, reset_generated

from . import _native
from ._torch import hide_from_torch_compile
from .backends import backend_named, eager_backend
from .compiled import Choices, compiled, compiled_call
from .evaluator.classes import reset_statements
from .history import reset_histories
from .in_place import compiled_in_place
from .once import reset_once
from .report import Trace
from .resume import reset_resumes
from .session import Backend, Session
from .target import needs_arguments

# What the parts generate is no user's program. What it calls may be one: autograd's hooks run beneath a backward.
on_generated(_native.mark_skip)
on_generated(hide_from_torch_compile)


def compile(
    fn: Any,
    backend: Backend | str = eager_backend,
    *,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    freeze: bool = False,
) -> Any:
    """A callable like ``fn`` (a function, method, ``nn.Module`` or any callable) that runs captured graphs through ``backend``.

    ``backend(graph_module, example_inputs)`` gets torch calls over placeholders, and fakes; it returns a callable
    over the same positional inputs that gives a tuple; a name of ``list_backends()`` stands for one. With ``dynamic=None`` what changes from one call to another (sizes,
    ints, floats) is symbolic from then on, with True what arguments bring is at once, with False only what is marked.
    A mark that the program makes untrue is a ``MarkError`` at the call. With ``fullgraph`` a
    call either runs captured as a whole or raises ``GraphBreakError`` with the reason and the user's line.
    With ``freeze`` a graph whose results require no gradients has modules' parameters and buffers as attributes (``get_attr``)
    in place of inputs, but for those that it writes to: it serves those very tensors, and no others.
    """
    return compiled(fn, Choices(_backend(backend), dynamic, fullgraph, freeze))


def _backend(backend: Backend | str) -> Backend:
    found: Backend = backend_named(backend) if isinstance(backend, str) else backend
    return found


def compile_module(
    module: Any,
    backend: Backend | str = eager_backend,
    *,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    freeze: bool = False,
) -> Any:
    """Compile a module in its own place, as `torch.nn.Module.compile` does: its calls are captured; the module itself is given back.

    Copies of it, unpickled ones too, are compiled as well. What is given besides is as for ``compile``.
    """
    compiled_in_place(module, Choices(_backend(backend), dynamic, fullgraph, freeze))
    return module


def explain(fn: Any, *args: Any, dynamic: bool | None = None, **kwargs: Any) -> Any:
    """Call ``fn`` once, captured and run eagerly graph by graph; what was captured, as a ``Trace``. ``dynamic`` is that of ``compile``.

    Without the arguments that ``fn`` needs, what takes them: ``explain(fn)(*args)``.
    """
    if not args and not kwargs and needs_arguments(fn):
        return functools.partial(explain, fn, dynamic=dynamic)
    call = compiled_call(fn, Choices(eager_backend, dynamic, False))
    call(*args, **kwargs)
    return report(call)


def trace(fn: Any, *args: Any, dynamic: bool | None = None, **kwargs: Any) -> Trace:
    """``explain``, printed as well."""
    found: Trace = explain(fn, *args, dynamic=dynamic, **kwargs)
    print(found)
    return found


def report(compiled: Any) -> Trace:
    """All that was captured so far of what ``compile`` gave: graphs, guards, and why calls were captured anew.

    Raises ``TypeError`` for anything else.
    """
    session = getattr(compiled, "session", None)
    if not isinstance(session, Session):
        raise TypeError(f"report() takes what compile() gives, not {type(compiled).__name__}")
    return session.report


def reset() -> None:
    """Drop everything captured in this process. What code says is no capture: as long as it lives it is read once."""
    _native.reset()
    reset_statements()
    reset_resumes()
    reset_histories()
    reset_generated()
    reset_once()
