"""Instances of ``threading.local`` from outside: their attributes are in a dictionary of the thread that asks.

In: such an object. Out: its attributes, read and written in that dictionary, which guards and generated code ask for anew in their thread.
"""

from __future__ import annotations

import threading
from typing import Any

from capture.errors import Unsupported
from capture.sources import Applied, Const, Source

from .base import Interpreter, Variable
from .building import builds
from .constants import Constant
from .descriptors import reads
from .lookups import MISSING, Missing, class_lookup, is_data_descriptor
from .mappings import Dict
from .objects import Object


def of_thread(value: Any, _: int) -> Any:
    """The attributes that an object has in this thread, for which its ``__init__`` runs where it has none yet."""
    return value.__dict__


class PerThread(Object):
    """One that was there before the frame."""

    reads_plainly = False
    plain_setter = staticmethod(threading.local.__setattr__)

    def has_dict(self) -> bool:
        return False  # none that belongs to it in all threads

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if class_lookup(m, self.cls, "__getattribute__")[1] is not threading.local:
            return super().attribute(m, name)
        return self.attribute_or_fallback(m, name)

    def generic_attribute(self, m: Interpreter, name: str) -> Variable | Missing:
        if name == "__class__":
            return super().generic_attribute(m, name)
        if name == "__dict__":
            return self._names(m)
        raw, owner = class_lookup(m, self.cls, name)
        if raw is not MISSING and is_data_descriptor(m, raw) and reads(m, raw):
            return self.class_attribute(m, raw, owner, name)
        if self._names(m).contains(m, Constant(name)):
            return self._names(m).item(m, Constant(name))
        return MISSING if raw is MISSING else self.class_attribute(m, raw, owner, name)

    def check_generic_set(self, owner: type) -> None:
        if owner is not threading.local:
            super().check_generic_set(owner)

    def generic_set(self, m: Interpreter, name: str, value: Variable) -> None:
        if self._is_the_classes(m, name):
            super().generic_set(m, name, value)
        else:
            self._names(m).set_item(m, Constant(name), value)

    def generic_delete(self, m: Interpreter, name: str) -> None:
        if self._is_the_classes(m, name):
            super().generic_delete(m, name)
        elif self._names(m).contains(m, Constant(name)):
            self._names(m).delete_item(m, Constant(name))
        else:
            self.no_attribute(m, name)

    def _is_the_classes(self, m: Interpreter, name: str) -> bool:
        """Whether setting or deleting is what a descriptor of the class makes of it, or refused."""
        raw, _ = class_lookup(m, self.cls, name)
        return name in ("__dict__", "__class__") or (raw is not MISSING and is_data_descriptor(m, raw))

    def _names(self, m: Interpreter) -> Dict:
        assert self.source is not None
        found = m.builder.wrap(of_thread(self.value, 0), Applied(self.source, of_thread, 0)).realize(m)
        if not isinstance(found, Dict):
            raise Unsupported(f"attributes of a {self.cls.__name__} in this thread")
        return found


@builds(threading.local, subclasses=True)
def _build_per_thread(m: Interpreter, value: threading.local, source: Source | None) -> Variable:
    m.guards.of_type(source, type(value))
    made = PerThread(type(value), value)
    made.source = Const(value) if source is None else source
    return made
