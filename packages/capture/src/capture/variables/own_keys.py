"""What stands for elements and keys whose class defines ``__hash__`` in Python: equal as the program's ``__eq__`` has it."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

from capture.errors import Unsupported

from .base import Interpreter, Variable
from .constants import CONSTANT_TYPES, Constant
from .reconstruction import CannotReconstruct


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

    __slots__ = ("answered", "answers", "by_id", "hash", "m", "pure", "rewritten", "value")

    def __init__(self, m: Interpreter, value: Variable, hashed: int, pure: bool, by_id: bool = False) -> None:
        self.m = m
        self.value = value
        self.hash = hashed
        #: Whether the hash is not that of the real one, which follows from ids, but stands for it.
        self.by_id = by_id
        #: Whether ``__hash__`` did nothing but tell, and what had changed by then.
        self.pure = pure
        self.rewritten = m.effects.rewritten
        #: What it was found equal to or not, by id, and when: looking up an entry and storing it is one look-up for the program.
        self.answers: dict[int, bool] = {}
        self.answered: Any = None

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, OwnKey):
            return self.value is other.value or self._asked(other)
        if type(other) in CONSTANT_TYPES:
            return self.m.operators.equal(Constant(other), self.value)
        raise Unsupported("comparison of a key of the program's with one of another kind")

    def _asked(self, other: OwnKey) -> bool:
        """Whether they are equal: the program is asked once for as long as it does nothing else."""
        for key in (self, other):
            if key.answered != self.m.state.moment:
                key.answers.clear()
        found = self.answers.get(id(other))
        if found is None:  # one that is looked up among several keeps what it was asked with each, in turn
            found = other.answers.get(id(self))
        if found is None:
            found = self.m.operators.equal(self.value, other.value)
        self.answers[id(other)] = other.answers[id(self)] = found
        self.answered = other.answered = self.m.state.moment
        return found


def has_own(key: Hashable) -> bool:
    """Whether a key, or one within, asks the program's methods."""
    return isinstance(key, OwnKey) or (isinstance(key, (tuple, frozenset)) and any(map(has_own, key)))


def _asks_more(key: Hashable) -> bool:
    """Whether code that asks a key, or one within, for its hash again does more than that, or may be told another."""
    if isinstance(key, OwnKey):
        m = key.m
        # What was changed outside is, where the container is made, as it was before.
        as_before = not m.globals.written and not m.effects.has_rewritten_inputs()
        return not (key.pure and key.rewritten == m.effects.rewritten and as_before)
    return isinstance(key, (tuple, frozenset)) and any(map(_asks_more, key))


def check_kept(owner: Variable, keys: Collection[Hashable]) -> None:
    """Raise ``CannotReconstruct`` where code that makes a container again asks the program for more than hashes that are known."""
    own = [key for key in keys if has_own(key)]
    if not own or (not any(map(_asks_more, own)) and len({hash(key) for key in keys}) == len(keys)):
        return
    made = owner if owner.source is None else next((k.value for k in own if isinstance(k, OwnKey)), owner)
    raise CannotReconstruct(made, "a container of objects whose __hash__ or __eq__ may do more than tell")


def own_key(m: Interpreter, value: Variable, method: Variable) -> Hashable:
    """The key of an object whose class has this ``__hash__``."""
    before = m.effects.changes
    given = m.calls.call(method, [], {}).realize(m)
    hashed = hash(given.hash_key(m)) if given.hashes_by_id else real_hash(m, given)
    code = getattr(getattr(method, "function", None), "code", None)
    pure = m.effects.changes == before and code is not None and not code.co_freevars
    return OwnKey(m, value, hashed, pure, given.hashes_by_id)
