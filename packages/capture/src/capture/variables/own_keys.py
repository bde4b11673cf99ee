"""What stands for elements and keys whose class defines ``__hash__`` in Python: equal as the program's ``__eq__`` has it."""

from __future__ import annotations

from collections.abc import Hashable

from capture.errors import Unsupported

from .base import Interpreter, Variable
from .constants import CONSTANT_TYPES, Constant


class _Given:
    """An object with this hash: what the interpreter makes of any integer, it makes of it."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __hash__(self) -> int:
        return self.value  # type: ignore[return-value]


def real_hash(m: Interpreter, given: Variable) -> int:
    """The hash that a ``__hash__`` which gave this value comes to; raises ``TypeError`` in the program if it is no integer."""
    found: int = m.builder.fold(hash, [_Given(m.builder.to_python(given))])
    return found


class OwnKey:
    """Asked by dictionaries for its hash and for equality, it asks the program's methods, as often and in the order that a real one is."""

    __slots__ = ("hash", "m", "value")

    def __init__(self, m: Interpreter, value: Variable, hashed: int) -> None:
        self.m = m
        self.value = value
        self.hash = hashed

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, OwnKey):
            return self.value is other.value or self.m.operators.equal(self.value, other.value)
        if type(other) in CONSTANT_TYPES:
            return self.m.operators.equal(Constant(other), self.value)
        raise Unsupported("comparison of a key of the program's with one of another kind")


def has_own(key: Hashable) -> bool:
    """Whether a key, or one within, asks the program's methods."""
    return isinstance(key, OwnKey) or (isinstance(key, tuple | frozenset) and any(map(has_own, key)))


def own_key(m: Interpreter, value: Variable, method: Variable) -> Hashable:
    """The key of an object whose class has this ``__hash__``."""
    return OwnKey(m, value, real_hash(m, m.calls.call(method, [], {}).realize(m)))
