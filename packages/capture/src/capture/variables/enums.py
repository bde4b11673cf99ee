"""Members of enumerations."""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Hashable
from typing import Any

from capture.errors import NotConstant, Unsupported
from capture.guards import GuardKind
from capture.sources import Attr, Const, Source

from .base import Args, Interpreter, Kwargs, Variable
from .building import builds, builds_where
from .constants import CONSTANT_TYPES, BoundBuiltin, Constant, Known
from .descriptors import descriptor_get
from .lookups import (
    MISSING,
    check_as_found,
    check_own_class,
    class_lookup,
    has_entry,
    is_data_descriptor,
    is_of_program,
    own_entry,
    shown_type,
    tells_in_its_own_way,
)
from .objects import truth_by_methods
from .own_keys import own_key
from .plain_values import Plain

#: Of a member that is a number or a text, which.
_EXACT: dict[type, Callable[[Any], Any]] = {int: int.__pos__, float: float.__pos__, str: str.__str__}


class EnumMember(Known):
    """A member of an enumeration: immutable, compared by identity or as its mixed-in type does."""

    def as_python(self, m: Interpreter) -> Any:
        if tells_in_its_own_way(type(self.value)):
            raise NotConstant(self)  # what is computed for real would call the program's methods
        return self.bare(m)

    def bare(self, m: Interpreter) -> Any:
        """The member, for what asks none of the program's methods."""
        own = vars(self.value)
        check_as_found(m, own)
        if m.guards.is_first(self.value, "bare"):
            for name in ("_name_", "_value_"):  # what it is computed with
                if name not in own:
                    raise Unsupported(f"a member of an enumeration that lost its {name}")
                kind = GuardKind.EQUALS if type(own[name]) in CONSTANT_TYPES else GuardKind.ID
                m.guards.add(Attr(self._place(), name, via_dict=True), kind, own[name])
        return super().as_python(m)

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if is_of_program(class_lookup(m, type(self.value), "__getattribute__")[0]):
            raise Unsupported("an attribute of a member whose class reads them in its own way")
        if name in ("value", "name") and class_lookup(m, type(self.value), name)[1] is enum.Enum:
            name = f"_{name}_"
        if name == "__class__":
            check_own_class(m, type(self.value))
            return m.builder.known(type(self.value))
        if name == "__dict__":  # which programs may change
            return m.builder.wrap(vars(self.value), Attr(self._place(), name))
        raw, owner = class_lookup(m, type(self.value), name)
        if not is_data_descriptor(m, raw):
            own = own_entry(m, self.value, self._place(), name)
            if own is not None:
                return own
        if isinstance(raw, (types.FunctionType, property, classmethod, staticmethod)):
            return descriptor_get(m, raw, owner, self, type(self.value), name)
        if isinstance(raw, types.DynamicClassAttribute) and is_of_program(raw.fget):
            m.guards.add(Attr(Const(raw, name), "fget", via_dict=True), GuardKind.ID, raw.fget)
            return m.calls.call(m.builder.class_attribute(raw.fget), [self], {})
        if raw is MISSING:
            fallback = self.special(m, "__getattr__")
            if fallback is not None:
                return m.calls.call(fallback, [Constant(name)], {})
            m.errors.throw(AttributeError, f"{shown_type(type(self.value))!r} object has no attribute {name!r}")
        found = m.builder.fold(getattr, [self.value, name])
        if callable(found) and getattr(found, "__self__", None) is self.value:
            return BoundBuiltin(self, name)
        return m.builder.from_python(found)

    def _place(self) -> Source:
        return self.source or Const(self.value, enum.Enum.__str__(self.value))

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        cls = type(self.value)
        raw, owner = class_lookup(m, cls, name)
        if isinstance(raw, (types.FunctionType, property, classmethod, staticmethod)):
            return m.calls.call(descriptor_get(m, raw, owner, self, cls, name), args, kwargs)
        if raw is MISSING:
            return super().method(m, name, args, kwargs)
        try:
            real = [m.builder.to_python(a) for a in args]
            named = {k: m.builder.to_python(v) for k, v in kwargs.items()}
        except NotConstant:
            raise Unsupported(f"enum method {name}") from None
        return m.builder.from_python(m.builder.fold(raw.__get__(self.value, cls), real, named))

    def special(self, m: Interpreter, name: str) -> Variable | None:
        """A special method where the program defines it, bound; ``enum``'s own read nothing but what the member is made of."""
        raw, owner = class_lookup(m, type(self.value), name)
        if not is_of_program(raw):
            return None
        return descriptor_get(m, raw, owner, self, type(self.value), name)

    def truth(self, m: Interpreter) -> bool:
        told = truth_by_methods(m, self)
        if told is None and not any(has_entry(type(self.value), name) for name in ("__bool__", "__len__")):
            return True
        return bool(m.builder.fold(bool, [self.bare(m)])) if told is None else told

    def hash_key(self, m: Interpreter) -> Hashable:
        own = self.special(m, "__hash__")
        if own is not None:
            return own_key(m, self, own)
        self.bare(m)
        return super().hash_key(m)

    def as_argument(self, m: Interpreter) -> tuple[Any, Any]:
        for cls, exact in _EXACT.items():  # of which operations take the number, or the text, alone
            if isinstance(self.value, cls):
                plain = exact(self.value)
                return plain, plain
        return super().as_argument(m)

    def length(self, m: Interpreter) -> Variable:
        if isinstance(self.value, enum.Flag) and self.special(m, "__len__") is None:
            return Constant(m.builder.fold(len, [self.bare(m)]))
        return super().length(m)

    def contains(self, m: Interpreter, value: Variable) -> bool:
        if isinstance(self.value, enum.Flag) and self.special(m, "__contains__") is None:
            return bool(m.builder.fold(lambda a, b: b in a, [self.bare(m), m.builder.to_python(value)]))
        return super().contains(m, value)

    def iterate(self, m: Interpreter) -> Variable:
        if isinstance(self.value, enum.Flag) and self.special(m, "__iter__") is None:
            members = m.builder.fold(list, [self.bare(m)])
            return m.builder.new_tuple([m.builder.known(each) for each in members]).iterate(m)
        return (
            Constant(m.builder.fold(str, [self.value])).iterate(m)
            if isinstance(self.value, str)
            else super().iterate(m)
        )


def _is_of_c(cls: type) -> bool:
    """Whether it is an enumeration written in C++, as pybind11 has them."""
    return type(cls).__module__ == "pybind11_builtins" and "__entries" in vars(cls)


@builds_where(_is_of_c)
def _build_member_of_c(m: Interpreter, value: Any, source: Source | None) -> Variable:
    """Its members are numbers with names: two of one number are the same, whichever objects they are."""
    made = Plain(value)
    if source is None or isinstance(source.root, Const):
        return m.builder.identified(made, source)
    m.guards.add(source, GuardKind.TYPE, type(value))
    made.source, number = source, int(value)
    m.guards.predicate(made, lambda real: int(real) == number, f"{{}} is {value}")
    return made


@builds(enum.Enum, subclasses=True)
def _build_member(m: Interpreter, value: Any, source: Source | None) -> Variable:
    m.guards.note_type(value)
    return m.builder.identified(EnumMember(value), source)
