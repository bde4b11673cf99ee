"""Arguments of functions that remember, as real objects: a real memory is asked for them.

In: variables. Out: what they are; in the place of an object that the frame made one that is like it. What the program's ``__hash__`` and
``__eq__`` read of them is guarded, since they are evaluated, too; that of two equal objects both have one hash is the language's demand.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from capture.errors import NotConstant, Unsupported

from .base import Interpreter, Variable
from .constants import Constant
from .lookups import class_lookup, has_entry, made_by_object
from .mappings import Dict
from .numbers import Symbolic
from .objects import Object
from .payloads import PAYLOADS
from .sequences import Tuple

_ALIKE = ("__hash__", "__eq__")


class MemoryKeys:
    """The arguments of one call. ``own`` are those whose hash or equality is the program's to say, or which hold such."""

    def __init__(self, m: Interpreter) -> None:
        self._m = m
        self.own = False
        self._made: dict[Variable, Any] = {}

    @property
    def some_made(self) -> bool:
        """Whether the frame made some of what the program says the hash of."""
        return bool(self._made)

    def real(self, argument: Variable) -> Any:
        """What an argument is; raises ``NotConstant`` where that is not known."""
        m, value = self._m, argument.realize(self._m)
        if isinstance(value, Object):
            return self._real_object(value)
        if isinstance(value, Symbolic):
            return value.specialise(m)
        if isinstance(value, Tuple) and self._owners(value.cls) == [tuple, tuple]:
            return value.of(map(self.real, value.items))
        found = m.builder.to_python(value)
        if type(found) in (float, complex) and found != found:
            raise NotConstant(value)  # a number that is not one is found as the very object alone, which no guard tells
        return found

    def _real_object(self, value: Object) -> Any:
        m = self._m
        if self._owners(value.cls) == [object, object]:
            if value.value is None or value.source is None or value.attrs:
                raise NotConstant(value)  # one that the frame made is no other
            m.guards.note_identity(value, value.value)
            return value.value
        self.own = True
        if value.source is None:
            return self._alike(value)
        if value.value is None or value.attrs or (value.payload is not None and m.effects.has_changed(value.payload)):
            raise NotConstant(value)
        return value.value

    def _owners(self, cls: type) -> list[type]:
        """The classes that say how objects of a class hash and compare."""
        return [class_lookup(self._m, cls, name)[1] for name in _ALIKE]

    def _alike(self, value: Object) -> Any:
        """An object of the same class and content as one that the frame made."""
        found = self._made.get(value)
        if found is not None:
            return found
        cls, payload = value.cls, value.payload
        if self._m.classes.is_made(cls) or has_entry(cls, "__del__"):
            raise NotConstant(value)
        if payload is None and made_by_object(cls):
            made: Any = object.__new__(cls)
        elif isinstance(payload, Tuple):
            made = tuple.__new__(cls, map(self.real, payload.items))
        elif isinstance(payload, Constant) and payload.python_type() in PAYLOADS:
            made = payload.python_type().__new__(cls, payload.value)
        elif isinstance(payload, Dict) and payload.cls is dict:
            made = dict.__new__(cls)
            for key, entry in payload.whole(self._m).values():
                dict.__setitem__(made, self.real(key), self.real(entry))
        else:
            raise NotConstant(value)
        self._made[value] = made
        for name, content in value.attrs.items():
            if content is not None:
                value.setter(self._m, name)(made, name, self.real(content))
        return made

    def check_pure(self, values: list[Variable], name: str) -> None:
        """Evaluate how the program hashes and compares these: raises ``Unsupported`` where that does more than tell."""
        with only_telling(self._m, name):
            for value in values:
                value.realize(self._m).hash_key(self._m)
                self._compare(value.realize(self._m))

    def _compare(self, value: Variable) -> None:
        if isinstance(value, Tuple):
            for each in value.items:
                self._compare(each.realize(self._m))
        elif isinstance(value, Object) and class_lookup(self._m, value.cls, "__eq__")[1] is not object:
            value.call_special(self._m, "__eq__", [value])

    def check_found(self, values: list[Variable], stored: list[Any], name: str) -> None:
        """The arguments equal those that are remembered: guards what that follows from."""
        m = self._m
        with only_telling(m, name):
            for value, real in zip(values, stored, strict=True):
                known = m.builder.known(real)
                known.realize(m).hash_key(m)
                if not m.operators.equal(value, known):
                    raise Unsupported(f"call of {name}, whose keys are not understood")


@contextmanager
def only_telling(m: Interpreter, name: str) -> Iterator[None]:
    """What is evaluated within is to change nothing but objects of the frame's own."""
    effects = m.effects
    before, told = effects.other_changes, len(effects.announced) + len(effects.remembered)
    with effects.apart():
        yield
        changed = any(each.source is not None for each in effects.changed.values())
    told_more = len(effects.announced) + len(effects.remembered) != told
    if changed or told_more or effects.other_changes != before:
        raise Unsupported(f"call of {name}, which remembers, whose keys do more than tell")
