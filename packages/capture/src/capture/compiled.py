"""What ``compile`` gives: for a function the native callable, for a module a module whose calls are captured.

In: what to compile, and a session's choices. Out: the compiled object; copied or pickled, what was compiled is copied
or pickled, and compiled again with the same choices.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
import weakref
from collections.abc import Callable, Hashable
from types import MethodType
from typing import Any

import torch

from symshapes import dataclass

from . import _native
from .compiled_module import CompiledModule, special_methods
from .history import Histories
from .session import Backend, Session
from .target import called_by_instances, code_of, entered_by_instances, entered_function


@dataclass(frozen=True)
class Choices:
    """How something is compiled. A deep copy is the same object: a backend is not part of what is copied."""

    backend: Backend
    dynamic: bool | None
    fullgraph: bool
    freeze: bool = False

    def __deepcopy__(self, memo: dict[int, Any]) -> Choices:
        return self


def compiled(fn: Any, choices: Choices) -> Any:
    """``fn`` compiled; see ``capture.compile``."""
    if isinstance(fn, _DESCRIPTORS):
        return _compiled_descriptor(fn, choices)
    if not callable(fn):
        raise TypeError(f"compile() needs a function or a module, not {type(fn).__name__}")
    if isinstance(fn, type) and called_by_instances(fn) is not None:
        return _compiled_class(fn, choices)
    call = compiled_call(fn, choices, group_of(choices))
    if not isinstance(fn, torch.nn.Module):
        return call
    own = {"__call__": staticmethod(call), "__doc__": fn.__doc__, "__reduce_ex__": _reduced_module, "__copy__": _copied}
    return type("CompiledModule", (CompiledModule,), {**special_methods(type(fn)), **own})(fn, call.session)


_DESCRIPTORS = (staticmethod, classmethod, property, functools.cached_property)


def _compiled_descriptor(made: Any, choices: Choices) -> Any:
    """The same kind of entry of a class, of its function compiled."""
    if isinstance(made, property):
        return type(made)(compiled(made.fget, choices), made.fset, made.fdel, made.__doc__)
    if isinstance(made, functools.cached_property):
        return type(made)(compiled(made.func, choices))
    return type(made)(compiled(made.__func__, choices))


def _compiled_class(cls: Any, choices: Choices) -> Any:
    """The class itself, calls of whose objects are compiled; each code is captured for all of them together."""
    call = called_by_instances(cls)
    cls.__call__ = compiled_call(call, choices, group_of(choices), entered_by_instances(cls, call))
    return cls


#: Told of each session that is made, before anything is captured.
started: list[Callable[[Session], None]] = []


class Group:
    """What sessions have in common that capture alike; it lives as long as one of them."""

    def __init__(self) -> None:
        self.histories = Histories()


_GROUPS: weakref.WeakValueDictionary[Any, Group] = weakref.WeakValueDictionary()


def group_of(choices: Choices) -> Group | None:
    """The group of all that is compiled with equal choices; None if what a backend was given cannot be compared."""
    try:
        return _GROUPS.setdefault(
            (_comparable(choices.backend), choices.dynamic, choices.fullgraph, choices.freeze), Group()
        )
    except TypeError:
        return None


class _Same:
    """An object as a key, equal to itself alone. Held weakly: it may lead back to what the key is for."""

    def __init__(self, value: object) -> None:
        self._reference = weakref.ref(value)
        self._hash = id(value)

    def __eq__(self, other: object) -> bool:
        value = self._reference()
        return value is not None and isinstance(other, _Same) and other._reference() is value

    def __hash__(self) -> int:
        return self._hash


_PLAIN = frozenset({bool, int, str, bytes, type(None)})


def _comparable(value: Any) -> Hashable:
    """Equal for values that are the same to a backend; raises ``TypeError`` where that is not to be told."""
    if type(value) is functools.partial:  # a subclass may call otherwise
        parts = (value.func, value.args, tuple(value.keywords.items()))
        return (functools.partial, *map(_comparable, parts))
    if isinstance(value, MethodType):
        return (MethodType, _Same(value.__self__), _Same(value.__func__))
    if type(value) is tuple:
        return (tuple, *map(_comparable, value))
    if type(value) is float:
        return (float, value.hex())
    # What may be changed, a list or a dictionary, cannot be referred to weakly, and has no place here.
    return (type(value), value) if type(value) in _PLAIN else _Same(value)


def compiled_call(
    fn: Callable[..., Any], choices: Choices, group: Group | None = None, target: Callable[..., Any] | None = None
) -> Any:
    """The native callable that enters ``fn``, or ``target`` in its place, with a session in force."""
    target = target or entered_function(fn)
    session = Session(
        choices.backend,
        dynamic=choices.dynamic,
        fullgraph=choices.fullgraph,
        freeze=choices.freeze,
        root=code_of(target),
        group=group,
        histories=None if group is None else group.histories,
    )
    for told in started:
        told(session)
    call = _native.CompiledCallable(target, session, whole=choices.fullgraph)
    call.__wrapped__ = fn
    return call


def reduced(wrapper: Any) -> Any:
    """What ``copy`` and ``pickle`` make of a compiled or disabled callable: a global's name, or how to make it again."""
    if _is_global(wrapper):
        return wrapper.__qualname__
    if isinstance(wrapper, _native.CompiledCallable):
        return compiled, (wrapper.__wrapped__, _choices(wrapper.session))
    return _disabled, (wrapper.__wrapped__, vars(wrapper).get("reason"))


def _disabled(fn: Callable[..., Any], reason: str | None) -> Any:
    made: Any = _native.DisabledCallable(fn)
    made.reason = reason
    return made


def signature_of(wrapper: Any) -> inspect.Signature:
    """A compiled or disabled callable's signature, a module's being its ``forward``'s; AttributeError if there is none."""
    wrapped = wrapper.__wrapped__
    try:
        return inspect.signature(wrapped.forward if isinstance(wrapped, torch.nn.Module) else wrapped)
    except (TypeError, ValueError) as error:
        raise AttributeError(str(error)) from error


def _choices(session: Any) -> Choices:
    return Choices(session.backend, session.dynamic, session.fullgraph, session.freeze)


def _is_global(value: Any) -> bool:
    """Whether a name of a module holds this very object, as under a decorator."""
    found: Any = sys.modules.get(getattr(value, "__module__", None) or "")
    for name in getattr(value, "__qualname__", "<no name>").split("."):
        found = getattr(found, name, None)
    return found is value


def _reduced_module(module: CompiledModule, protocol: Any) -> Any:
    return compiled, (module.original, _choices(module.session))


def _copied(module: CompiledModule) -> Any:
    return compiled(copy.copy(module.original), _choices(module.session))
