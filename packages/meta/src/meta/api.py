"""`compile`, `compile_module` and `reset`. Flows in: the user's function or module and choices. Flows out: a compiled callable."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

import torch

import capture
from symshapes import imported_to_stay

with imported_to_stay():
    from inductor import prepare_backends
    from meta.backends import BACKENDS, WITH_MODES, Backend, backend_named, inductor
    from meta.modes import mode_named

F = TypeVar("F", bound=Callable[..., Any])
D = TypeVar("D", bound="property | classmethod[Any, ..., Any] | functools.cached_property[Any]")
M = TypeVar("M", bound=torch.nn.Module)


@overload
def compile(
    fn_or_module: F,
    *,
    backend: str | Backend = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    dynamic: bool | None = ...,
    fullgraph: bool = ...,
    disable: bool = ...,
) -> F: ...


@overload
def compile(
    fn_or_module: D,
    *,
    backend: str | Backend = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    dynamic: bool | None = ...,
    fullgraph: bool = ...,
    disable: bool = ...,
) -> D: ...


@overload
def compile(
    fn_or_module: None = None,
    *,
    backend: str | Backend = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    dynamic: bool | None = ...,
    fullgraph: bool = ...,
    disable: bool = ...,
) -> Callable[[F], F]: ...


def compile(
    fn_or_module: Any = None,
    *,
    backend: str | Backend = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    disable: bool = False,
) -> Any:
    """Compile a function or `nn.Module`; as a decorator with or without arguments too.

    Compilation happens at the first call, and again for inputs that the guards of no earlier one admit.

    Args:
        fn_or_module: what to compile. None returns a decorator. Of a class, calls of its objects are compiled, and it is given back; of a
            `staticmethod`, `classmethod` or `property`, its function.
        backend: a name of `meta.list_backends()`, or a callable
            `(graph_module, example_inputs) -> callable` (with `options=` as a keyword argument where options are given).
        mode: a name in `MODES`, for inductor and aot_eager; a backend that is not ours is given it, if it takes a `mode`.
        options: fields of `inductor.Options` by name; of `torch.compile`'s those of `meta.modes.TORCH_OPTIONS`.
        dynamic: None: a size, int or float that changes from one call to another is symbolic from then on. True: those of all
            arguments are from the first call. False: none is, but for sizes that are marked (`mark_dynamic`).
        fullgraph: raise at the first graph break, with its reason and line.
        disable: give back what is to be compiled as it is.

    Returns:
        A callable with the same signature; for a module, a module that shares its parameters.

    Raises:
        TypeError: `fn_or_module` is not callable, or backend neither a name nor callable.
        ValueError: an unknown backend, mode or option (the message lists the valid ones), or one that the backend does not take.

    A call raises `MarkError` where what was promised of a marked size does not hold of the program.
    """
    if fn_or_module is None:
        _chosen(backend, mode, options)  # what is wrong with them is told now
        return functools.partial(
            compile, backend=backend, mode=mode, options=options, dynamic=dynamic, fullgraph=fullgraph, disable=disable
        )
    chosen, freeze = _chosen(backend, mode, options)
    if not callable(fn_or_module) and not isinstance(fn_or_module, _DESCRIPTORS):
        raise TypeError(f"compile() takes a function or a module, not {type(fn_or_module).__name__}")
    if disable:
        return fn_or_module
    return capture.compile(fn_or_module, chosen, dynamic=dynamic, fullgraph=fullgraph, freeze=freeze)


#: Besides what can be called: entries of a class, whose function is compiled.
_DESCRIPTORS = (classmethod, property, functools.cached_property)


def compile_module(
    module: M,
    *,
    backend: str | Backend = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    dynamic: bool | None = None,
    fullgraph: bool = False,
) -> M:
    """Compile a module in its own place, as `torch.nn.Module.compile` does; the module itself is given back.

    Its calls run compiled; it stays the object that others hold. Copies of it are compiled as well, those too that were pickled.
    What is given besides, and what is raised, is as for `compile`.
    """
    chosen, freeze = _chosen(backend, mode, options)
    made: M = capture.compile_module(module, chosen, dynamic=dynamic, fullgraph=fullgraph, freeze=freeze)
    return made


def _chosen(backend: Any, mode: str | None, options: dict[str, Any] | None) -> tuple[Any, bool]:
    """The backend that is called, and whether what is frozen is constant in graphs."""
    theirs = backend not in BACKENDS if isinstance(backend, str) else callable(backend) and not _is_ours(backend)
    if theirs and mode not in (None, "default"):
        return _with_their_mode(backend_named(backend) if isinstance(backend, str) else backend, mode, options), False
    chosen_mode = mode_named(mode)
    if isinstance(backend, str):
        chosen: Any = backend_named(backend)
        if options is not None and chosen is not inductor and BACKENDS.get(backend) is chosen:
            raise ValueError(f"backend {backend!r} takes no options")
    elif callable(backend):
        chosen = backend
    else:
        raise TypeError(f"backend must be a name or a callable, not {type(backend).__name__}")
    freeze = False
    if chosen is inductor:
        made_with = chosen_mode.options_with(options)
        freeze = made_with.freezing
        prepare_backends(made_with)
    if any(chosen is one for one in WITH_MODES.values()):
        chosen = functools.partial(chosen, mode=chosen_mode)
    elif mode not in (None, "default"):
        raise ValueError(f"mode {mode!r} is for the backends {', '.join(WITH_MODES)}")
    if options is not None:
        # As they are now, and compared by what they are: equal choices share what is compiled.
        chosen = functools.partial(_with_options, chosen, tuple(sorted(options.items())))
    return chosen, freeze


def _is_ours(backend: Any) -> bool:
    return any(backend is one for one in BACKENDS.values())


def _with_their_mode(backend: Any, mode: str, options: dict[str, Any] | None) -> Any:
    """A backend written for `torch.compile` that has modes of its own, or takes the names of that one's."""
    takes = inspect.signature(backend).parameters
    if "mode" not in takes and not any(each.kind is each.VAR_KEYWORD for each in takes.values()):
        raise ValueError(f"mode {mode!r} is for the backends {', '.join(WITH_MODES)}")
    given = {"mode": mode} if options is None else {"mode": mode, "options": tuple(sorted(options.items()))}
    return functools.partial(_with_choices, backend, tuple(given.items()))


def _with_choices(backend: Any, given: tuple[tuple[str, Any], ...], graph: Any, inputs: list[Any]) -> Any:
    named = dict(given)
    if "options" in named:
        named["options"] = dict(named["options"])
    return backend(graph, inputs, **named)


def _with_options(backend: Any, options: tuple[tuple[str, Any], ...], graph: Any, inputs: list[Any]) -> Any:
    return backend(graph, inputs, options=dict(options))


def reset() -> None:
    """Forget everything compiled in this process. What lies on disk stays."""
    capture.reset()
