"""``functools.singledispatch``: which implementation a class gets, of those that are registered."""

from __future__ import annotations

import abc
import functools
import weakref
from typing import Any

from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .handlers import handles_wrapper
from .lookups import compares_in_its_own_way
from .mappings import Dict


@handles_wrapper("functools.singledispatch.<locals>.dispatch", "registry", "dispatch_cache")
def _dispatch(m: Interpreter, registry: Variable, cache: Variable, args: Args, kwargs: Kwargs) -> Variable | None:
    """What is registered for the first class along the order of the class's bases; abstract ones may claim it, too."""
    if cache.realize(m).python_type() is not weakref.WeakKeyDictionary:  # something of the program's, which notices
        return None
    found = registry.realize(m)
    cls: Any = m.builder.to_python(args[0])
    if not isinstance(found, Dict) or not isinstance(cls, type):
        raise Unsupported("singledispatch whose implementations are not known")
    if compares_in_its_own_way(type(cls)):
        raise Unsupported("singledispatch on a class whose metaclass says what it is equal to")
    implementations = {m.builder.to_python(key): value for key, value in found.whole(m).values()}
    m.classes.note_order(cls)
    if cls in implementations:
        return implementations[cls]
    if any(isinstance(key, abc.ABCMeta) for key in implementations):
        for key in implementations:
            if isinstance(key, abc.ABCMeta) and not issubclass(cls, key):
                m.classes.note_unregistered(cls, key)
    chosen = m.builder.fold(functools._find_impl, [cls, {key: key for key in implementations}])  # type: ignore[attr-defined]
    return implementations[chosen]
