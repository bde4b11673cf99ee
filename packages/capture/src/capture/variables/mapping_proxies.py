"""``types.MappingProxyType`` of a dictionary: what reads that, and nothing that changes it."""

from __future__ import annotations

import operator
import types
from collections.abc import Iterable

from .base import Args, Interpreter, Kwargs, Variable
from .constants import BoundBuiltin
from .handlers import handles
from .lookups import has_entry, shown_type
from .mapping_inputs import ReadOnly
from .mappings import Dict
from .objects import Object
from .reconstruction import Emitter


class MappingProxy(ReadOnly):
    """A read-only view of a mapping."""

    def __init__(self, mapping: Variable) -> None:
        self.mapping = mapping

    def python_type(self) -> type:
        return types.MappingProxyType

    def shown(self) -> Variable:
        return self.mapping

    def truth(self, m: Interpreter) -> bool:
        return m.operators.truth(self.mapping)

    def length(self, m: Interpreter) -> Variable:
        return self.mapping.length(m)

    def iterate(self, m: Interpreter) -> Variable:
        return self.mapping.iterate(m)

    def item(self, m: Interpreter, key: Variable) -> Variable:
        return self.mapping.item(m, key)

    def contains(self, m: Interpreter, value: Variable) -> bool:
        return self.mapping.contains(m, value)

    def as_operand(self, m: Interpreter) -> Variable:
        return self.mapping.as_operand(m)

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name == "__class__":
            return super().attribute(m, name)
        if hasattr(types.MappingProxyType, name):
            return BoundBuiltin(self, name)
        m.errors.throw(AttributeError, f"'mappingproxy' object has no attribute {name!r}")

    def inplace(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        if symbol == "|=":
            m.builder.fold(operator.ior, [types.MappingProxyType({}), None])  # which says that it is not to be
        return None

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        return self.mapping.method(m, name, args, kwargs)

    def made_of(self) -> Iterable[Variable]:
        return (self.mapping,)

    def reconstruct(self, e: Emitter) -> None:
        e.call(types.MappingProxyType, [self.mapping])


@handles(types.MappingProxyType)
def _mapping_proxy(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    mapping = (args[0] if args else kwargs["mapping"]).realize(m)
    if not isinstance(mapping, Dict) and not (isinstance(mapping, Object) and has_entry(mapping.cls, "__getitem__")):
        m.errors.throw(TypeError, f"mappingproxy() argument must be a mapping, not {shown_type(mapping.python_type())}")
    return m.effects.created(MappingProxy(mapping))
