"""Instances of ``collections.namedtuple`` classes."""

from __future__ import annotations

import types
from collections import namedtuple
from typing import Any

from capture.errors import Unsupported
from capture.guards import GuardKind
from capture.sources import Const, Item, Source

from .base import Args, Interpreter, Kwargs, Variable
from .building import builds_where
from .descriptors import descriptor_get
from .lookups import MISSING, class_lookup, shown_type
from .placeholders import Lazy
from .sequences import Tuple

#: The class of what reads a field.
_GETTER = type(vars(namedtuple("_One", "one"))["one"])

#: What tuples do in C, and is done here as they do it.
_AS_TUPLES = (
    "__add__", "__mul__", "__rmul__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__getitem__", "__len__", "__iter__",
    "__contains__", "__bool__", "__hash__", "__getattr__", "__getattribute__", "__radd__",
)  # fmt: skip


def check_operators(m: Interpreter, cls: type) -> None:
    """Raises ``Unsupported`` for a class that has operators of its own."""
    for name in _AS_TUPLES:
        raw, owner = class_lookup(m, cls, name)
        if raw is not MISSING and owner not in (tuple, object):
            raise Unsupported(f"{cls.__name__}, a named tuple with a {name} of its own")


class NamedTuple(Tuple):
    """An instance of a ``collections.namedtuple`` class (or a class that adds only methods to one)."""

    def attribute(self, m: Interpreter, name: str) -> Variable:
        raw, owner = class_lookup(m, self.cls, name)
        if type(raw) is _GETTER:
            index = raw.__reduce__()[1][0]
            if index >= len(self.items):
                raise Unsupported(f"a field of a {self.cls.__name__} that is too short")
            return self.items[index]
        if name == "__class__":
            return m.builder.known(self.cls)
        if name == "__dict__" or raw is MISSING:
            m.errors.throw(AttributeError, f"{shown_type(self.cls)!r} object has no attribute {name!r}")
        if owner is tuple or owner is object:
            return super().attribute(m, name)
        return descriptor_get(m, raw, owner, self, self.cls, name)

    def set_attribute(self, m: Interpreter, name: str, value: Variable) -> None:
        raw, _ = class_lookup(m, self.cls, name)
        if raw is MISSING and self.cls.__dictoffset__ == 0:
            m.errors.throw(AttributeError, f"{shown_type(self.cls)!r} object has no attribute {name!r}")
        if type(raw) is _GETTER:
            m.errors.throw(AttributeError, "can't set attribute")
        super().set_attribute(m, name, value)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        raw, _ = class_lookup(m, self.cls, name)
        if isinstance(raw, (types.FunctionType, property, classmethod, staticmethod)):
            return m.calls.call(self.attribute(m, name), args, kwargs)
        return super().method(m, name, args, kwargs)


@builds_where(lambda cls: issubclass(cls, tuple) and hasattr(cls, "_fields") and cls.__new__ is not tuple.__new__)
def _build_named_tuple(m: Interpreter, value: Any, source: Source | None) -> Variable:
    m.guards.of_type(source, type(value))
    check_operators(m, type(value))
    assert source is not None
    if not isinstance(source, Const):
        m.guards.add(source, GuardKind.LEN, len(value))
    return NamedTuple([Lazy(v, Item(source, i)) for i, v in enumerate(value)], type(value))
