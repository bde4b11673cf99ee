"""What an attribute of a class gives when it is read: the type half of ``object.__getattribute__`` (``objects`` has the instance half)."""

from __future__ import annotations

import functools
import types
from typing import Any, NoReturn

from capture import _native
from capture.bytecode import build
from capture.errors import Unsupported
from capture.guards import GuardKind
from capture.sources import Attr, Const

from .base import Args, Interpreter, Kwargs, Variable
from .constants import CONSTANT_TYPES, BoundBuiltin, Constant
from .functions import Method
from .handlers import handler_of
from .instances import Instance
from .lookups import C_METHODS, MISSING, PUT, acts_as, class_lookup, shown_holder
from .new_mappings import from_keys, inherits_from_keys
from .reconstruction import Emitter


def reads(m: Interpreter, raw: Any) -> bool:
    """Whether a descriptor says what reading it gives: one that only takes what is set leaves that to the instance."""
    return class_lookup(m, type(raw), "__get__")[0] is not MISSING


#: What binds to an object as a function does.
_PLAIN_FUNCTIONS = (types.FunctionType, _native.CompiledCallable, _native.DisabledCallable)
#: What functions of classes are put into.
_DECORATORS = (staticmethod, classmethod, property, functools.cached_property)


def _cached(m: Interpreter, raw: functools.cached_property[Any], obj: Variable, name: str) -> Variable:
    """What a ``cached_property`` gives, which it keeps in the instance's dictionary, by the name that it was given first."""
    key = vars(raw)["attrname"]
    place = m.builder.place_of(raw)
    if place is None:
        m.guards.add(Attr(Const(raw, name), "func", via_dict=True), GuardKind.ID, vars(raw)["func"])
    m.guards.add(Attr(place or Const(raw, name), "attrname", via_dict=True), GuardKind.ID, key)
    if key is None:
        raise Unsupported(f"a cached_property found as {name!r}, which has no name")
    if isinstance(obj, Instance) and class_lookup(m, obj.cls, "__dict__")[0] is MISSING:
        raise Unsupported(f"cached_property {name!r} of an instance without a dictionary")
    kept = obj.attribute(m, "__dict__").realize(m) if isinstance(obj, Instance) else None
    if kept is None and key != name:
        raise Unsupported(f"a cached_property found as {name!r}, whose name is {key!r}")
    if kept is not None and kept.contains(m, Constant(key)):
        return kept.item(m, Constant(key))
    value = m.calls.call(m.builder.class_attribute(vars(raw)["func"]), [obj], {})
    if kept is None:
        obj.set_attribute(m, name, value)
    else:
        kept.set_item(m, Constant(key), value)
    return value


def _decorated(m: Interpreter, raw: Any, obj: Variable | None, cls: type, name: str) -> Variable | None:
    """What an object around a function gives that does as one of `_DECORATORS`; None if it does otherwise."""
    if acts_as(m, raw, staticmethod):
        return m.builder.class_attribute(raw.__func__)
    if acts_as(m, raw, classmethod):
        if not isinstance(raw.__func__, _PLAIN_FUNCTIONS):
            raise Unsupported(f"class method {name!r} around a {type(raw.__func__).__name__}")
        bound_to = m.builder.known(cls)
        return m.effects.created(Method(m.builder.class_attribute(raw.__func__), bound_to))
    if acts_as(m, raw, property):
        if obj is None:
            return m.builder.known(raw)
        if raw.fget is None:
            m.builder.fold(functools.partial(property.__get__, raw), [alike(cls)])
        return m.calls.call(m.builder.class_attribute(raw.fget), [obj], {})
    if obj is not None and acts_as(m, raw, functools.cached_property):
        return _cached(m, raw, obj, name)
    return None


def descriptor_get(m: Interpreter, raw: Any, owner: type, obj: Variable | None, cls: type, name: str) -> Variable:
    """What ``raw``, found in ``owner``, gives when read through ``obj`` (or through the class, if None)."""
    if type(raw) in CONSTANT_TYPES or raw is PUT:
        return m.builder.class_value(owner, name, raw)
    if isinstance(raw, _PLAIN_FUNCTIONS):
        function = m.builder.class_attribute(raw)
        return function if obj is None else m.effects.created(Method(function, obj))
    if issubclass(type(raw), _DECORATORS):
        found = _decorated(m, raw, obj, cls, name)
        if found is not None:
            return found
    if isinstance(raw, types.MemberDescriptorType) and isinstance(obj, Instance):
        found = obj.instance_attribute(m, name)
        return found or empty_slot(m, obj, raw, f"{shown_holder(cls)!r} object has no attribute {name!r}")
    if isinstance(raw, C_METHODS):
        return m.builder.known(raw) if obj is None else bound_slot(m, raw, obj, cls, name)
    if isinstance(raw, functools._lru_cache_wrapper):
        return m.builder.known(raw) if obj is None else m.effects.created(Method(m.builder.known(raw), obj))
    if isinstance(raw, types.ClassMethodDescriptorType):
        if m.classes.is_made(cls):
            return m.effects.created(MadeClassMethod(m, cls, raw))
        return m.builder.known(raw.__get__(None, cls))
    get, _ = class_lookup(m, type(raw), "__get__")
    if isinstance(get, types.FunctionType):
        held = m.builder.class_value(owner, name, raw)
        return m.calls.call(m.builder.wrap(get, None), [held, obj or Constant(None), m.builder.known(cls)], {})
    binds_in_c = isinstance(get, types.WrapperDescriptorType) and callable(raw)
    if binds_in_c and obj is not None and not m.classes.may_change(owner):
        return m.effects.created(ForeignMethod(obj, name))
    # Read through its class, what an attribute in C is read by gives itself, but where the class of classes has that name: it is asked first.
    gives_itself = obj is None and type(raw) is types.GetSetDescriptorType and name not in vars(type)
    if get is not MISSING and not gives_itself:
        raise Unsupported(f"descriptor {type(raw).__name__} for attribute {name!r} of {cls.__name__}")
    return m.builder.class_value(owner, name, raw)


class ForeignMethod(BoundBuiltin):
    """A method of a kind that a compiler to C has made (Cython's, pybind11's), of a class that cannot change: called for real, but where it is known."""

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        handler = handler_of(class_lookup(m, self.owner.python_type(), self.name)[0])
        if handler is not None:
            return handler(m, [self.owner, *args], kwargs)
        raise Unsupported(f"method {self.name!r} of {self.owner.python_type().__name__}, which is written in C")


class MadeClassMethod(ForeignMethod):
    """A class method written in C, of a class that the frame makes: called for real, of the real one."""

    def __init__(self, m: Interpreter, cls: type, raw: Any) -> None:
        self.raw, self.bound = raw, raw.__get__(None, cls)
        super().__init__(m.builder.known(cls), self.bound.__name__)

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        if inherits_from_keys(self.bound):
            return from_keys(m, self.bound.__self__, args, kwargs)
        return super().call(m, args, kwargs)

    def reconstruct(self, e: Emitter) -> None:
        """By itself: the class may have another of its name, if this was reached through ``super()``."""
        e.emit(build.push_callable(build.load_const(self.raw.__get__)), build.load_const(None))
        e.load(self.owner)
        e.emit(build.call(2))


def bound_slot(m: Interpreter, raw: Any, obj: Variable, cls: type, name: str) -> Variable:
    """A method written in C, of an object, which must be of the class that it is for; a function is itself."""
    if isinstance(raw, types.BuiltinFunctionType):
        return m.builder.known(raw)
    if raw.__name__ != name:
        raise Unsupported(f"{raw.__name__} under the name {name!r}")
    if not issubclass(cls, getattr(raw, "__objclass__", cls)):
        m.builder.fold(raw.__get__, [alike(cls)])
    return m.effects.created(BoundBuiltin(obj, name))


def alike(cls: type) -> Any:
    """An object whose class has the same name, for what messages say of it."""
    return type(cls.__name__, (), {"__qualname__": cls.__qualname__})()


def empty_slot(m: Interpreter, obj: Instance, slot: types.MemberDescriptorType, words: str) -> NoReturn:
    """What reading or emptying a slot gives in which nothing is: raises ``AttributeError`` in the program."""
    name = slot.__name__
    if obj.source is not None and name not in obj.attrs:
        if class_lookup(m, obj.cls, "__getattr__")[0] is MISSING:
            m.guards.add(obj.source, GuardKind.NO_ATTR, name)
        else:  # it would be asked, too
            m.guards.predicate(obj, functools.partial(_is_empty, slot), f"nothing is in {{}}'s slot {name!r}")
    m.errors.throw(AttributeError, words)


def _is_empty(slot: types.MemberDescriptorType, value: Any) -> bool:
    try:
        slot.__get__(value)
    except AttributeError:
        return True
    return False
