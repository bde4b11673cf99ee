"""``weakref.proxy`` objects from outside, which answer for what they refer to."""

from __future__ import annotations

import weakref
from typing import Any

from capture.errors import Unsupported
from capture.sources import Attr, Source

from .base import Args, Interpreter, Kwargs, Variable
from .building import builds


class WeakProxy(Variable):
    """A proxy; ``referent`` is what it refers to, read through it."""

    def __init__(self, cls: type, referent: Variable) -> None:
        self.cls = cls
        self.referent = referent

    def python_type(self) -> type:
        return self.cls

    def truth(self, m: Interpreter) -> bool:
        return m.operators.truth(self.referent)

    def attribute(self, m: Interpreter, name: str) -> Variable:
        return self.referent.realize(m).attribute(m, name)

    def set_attribute(self, m: Interpreter, name: str, value: Variable) -> None:
        self.referent.realize(m).set_attribute(m, name, value)

    def delete_attribute(self, m: Interpreter, name: str) -> None:
        self.referent.realize(m).delete_attribute(m, name)

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        if self.cls is weakref.ProxyType:
            m.errors.throw(TypeError, "'weakref.ProxyType' object is not callable")
        return m.calls.call(self.referent, args, kwargs)

    def length(self, m: Interpreter) -> Variable:
        return self.referent.realize(m).length(m)

    def item(self, m: Interpreter, key: Variable) -> Variable:
        return self.referent.realize(m).item(m, key)

    def set_item(self, m: Interpreter, key: Variable, value: Variable) -> None:
        self.referent.realize(m).set_item(m, key, value)

    def contains(self, m: Interpreter, value: Variable) -> bool:
        return self.referent.realize(m).contains(m, value)

    def iterate(self, m: Interpreter) -> Variable:
        return self.referent.realize(m).iterate(m)


@builds(weakref.ProxyType, weakref.CallableProxyType)
def _build_proxy(m: Interpreter, value: Any, source: Source | None) -> Variable:
    """It tells what it refers to as the owner of a method that every object has."""
    if source is None:
        raise Unsupported("a weak proxy of unknown origin")
    m.guards.of_type(source, type(value))
    try:
        referent = value.__init__.__self__
    except (ReferenceError, AttributeError):
        raise Unsupported("a weak proxy whose object is gone") from None
    return WeakProxy(type(value), m.builder.wrap(referent, Attr(Attr(source, "__init__"), "__self__")))
