"""``id(x)``, and ``hash(x)`` where that follows from ids: numbers of which only is known whose they are.

They are compared, hashed and looked up as that object.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from itertools import starmap

from capture.errors import Unsupported
from symshapes import dataclass

from .base import Interpreter, Variable
from .constants import CONSTANT_TYPES, Constant
from .own_keys import OwnKey
from .reconstruction import Emitter

_NUMBERS = (int, float, complex)


@dataclass(frozen=True)
class IdKey:
    """What stands for an ``id`` among elements and keys: the key of whose it is."""

    owner: Hashable


def check_ids(m: Interpreter, some: Collection[Hashable], others: Collection[Hashable]) -> None:
    """Raise ``Unsupported`` where ids of objects are looked up among numbers, which may be ids, too, or the other way round."""
    if m.identity.has_ids:
        _check_apart(some, others)


def _check_apart(some: Collection[Hashable], others: Collection[Hashable]) -> None:
    for mine, theirs in ((some, others), (others, some)):
        with_ids = [key for key in mine if _holds(key, _is_id)]
        if with_ids and any(_is_unsure(key, other) for key in with_ids for other in theirs):
            raise Unsupported("an id() among numbers")


def _is_id(key: Hashable) -> bool:
    return isinstance(key, IdKey) or (isinstance(key, OwnKey) and key.by_id)


def _is_number(key: Hashable) -> bool:
    """Whether it is one, or hashes as one, that may be an id."""
    return isinstance(key, _NUMBERS) or (isinstance(key, OwnKey) and not key.by_id)


def _holds(key: Hashable, kind: Callable[[Hashable], bool]) -> bool:
    return kind(key) or (isinstance(key, (tuple, frozenset)) and any(_holds(part, kind) for part in key))


def follows_from_ids(key: Hashable) -> bool:
    """Whether what a key stands for hashes by an id, its own or of something within."""
    return _holds(key, _is_id)


def _is_unsure(key: Hashable, other: Hashable) -> bool:
    """Whether they are equal or not by what number an id is."""
    if isinstance(key, tuple) and isinstance(other, tuple):
        pairs = [*zip(key, other, strict=False)]
        return len(key) == len(other) and any(starmap(_is_unsure, pairs)) and not any(starmap(_differ, pairs))
    if isinstance(key, frozenset) and isinstance(other, frozenset):
        return any(_holds(one, _is_id) and _holds(two, _is_number) for one, two in ((key, other), (other, key)))
    return any(_is_id(one) and _is_number(two) for one, two in ((key, other), (other, key)))


def _differ(key: Hashable, other: Hashable) -> bool:
    """Whether two parts differ for certain."""
    plain = type(key) in CONSTANT_TYPES and type(other) in CONSTANT_TYPES
    ids = isinstance(key, IdKey) and isinstance(other, IdKey)
    return (plain or ids) and key != other


class Identity(Variable):
    """The ``id`` of an object, that is not looked at as a number."""

    hashes_by_id = True

    def __init__(self, owner: Variable) -> None:
        self.owner = owner

    def python_type(self) -> type:
        return int

    def truth(self, m: Interpreter) -> bool:
        return True

    def may_be_among(self, m: Interpreter, keys: Collection[Hashable]) -> bool:
        _check_apart((IdKey(None),), keys)
        return True

    def hash_key(self, m: Interpreter) -> Hashable:
        m.identity.has_ids = True
        self.owner.as_object(m)
        return IdKey(m.identity.key(self.owner))

    def compare(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        if symbol not in ("==", "!="):
            return None
        if isinstance(other, Identity):
            return Constant(m.operators.is_(self.owner, other.owner) == (symbol == "=="))
        if isinstance(other, Constant) and not isinstance(other.value, (int, float, complex)):
            return Constant(symbol == "!=")
        raise Unsupported("comparison of an id() with a number")

    def made_of(self) -> Iterable[Variable]:
        return (self.owner,)

    def reconstruct(self, e: Emitter) -> None:
        e.call(id, [self.owner])


class Hashed(Variable):
    """The ``hash`` of a value that holds ids, or objects that hash by theirs; not looked at as a number."""

    hashes_by_id = True

    def __init__(self, owner: Variable) -> None:
        self.owner = owner

    def python_type(self) -> type:
        return int

    def hash_key(self, m: Interpreter) -> Hashable:
        m.identity.has_ids = True
        return IdKey(("hash", self.owner.hash_key(m)))

    def compare(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        if symbol in ("==", "!=") and isinstance(other, Constant) and type(other.value) is int and other.value == -1:
            return Constant(symbol == "!=")  # which no hash is
        raise Unsupported("comparison of a hash that follows from an id()")

    def made_of(self) -> Iterable[Variable]:
        return (self.owner,)

    def reconstruct(self, e: Emitter) -> None:
        e.call(hash, [self.owner])
