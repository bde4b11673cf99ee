"""Instances of ``collections.namedtuple`` classes."""

from __future__ import annotations

import types

from .base import Args, Interpreter, Kwargs, Variable, shown_type
from .lookups import MISSING, class_lookup
from .objects import descriptor_get
from .sequences import Tuple


class NamedTuple(Tuple):
    """An instance of a ``collections.namedtuple`` class (or a class that adds only methods to one)."""

    def attribute(self, m: Interpreter, name: str) -> Variable:
        fields: tuple[str, ...] = self.cls._fields  # type: ignore[attr-defined]
        raw, owner = class_lookup(m, self.cls, name)
        if name in fields and not isinstance(raw, property):
            return self.items[fields.index(name)]
        if name == "__class__":
            return m.known(self.cls)
        if name == "__dict__" or raw is MISSING:
            m.throw(AttributeError, f"{shown_type(self.cls)!r} object has no attribute {name!r}")
        if isinstance(raw, types.FunctionType | property | classmethod | staticmethod):
            return descriptor_get(m, raw, owner, self, self.cls, name)
        if name == "_fields":
            return m.from_python(fields)
        return super().attribute(m, name)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        raw, _ = class_lookup(m, self.cls, name)
        if isinstance(raw, types.FunctionType | property | classmethod | staticmethod):
            return m.call(self.attribute(m, name), args, kwargs)
        return super().method(m, name, args, kwargs)
