"""Attributes that the frame sets in classes from outside: settings that a library keeps there.

In: an attribute set or deleted. Out: what look-ups find from then on (`Put`, with the variable in `Classes.made_entry`), and the
change of the real class, made after the graph ran.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from capture.bytecode import build
from capture.errors import Unsupported

from .base import Interpreter, Variable
from .lookups import MISSING, can_change, class_lookup, has_entry
from .reconstruction import Emitter

_DESCRIBING = ("__get__", "__set__", "__delete__")


class ChangedClass(Variable):
    """What the frame did to one class; ``entries`` are what it put there, None where it took that away again."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.entries: dict[str, Variable | None] = {}

    def made_of(self) -> Iterable[Variable]:
        return ()

    def reconstruct(self, e: Emitter) -> None:
        e.emit(build.load_const(self.cls))

    def written(self) -> Iterable[Variable]:
        return [value for value in self.entries.values() if value is not None]

    def replay(self, e: Emitter) -> None:
        for name, value in self.entries.items():
            if value is not None:  # else it was not there before
                e.load(value)
                e.load(self)
                e.emit(build.store_attr(name))

    def let_go(self) -> Iterable[Any]:
        return [vars(self.cls)[name] for name in self.entries if name in vars(self.cls)]


def _check(m: Interpreter, cls: type, name: str, through: str) -> None:
    """Raise ``Unsupported`` where more than an entry of the class changes, or its metaclass has a say."""
    metaclass = type(cls)
    plain = class_lookup(m, metaclass, through)[1] is type and class_lookup(m, metaclass, name)[0] is MISSING
    special = name.startswith("__") and name.endswith("__")
    if not plain or special or not can_change(cls) or has_entry(type(vars(cls).get(name)), "__set__"):
        raise Unsupported(
            f"{'setting' if through == '__setattr__' else 'deleting'} attribute {name!r} of class {cls.__name__}"
        )


def set_in_class(m: Interpreter, cls: type, name: str, value: Variable) -> None:
    """``cls.name = value``, of a plain value: it is found there as it is, by the class and by its instances."""
    _check(m, cls, name, "__setattr__")
    value = value.realize(m)
    kind = value.python_type()
    if any(has_entry(kind, each) for each in _DESCRIBING):
        raise Unsupported(f"setting attribute {name!r} of class {cls.__name__} to a {kind.__name__}")
    m.classes.note_fixed(cls)
    m.effects.mutated(m.classes.put(cls, name, value))


def delete_in_class(m: Interpreter, cls: type, name: str) -> None:
    """``del cls.name``, of what the frame put there and was not there before."""
    _check(m, cls, name, "__delattr__")
    if m.classes.made_entry(cls, name) is None or name in vars(cls):
        raise Unsupported(f"deleting attribute {name!r} of class {cls.__name__}")
    m.classes.note_missing(cls, name)
    m.effects.mutated(m.classes.put(cls, name, None))
