"""What an object itself holds, in its dictionary and its slots; and that dictionary as the program sees it."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

from capture._native import keys_act
from capture.bytecode import build
from capture.errors import Unsupported
from capture.sources import Attr, Source

from .base import Args, Interpreter, Kwargs, Variable
from .constants import BoundBuiltin, Constant
from .lookups import MISSING, class_lookup, entry_of
from .mappings import Dict
from .reconstruction import Emitter

_SLOT = types.MemberDescriptorType


def _has_slots(cls: type) -> bool:
    """Whether a class says that its instances, or those of one that it is made from, have slots."""
    return any(vars(base).get("__slots__") for base in cls.__mro__)


class Instance(Variable):
    """An instance of ``cls``. ``attrs`` holds what the frame wrote (None: deleted); an input falls back to ``value``.

    ``payload`` is the built-in part of an instance of a subclass of dict, list, str and the like.
    """

    _dict_source: Attr | None = None
    _own_dict: dict[str, Any] | None = None
    #: Whether the real object has no dictionary of its own, once that was looked up (`instance_dict`).
    lacks_dict = False

    def __init__(self, cls: type, value: Any = None, payload: Variable | None = None) -> None:
        self.cls = cls
        self.value = value
        self.payload = payload
        if payload is not None:
            payload.holder = self
        self.attrs: dict[str, Variable | None] = {}
        #: Names that were deleted and set again: they come after those that stayed.
        self.regained: set[str] = set()

    def put(self, name: str, value: Variable) -> None:
        """Set an attribute."""
        if name in self.attrs and self.attrs[name] is None:
            del self.attrs[name]
            self.regained.add(name)
        self.attrs[name] = value

    def dict_source(self, source: Source) -> Attr:
        """Where the dictionary is read of the instance that ``source``, its own, reads: made once, since each attribute asks."""
        found = self._dict_source
        if found is None or found.base is not source:
            found = self._dict_source = Attr(source, "__dict__")
        return found

    def python_type(self) -> type:
        return self.cls

    def instance_dict(self) -> dict[str, Any]:
        """The real object's own dictionary, whatever its class says of ``__dict__``: looked up once, since each attribute asks."""
        found = self._own_dict
        if found is None:
            try:
                found = object.__getattribute__(self.value, "__dict__")
            except AttributeError:
                found = None
            self.lacks_dict = not isinstance(found, dict)
            found = found if isinstance(found, dict) else {}
            if keys_act(found):
                raise Unsupported("an object's dictionary with keys that say what they are equal to")
            if found and _has_slots(self.cls) and any(isinstance(entry_of(self.cls, n), _SLOT) for n in found):
                raise Unsupported("an object's dictionary with an entry under the name of a slot, which hides it")
            self._own_dict = found
        return found

    def instance_attribute(self, m: Interpreter, name: str) -> Variable | None:
        """From the instance itself: its dictionary or a slot."""
        if name in self.attrs:
            found = self.attrs[name]
        elif self.source is None:
            found = None
        else:
            own = self._own_dict
            if own is None:
                own = self.instance_dict()
            found = m.builder.input_entry(self, name, own[name]) if name in own else self._in_slot(m, name)
        later = m.effects.later
        if later.concerned:
            if found is None:
                later.misses(m, self, name, nowhere=class_lookup(m, self.cls, name)[0] is MISSING)
            else:
                later.of_object(m, self, self.cls, name, found)
        return found

    def _in_slot(self, m: Interpreter, name: str) -> Variable | None:
        raw, _ = class_lookup(m, self.cls, name)
        if isinstance(raw, types.MemberDescriptorType):
            try:
                value = raw.__get__(self.value, self.cls)
            except AttributeError:
                return None
            return m.builder.input_attribute(self, name, value)
        return None

    def has_dict(self) -> bool:
        """Whether its class gives it a dictionary."""
        return any("__dict__" in c.__dict__ for c in self.cls.__mro__)


class InstanceDict(Variable):
    """``obj.__dict__``: a view of an object's attributes."""

    def __init__(self, owner: Instance) -> None:
        self.owner = owner

    def python_type(self) -> type:
        return dict

    def name(self, m: Interpreter, key: Variable) -> str:
        """The name that a key stands for."""
        name = m.builder.to_python(key)
        if not isinstance(name, str):
            raise Unsupported("__dict__ key that is not a string")
        if _has_slots(self.owner.cls) and isinstance(class_lookup(m, self.owner.cls, name)[0], _SLOT):
            raise Unsupported("__dict__ key that is the name of a slot, which is no entry")
        return name

    def snapshot(self, m: Interpreter) -> dict[str, Variable]:
        """All attributes, in order; guards the set of names for an input."""
        owner = self.owner
        names: dict[str, Variable] = {}
        if owner.source is not None:
            m.guards.dict_keys(owner)
            for name, value in owner.instance_dict().items():
                if name in owner.regained:
                    continue
                names[name] = m.builder.input_attribute(owner, name, value)
        for name, value in owner.attrs.items():
            raw, _ = class_lookup(m, owner.cls, name)
            if isinstance(raw, types.MemberDescriptorType):
                continue
            if value is None:
                names.pop(name, None)
            else:
                names[name] = value
        return names

    def as_dict(self, m: Interpreter) -> Variable:
        """A dictionary of its own with the attributes of now."""
        return m.effects.created(Dict({k: (Constant(k), v) for k, v in self.snapshot(m).items()}))

    def truth(self, m: Interpreter) -> bool:
        return bool(self.snapshot(m))

    def length(self, m: Interpreter) -> Variable:
        return Constant(len(self.snapshot(m)))

    def iterate(self, m: Interpreter) -> Variable:
        return self.as_dict(m).iterate(m)

    def contains(self, m: Interpreter, value: Variable) -> bool:
        found = self.find(m, self.name(m, value))
        if found is not None:
            found.realize(m)
        return found is not None

    def find(self, m: Interpreter, name: str) -> Variable | None:
        """What is under a name, or None; that there is nothing is guarded."""
        found = self.owner.instance_attribute(m, name)
        if found is None and self.owner.source is not None and name not in self.owner.attrs:
            m.guards.not_shadowed(self.owner, name)
        return found

    def item(self, m: Interpreter, key: Variable) -> Variable:
        found = self.find(m, self.name(m, key))
        if found is None:
            m.errors.throw_value(KeyError, [key])
        return found

    def set_item(self, m: Interpreter, key: Variable, value: Variable) -> None:
        self.owner.put(self.name(m, key), value)
        m.effects.mutated(self.owner)

    def delete_item(self, m: Interpreter, key: Variable) -> None:
        name = self.name(m, key)
        if self.find(m, name) is None:
            m.errors.throw_value(KeyError, [key])
        self.owner.attrs[name] = None
        m.effects.mutated(self.owner)

    def attribute(self, m: Interpreter, name: str) -> Variable:
        return BoundBuiltin(self, name)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        args = [a.realize(m) for a in args]
        if name == "get":
            return self.find(m, self.name(m, args[0])) or (args[1] if len(args) > 1 else Constant(None))
        if name == "update":
            for source in args:
                for key, value in m.iteration.pairs(source):
                    self.set_item(m, key, value)
            for k, v in kwargs.items():
                self.set_item(m, Constant(k), v)
            return Constant(None)
        if name == "pop":
            found = self.find(m, self.name(m, args[0]))
            if found is None:
                if len(args) < 2:
                    m.errors.throw_value(KeyError, [args[0]])
                return args[1]
            self.delete_item(m, args[0])
            return found
        if name == "setdefault":
            found = self.find(m, self.name(m, args[0]))
            if found is None:
                found = args[1] if len(args) > 1 else Constant(None)
                self.set_item(m, args[0], found)
            return found
        if name == "__setitem__":
            self.set_item(m, args[0], args[1])
            return Constant(None)
        if name in ("items", "keys", "values", "copy", "__len__", "__iter__", "__or__"):
            return self.as_dict(m).method(m, name, args, kwargs)
        if name == "__getitem__":
            return self.item(m, args[0])
        if name == "__contains__":
            return Constant(self.contains(m, args[0]))
        raise Unsupported(f"__dict__.{name}")

    def made_of(self) -> Iterable[Variable]:
        return (self.owner,)

    def reconstruct(self, e: Emitter) -> None:
        e.load(self.owner)
        e.emit(build.load_attr("__dict__"))

    def as_operand(self, m: Interpreter) -> Variable:
        return self.as_dict(m)
