"""Iterators over dictionaries, and views of these (``keys()``, ``values()``, ``items()``).

In: a dictionary, of which they look at what ``Entries`` says.
"""

from __future__ import annotations

import collections
from collections.abc import Hashable, Iterable
from typing import Any, TypeGuard, cast

from capture.bytecode import build
from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .constants import BoundBuiltin, Constant
from .iterators import Iterator, StopIter, begun
from .lookups import has_entry, shown_type
from .operations import BINARY
from .reconstruction import CannotReconstruct, Emitter, method_of
from .sequences import Tuple, builtin_method, has_method
from .set_elements import Elements, Given, hashes_as_itself
from .sets import SET_ALGEBRA, SET_OPERATORS, Set


class Entries(Variable):
    """A dictionary, as its views and iterators see it."""

    cls: type
    #: Hashed key -> (key, value), in order.
    entries: dict[Hashable, tuple[Variable, Variable]]
    #: Counts keys that came or went.
    age: int

    def in_order(self, m: Interpreter) -> dict[Hashable, tuple[Variable, Variable]]:
        """The entries, for uses that depend on how many there are, and look at the keys themselves."""
        raise NotImplementedError

    def find(self, m: Interpreter, key: Variable) -> Variable | None:
        """The value under ``key``, or None; guarded either way."""
        raise NotImplementedError


def view_of(owner: Entries, kind: str) -> Any:
    """A real view, of nothing, of the kind that such a dictionary gives."""
    return getattr(collections.OrderedDict() if owner.cls is collections.OrderedDict else {}, kind)()


def _at_its_end(cls: type, kind: str) -> Any:
    """An iterator that has given all; called from generated code."""
    return iter(method_of(cls, kind)(cls()))


class DictIterator(Iterator):
    """Over the keys, values or items of a dict; a change of size while it runs is the user's error."""

    def __init__(self, m: Interpreter, owner: Entries, kind: str) -> None:
        self.owner = owner
        self.kind = kind
        self.keys = list(owner.in_order(m))
        self.age = owner.age
        self.position = 0
        #: Whether it gives no more, whatever becomes of the dictionary, of which it has let go.
        self.ended = False
        #: Whether it has seen that the size changed, and says so for ever.
        self.misled = False

    def python_type(self) -> type:
        return type(iter(view_of(self.owner, self.kind)))

    def next(self, m: Interpreter) -> Variable:
        if self.ended:
            raise StopIter
        if self.owner.cls is collections.OrderedDict:
            self.ended = self.position >= len(self.keys) or self.owner.age != self.age
            if self.position < len(self.keys) and self.ended:
                m.errors.throw(RuntimeError, "OrderedDict mutated during iteration")
        elif self.misled or len(self.owner.entries) != len(self.keys):
            self.misled = True
            m.errors.throw(RuntimeError, "dictionary changed size during iteration")
        elif self.owner.age != self.age:
            raise Unsupported("a dictionary's keys changed during iteration")
        if self.position >= len(self.keys):
            self.ended = True
            raise StopIter
        key, value = self.owner.entries[self.keys[self.position]]
        self.position += 1
        if self.kind == "items":
            return m.builder.new_tuple([key, value])
        return key if self.kind == "keys" else value

    def made_of(self) -> Iterable[Variable]:
        if self.ended:
            return ()
        if self.misled or self.owner.age != self.age or len(self.owner.entries) != len(self.keys):
            raise CannotReconstruct(self, "an iterator over a dictionary that was changed")
        return (self.owner,)

    def waits_for(self, m: Interpreter) -> bool:
        return not self.ended and m.effects.has_changed_input(self.owner)

    def reconstruct(self, e: Emitter) -> None:
        if self.ended:
            e.emit(build.push_callable(build.load_const(_at_its_end)))
            plain = collections.OrderedDict if issubclass(self.owner.cls, collections.OrderedDict) else dict
            e.emit(build.load_const(plain), build.load_const(self.kind), build.call(2))
            return
        e.emit(build.push_callable(build.load_const(begun)))
        e.call(method_of(self.owner.cls, self.kind), [self.owner])
        e.emit(build.load_const(self.position), build.call(2))


def _backwards(cls: type, kind: str, owner: dict[Any, Any] | None) -> Any:
    """An iterator over a dictionary, or of none one that has given all, from its end; called from generated code."""
    return reversed(method_of(cls, kind)(cls() if owner is None else owner))


class ReversedDictIterator(DictIterator):
    """The same from the end."""

    def __init__(self, m: Interpreter, owner: Entries, kind: str) -> None:
        super().__init__(m, owner, kind)
        self.keys.reverse()

    def python_type(self) -> type:
        return type(reversed(view_of(self.owner, self.kind)))

    def reconstruct(self, e: Emitter) -> None:
        plain = collections.OrderedDict if issubclass(self.owner.cls, collections.OrderedDict) else dict
        e.emit(build.push_callable(build.load_const(begun)))
        e.emit(build.push_callable(build.load_const(_backwards)), build.load_const(plain), build.load_const(self.kind))
        e.load(Constant(None) if self.ended else self.owner)
        e.emit(build.call(3), build.load_const(0 if self.ended else self.position), build.call(2))


class DictView(Variable):
    """``d.keys()``, ``d.values()`` or ``d.items()`` (``kind``)."""

    def __init__(self, owner: Entries, kind: str) -> None:
        self.owner = owner
        self.kind = kind

    def python_type(self) -> type:
        return type(view_of(self.owner, self.kind))

    def elements(self, m: Interpreter) -> list[Variable]:
        """What it gives, in order."""
        entries = self.owner.in_order(m).values()
        if self.kind == "keys":
            return [k for k, _ in entries]
        if self.kind == "values":
            return [v for _, v in entries]
        return [m.builder.new_tuple([k, v]) for k, v in entries]

    def truth(self, m: Interpreter) -> bool:
        return bool(self.owner.in_order(m))

    def length(self, m: Interpreter) -> Variable:
        return Constant(len(self.owner.in_order(m)))

    def iterate(self, m: Interpreter) -> Variable:
        return m.effects.created(DictIterator(m, self.owner, self.kind))

    def contains(self, m: Interpreter, value: Variable) -> bool:
        if self.kind == "keys":
            return self.owner.contains(m, value)
        value = value.realize(m)
        if self.kind == "items" and isinstance(value, Tuple):  # a key that is looked up, and a value that is compared
            found = self.owner.find(m, value.items[0]) if len(value.items) == 2 else None
            return found is not None and m.operators.equal(found, value.items[1])
        return super().contains(m, value)

    def as_set(self, m: Interpreter) -> Set:
        """Its elements as a set, for the operators that views of keys and items share with sets."""
        if self.kind == "values":
            raise Unsupported("set operation on dict values")
        return Set.of(m, self.elements(m))

    def with_others(self, m: Interpreter, symbol: str, left: Variable, right: Variable) -> Variable | None:
        """An operator of sets, of which it is one side: the other may be anything that can be iterated."""
        if self.kind == "values" or symbol not in SET_OPERATORS:
            return None
        if symbol == "&":
            return _meeting(
                m, *((left, right) if isinstance(left, DictView) and left.kind != "values" else (right, left))
            )
        if symbol == "^" and _is_of_items(left) and _is_of_items(right):
            return Set.of(m, [*_outside(m, right, left), *_outside(m, left, right)], in_order=True)
        given = [Given(m, side) for side in (left, right)]  # an iterator gives them once
        first, second = (Set.of(m, each.entries.values()) for each in given)
        made: Any = SET_ALGEBRA[SET_OPERATORS[symbol]](m, first, second)
        reals = [
            side.real(m) if isinstance(side, DictView) else each.real
            for side, each in zip((left, right), given, strict=True)
        ]
        if None not in reals:
            made.twin = BINARY[symbol][0](*reals)
        return made

    def real(self, m: Interpreter) -> Any:
        """What real sets of it are made of in the same order: a real view, or a list of values; None if they are not all known."""
        entries = self.owner.in_order(m)
        of_each = {"keys": (0,), "values": (1,), "items": (0, 1)}[self.kind]
        if not all(hashes_as_itself(pair[place].realize(m)) for pair in entries.values() for place in of_each):
            return None
        if self.kind == "keys":
            return dict.fromkeys(entries).keys()
        if self.kind == "values":
            return [value.realize(m).hash_key(m) for _, value in entries.values()]
        return {key: value.realize(m).hash_key(m) for key, (_, value) in entries.items()}.items()

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if not has_entry(self.python_type(), name):
            m.errors.throw(AttributeError, f"{shown_type(self.python_type())!r} object has no attribute {name!r}")
        if name == "isdisjoint" or has_method(self, name):
            return BoundBuiltin(self, name)
        return super().attribute(m, name)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "isdisjoint" and self.kind != "values" and len(args) == 1 and not kwargs:
            one, other = args[0].realize(m), cast(Variable, self)
            if _is_like_a_set(one) and _size(m, one) > _size(m, self):
                one, other = self, one
            return Constant(not any(other.contains(m, x) for x in _elements(m, one)))
        if name == "isdisjoint":
            return self.as_set(m).method(m, name, args, kwargs)
        return builtin_method(self, m, name, args, kwargs)

    def made_of(self) -> Iterable[Variable]:
        return (self.owner,)

    def reconstruct(self, e: Emitter) -> None:
        e.call(method_of(self.owner.cls, self.kind), [self.owner])

    def as_operand(self, m: Interpreter) -> Variable:
        return self.as_set(m)


# ---- views as sets: what is looked up in one is a key, and values need no hashes as long as none of them gets into a set ----


def _is_of_items(value: Variable) -> TypeGuard[DictView]:
    return isinstance(value, DictView) and value.kind == "items"


def _is_like_a_set(value: Variable) -> TypeGuard[Elements | DictView]:
    return isinstance(value, Elements) or (isinstance(value, DictView) and value.kind != "values")


def _size(m: Interpreter, value: Variable) -> int:
    return int(value.length(m).as_python(m))


def _elements(m: Interpreter, value: Variable) -> Iterable[Variable]:
    """In order, if that is certain."""
    if isinstance(value, Elements):
        known = value.known_order()
        return list(value.entries.values()) if known is None else known
    return m.iteration.each(value)


def _outside(m: Interpreter, one: Variable, other: Variable) -> list[Variable]:
    return [x for x in _elements(m, one) if not other.contains(m, x)]


def _meeting(m: Interpreter, view: Variable, other: Variable) -> Variable:
    """``view & other``, with the elements of that which Python asks for them."""
    other = other.realize(m)
    one: Variable = other
    if (isinstance(other, Elements) and other.cls is set and _size(m, view) <= _size(m, other)) or (
        isinstance(other, DictView) and other.kind != "values" and _size(m, other) > _size(m, view)
    ):
        one, view = view, other
    known = not isinstance(one, Elements) or one.known_order() is not None
    return Set.of(m, [x for x in _elements(m, one) if view.contains(m, x)], in_order=known)


def compared(m: Interpreter, symbol: str, left: Variable, right: Variable) -> Variable | None:
    """A comparison of which one side is a view of items; None where the other is nothing like a set, or neither is one."""
    if not (_is_of_items(left) or _is_of_items(right)) or not (_is_like_a_set(left) and _is_like_a_set(right)):
        return None
    if symbol in ("==", "!="):
        one, other = (left, right) if isinstance(left, DictView) else (right, left)
        same = _size(m, one) == _size(m, other) and not _outside(m, one, other)
        return Constant(same == (symbol == "=="))
    one, other = (right, left) if symbol[0] == ">" else (left, right)
    fits = _size(m, one) < _size(m, other) or (symbol[1:] == "=" and _size(m, one) == _size(m, other))
    return Constant(fits and not _outside(m, one, other))
