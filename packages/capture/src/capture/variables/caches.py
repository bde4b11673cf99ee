"""``functools.lru_cache`` and ``cache`` around functions, made in the frame: what they remember and count."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import Any

from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .constants import BoundBuiltin, Constant
from .functions import Method
from .handlers import handles


class Cached(Variable):
    """A function that remembers. Its memory lives in the frame, so that the code that goes on cannot have it."""

    def __init__(self, function: Variable, limit: int | None, typed: bool, info: Variable) -> None:
        self.function = function
        self.limit = limit
        self.typed = typed
        self.info = info
        self.results: dict[Hashable, Variable] = {}
        self.hits = self.misses = 0
        self.attrs: dict[str, Variable] = {}

    def python_type(self) -> type:
        return functools._lru_cache_wrapper

    def truth(self, m: Interpreter) -> bool:
        return True

    def hash_key(self, m: Interpreter) -> Hashable:
        return m.identity.key(self)

    def key(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Hashable:
        """What stands for the arguments: keywords in the order in which they are given."""
        values = [*args, *kwargs.values()]
        keys = tuple(value.realize(m).hash_key(m) for value in values)
        types = tuple(value.realize(m).python_type() for value in values) if self.typed else ()
        return (len(args), keys, tuple(kwargs), types)

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        m.effects.activity += 1
        if self.limit == 0:
            self.misses += 1
            return m.calls.call(self.function, args, kwargs)
        key = self.key(m, args, kwargs)
        found = self.results.get(key)
        if found is not None:
            self.hits += 1
            if self.limit is not None:
                self.results[key] = self.results.pop(key)  # used last
            return found
        self.misses += 1
        result = m.calls.call(self.function, args, kwargs)
        if self.limit is not None and len(self.results) >= self.limit and key not in self.results:
            del self.results[next(iter(self.results))]
        return self.results.setdefault(key, result)

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name in self.attrs:
            return self.attrs[name]
        if name in ("cache_info", "cache_clear", "__call__", "__get__"):
            return BoundBuiltin(self, name)
        if hasattr(functools._lru_cache_wrapper, name):
            raise Unsupported(f"{name} of a function that remembers")
        m.errors.throw(AttributeError, f"'functools._lru_cache_wrapper' object has no attribute {name!r}")

    def set_attribute(self, m: Interpreter, name: str, value: Variable) -> None:
        m.effects.activity += 1
        self.attrs[name] = value

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "cache_info":
            counts = (self.hits, self.misses, self.limit, len(self.results))
            return m.calls.call(self.info, [Constant(count) for count in counts], {})
        if name == "cache_clear":
            self.results.clear()
            self.hits = self.misses = 0
            return Constant(None)
        if name == "__get__":
            owner = args[0].realize(m)
            return self if m.builder.is_none(owner) else m.effects.created(Method(self, owner))
        return self.call(m, args, kwargs)


@handles(functools._lru_cache_wrapper)
def _cached(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """As ``lru_cache`` calls it: with a limit that is an int or None."""
    function, limit, typed, info = args
    size: Any = m.builder.to_python(limit)
    return m.effects.created(Cached(function, size, m.operators.truth(typed), info))
