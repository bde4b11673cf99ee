"""What every variable can be asked. A variable stands for one Python value of the program under evaluation.

The defaults answer "unsupported", which becomes a graph break: a family overrides what it understands.
"""

from __future__ import annotations

import types
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from capture.errors import NotConstant, Unsupported

if TYPE_CHECKING:
    from capture.evaluator.machine import Machine
    from capture.sources import Source

#: Entries of a class whose representation tells the class's full name.
_TELLING = (types.WrapperDescriptorType, types.MethodDescriptorType, types.GetSetDescriptorType)

Args = list["Variable"]
Kwargs = dict[str, "Variable"]


def shown_type(cls: type) -> str:
    """A class's name as the interpreter's messages have it: of those made in C it may hold their module's."""
    if cls.__module__ == "builtins":
        return cls.__name__
    for entry in vars(cls).values():
        if isinstance(entry, _TELLING) and entry.__objclass__ is cls:
            return repr(entry).removesuffix("' objects>").rpartition("'")[2]
    return cls.__name__


class VarKey:
    """A variable as dictionary key: hashed by identity of the value it stands for."""

    __slots__ = ("var",)

    def __init__(self, var: Variable) -> None:
        self.var = var

    def __hash__(self) -> int:
        return id(self.var)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VarKey) and other.var is self.var


class Variable:
    """``source`` says how to read the value again at run time; None for values made inside the frame.

    ``step`` is the root instruction count at which it was made.
    """

    source: Source | None = None
    step: int = -1

    def python_type(self) -> type:
        raise Unsupported(f"type of {self!r}")

    def as_python(self, m: Machine) -> Any:
        """The real Python value, if it is known entirely; raises ``NotConstant``."""
        raise NotConstant(self)

    def hash_key(self, m: Machine) -> Hashable:
        raise Unsupported(f"hash of {self!r}")

    def truth(self, m: Machine) -> bool:
        raise Unsupported(f"truth value of {self!r}")

    def attribute(self, m: Machine, name: str) -> Variable:
        raise Unsupported(f"attribute {name!r} of {self!r}")

    def set_attribute(self, m: Machine, name: str, value: Variable) -> None:
        raise Unsupported(f"setting attribute {name!r} of {self!r}")

    def delete_attribute(self, m: Machine, name: str) -> None:
        raise Unsupported(f"deleting attribute {name!r} of {self!r}")

    def call(self, m: Machine, args: Args, kwargs: Kwargs) -> Variable:
        raise Unsupported(f"call of {self!r}")

    def method(self, m: Machine, name: str, args: Args, kwargs: Kwargs) -> Variable:
        return m.call(self.attribute(m, name), args, kwargs)

    def length(self, m: Machine) -> Variable:
        raise Unsupported(f"length of {self!r}")

    def iterate(self, m: Machine) -> Variable:
        raise Unsupported(f"iteration over {self!r}")

    def next(self, m: Machine) -> Variable:
        """Next element of an iterator; raises ``StopIter``."""
        raise Unsupported(f"next() of {self!r}")

    def item(self, m: Machine, key: Variable) -> Variable:
        raise Unsupported(f"subscript of {self!r}")

    def set_item(self, m: Machine, key: Variable, value: Variable) -> None:
        raise Unsupported(f"item assignment to {self!r}")

    def delete_item(self, m: Machine, key: Variable) -> None:
        raise Unsupported(f"item deletion from {self!r}")

    def contains(self, m: Machine, value: Variable) -> bool:
        """``value in self`` by iteration, as Python does without ``__contains__``."""
        return any(m.equal(x, value) for x in m.elements(self))

    def realize(self, m: Machine) -> Variable:
        """The variable itself; an input not looked at yet installs its guards here."""
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class Null(Variable):
    """The interpreter's NULL on the value stack (or an unbound local saved there)."""


NULL = Null()


class Lazy(Variable):
    """An input value not looked at yet: no guard until it is."""

    def __init__(self, value: Any, source: Source) -> None:
        self.value = value
        self.source = source
        self.seen: Variable | None = None

    def realize(self, m: Machine) -> Variable:
        if self.seen is None:
            self.seen = m.wrap(self.value, self.source)
        return self.seen

    def __repr__(self) -> str:
        return f"<input {self.source.name if self.source else '?'}>"
