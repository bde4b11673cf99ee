"""Instances of classes written in Python: attribute look-up as the data model has it.

``Object`` is the instance half of ``object.__getattribute__``, ``descriptors.descriptor_get`` the type half.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NoReturn

from capture import _native
from capture._native import address
from capture.bytecode import build
from capture.errors import NotConstant, Unsupported
from capture.labels import HEAP_TYPE
from capture.sources import Const, Source

from .base import Args, Interpreter, Kwargs, SymbolicRaise, Variable
from .constants import Constant
from .descriptors import alike, bound_slot, descriptor_get, empty_slot, reads
from .functions import Method
from .handlers import handler_of, handles
from .instances import Instance, InstanceDict
from .iterators import ItemIterator
from .lookups import (
    C_METHODS,
    MISSING,
    Missing,
    acts_as,
    attribute_name,
    check_own_class,
    class_lookup,
    gives_own_class,
    is_data_descriptor,
    is_of_program,
    made_by_object,
    may_override,
    overrides_functions,
    refusal_of_deletion,
    shown_type,
)
from .mappings import Dict
from .operations import COMPARE
from .own_keys import own_key
from .payloads import fill_payload, has_content, payload_of, reconstruct_with_payload
from .placeholders import real_of
from .reconstruction import CannotReconstruct, Emitter


@functools.cache
def _generic(owner: type) -> tuple[bool, bool]:
    return (True, True) if owner is object else _native.generic_attributes(owner)


#: What a class may have under a name that the instance then is asked first: a slot is the instance's own.
_PLAINLY_READ = frozenset({types.FunctionType, types.MemberDescriptorType})
#: Names that ``generic_attribute`` knows for itself.
_OF_EACH = frozenset({"__class__", "__dict__"})


def _discard_attribute(target: object, name: str) -> None:
    """What the frame itself had put there need not have been there before, this time or another."""
    with contextlib.suppress(AttributeError):
        object.__delattr__(target, name)


def truth_by_methods(m: Interpreter, value: Any) -> bool | None:
    """What ``__bool__``, else ``__len__``, says of a real object, where its ``special`` finds that written in Python; None otherwise."""
    for name, kind in (("__bool__", bool), ("__len__", int)):
        found = value.special(m, name)
        if found is not None:
            return m.operators.truth(m.operators.answer(m.calls.call(found, [], {}), kind, name))
        if class_lookup(m, type(value.value), name)[0] is not MISSING:
            break
    return None


def _put_in_dictionary(target: Any, name: str, value: Any) -> None:
    object.__getattribute__(target, "__dict__")[name] = value


class Object(Instance):
    """An instance, whose behaviour its class says."""

    takes_attributes = True
    #: Whether ``generic_attribute`` is that of this class.
    reads_plainly = True
    #: What puts an attribute or a slot's content where they belong.
    plain_setter: Callable[[Any, str, Any], None] = staticmethod(object.__setattr__)

    def as_python(self, m: Interpreter) -> Any:
        # A text from outside with nothing of its own, of a class that the program did not write: torch.__version__.
        if (
            isinstance(self.payload, Constant)
            and self.value is not None
            and not self.attrs
            and not self.instance_dict()
        ):
            cls = type(self.payload.value)
            above = self.cls.__mro__[: self.cls.__mro__.index(cls)]
            if not any(is_of_program(each) for base in above for each in vars(base).values()):
                return self.value
        raise NotConstant(self)

    # Attributes

    def attribute(self, m: Interpreter, name: str) -> Variable:
        raw = m.classes.plain.get((address(self.cls), name))
        if raw is not None:
            found = self.instance_attribute(m, name)
            if found is not None:
                return found
            if type(raw) is types.MemberDescriptorType:  # of a slot that holds nothing
                return self.attribute_or_fallback(m, name)
            m.guards.not_shadowed(self, name)
            if raw is MISSING:
                return self.missing_attribute(m, name)
            return m.effects.created(Method(m.builder.class_attribute(raw), self))
        override, owner = class_lookup(m, self.cls, "__getattribute__")
        if not isinstance(override, types.WrapperDescriptorType):  # of one written in C
            reading = descriptor_get(m, override, owner, self, self.cls, "__getattribute__")
            try:
                return m.calls.call(reading, [Constant(name)], {})
            except SymbolicRaise as raised:
                if not self.asks_further(m, raised):
                    raise
            return self.missing_attribute(m, name)
        if not _generic(owner)[0]:
            raise Unsupported(f"attribute of a {self.cls.__name__}, which is read by code in C")
        if self.reads_plainly and name not in _OF_EACH:
            raw = class_lookup(m, self.cls, name)[0]
            if raw is MISSING or type(raw) in _PLAINLY_READ:
                m.classes.plain[(address(self.cls), name)] = raw
        return self.attribute_or_fallback(m, name)

    def attribute_or_fallback(self, m: Interpreter, name: str) -> Variable:
        """``object.__getattribute__``, then the class's ``__getattr__``."""
        found = self.generic_attribute(m, name)
        if isinstance(found, Variable):
            return found
        return self.missing_attribute(m, name)

    def missing_attribute(self, m: Interpreter, name: str) -> Variable:
        """What the class's ``__getattr__`` gives, or ``AttributeError``."""
        fallback, owner = class_lookup(m, self.cls, "__getattr__")
        if fallback is MISSING:
            self.no_attribute(m, name)
        return m.calls.call(descriptor_get(m, fallback, owner, self, self.cls, "__getattr__"), [Constant(name)], {})

    def no_attribute(self, m: Interpreter, name: str) -> NoReturn:
        """Raises ``AttributeError`` in the program; guards that there is none."""
        if self.source is not None:
            m.guards.no_attribute(self, name)
        m.errors.throw(AttributeError, f"{shown_type(self.cls)!r} object has no attribute {name!r}")

    def generic_attribute(self, m: Interpreter, name: str) -> Variable | Missing:
        """``object.__getattribute__`` without its error."""
        if name == "__class__":
            check_own_class(m, self.cls)
            return m.builder.known(self.cls)
        raw, owner = class_lookup(m, self.cls, name)
        if name == "__dict__" and isinstance(raw, (types.GetSetDescriptorType, Missing)):
            return InstanceDict(self) if self.has_dict() or self.instance_dict() else MISSING
        if raw is not MISSING and is_data_descriptor(m, raw) and reads(m, raw):
            return self.class_attribute(m, raw, owner, name)
        found = self.instance_attribute(m, name)
        if found is not None:
            return found
        m.guards.not_shadowed(self, name)
        return MISSING if raw is MISSING else self.class_attribute(m, raw, owner, name)

    def class_attribute(self, m: Interpreter, raw: Any, owner: type, name: str) -> Variable | Missing:
        """What a class's attribute gives; missing if it raises AttributeError and the class has a ``__getattr__``."""
        try:
            return descriptor_get(m, raw, owner, self, self.cls, name)
        except SymbolicRaise as raised:
            if self.asks_further(m, raised):
                return MISSING
            raise

    def asks_further(self, m: Interpreter, raised: SymbolicRaise) -> bool:
        """Whether what reading an attribute raised is for the class's ``__getattr__``."""
        missing = issubclass(raised.exception.python_type(), AttributeError)
        return missing and class_lookup(m, self.cls, "__getattr__")[0] is not MISSING

    def set_attribute(self, m: Interpreter, name: str, value: Variable) -> None:
        setter, owner = class_lookup(m, self.cls, "__setattr__")
        if isinstance(setter, types.FunctionType):
            m.calls.call(m.builder.class_attribute(setter), [self, Constant(name), value], {})
            return
        self.check_generic_set(owner)
        self.generic_set(m, name, value)

    def check_generic_set(self, owner: type) -> None:
        """Raises ``Unsupported`` where ``owner`` sets attributes by code in C of its own."""
        if not _generic(owner)[1]:
            raise Unsupported(f"attribute of a {self.cls.__name__}, which is set by code in C")

    def generic_set(self, m: Interpreter, name: str, value: Variable) -> None:
        """``object.__setattr__``."""
        if name == "__dict__":
            raise Unsupported("replacing __dict__")
        if name == "__class__":
            raise Unsupported("changing an object's class")
        raw, owner = class_lookup(m, self.cls, name)
        if acts_as(m, raw, property, "__set__"):
            if raw.fset is None:
                m.builder.fold(functools.partial(property.__set__, raw), [alike(self.cls), None])
            m.calls.call(m.builder.class_attribute(raw.fset), [self, value], {})
            return
        setter, _ = class_lookup(m, type(raw), "__set__")
        if isinstance(setter, types.FunctionType):
            m.calls.call(m.builder.wrap(setter, None), [m.builder.class_value(owner, name, raw), self, value], {})
            return
        if setter is MISSING and isinstance(class_lookup(m, type(raw), "__delete__")[0], types.FunctionType):
            m.errors.throw(AttributeError, "__set__")
        is_slot = isinstance(raw, types.MemberDescriptorType) and "__slots__" in vars(owner)  # others may be read-only
        if raw is not MISSING and is_data_descriptor(m, raw) and not is_slot:
            raise Unsupported(f"setting {name!r} through a {type(raw).__name__}")
        if not is_slot and not self.has_dict():
            entries = {"__slots__": ()} | ({} if raw is MISSING else {name: None})
            bare = type(shown_type(self.cls), (), entries)()
            m.builder.fold(object.__setattr__, [bare, name, None])  # raises, in this version's words
        self.put(name, value)
        m.effects.mutated(self)

    def delete_attribute(self, m: Interpreter, name: str) -> None:
        deleter, owner = class_lookup(m, self.cls, "__delattr__")
        if isinstance(deleter, types.FunctionType):
            m.calls.call(m.builder.class_attribute(deleter), [self, Constant(name)], {})
            return
        self.check_generic_set(owner)
        self.generic_delete(m, name)

    def generic_delete(self, m: Interpreter, name: str) -> None:
        """``object.__delattr__``."""
        raw, owner = class_lookup(m, self.cls, name)
        if acts_as(m, raw, property, "__delete__"):
            if raw.fdel is None:
                m.builder.fold(functools.partial(property.__delete__, raw), [alike(self.cls)])
            m.calls.call(m.builder.class_attribute(raw.fdel), [self], {})
            return
        deleter, _ = class_lookup(m, type(raw), "__delete__")
        if isinstance(deleter, types.FunctionType):
            m.calls.call(m.builder.wrap(deleter, None), [m.builder.class_value(owner, name, raw), self], {})
            return
        if deleter is MISSING and isinstance(class_lookup(m, type(raw), "__set__")[0], types.FunctionType):
            m.errors.throw(AttributeError, "__delete__")
        is_slot = isinstance(raw, types.MemberDescriptorType) and "__slots__" in vars(owner)  # others may be read-only
        if raw is not MISSING and is_data_descriptor(m, raw) and not is_slot:
            raise Unsupported(f"deleting {name!r} through a {type(raw).__name__}")
        if self.instance_attribute(m, name) is None:
            if isinstance(raw, types.MemberDescriptorType):
                empty_slot(m, self, raw, name)
            self.no_attribute(m, name)
        self.attrs[name] = None
        m.effects.mutated(self)

    # Everything else goes through methods of the class

    def special(self, m: Interpreter, name: str) -> Variable | None:
        """A method that an operator looks for on the class, bound; None if there is none."""
        raw, owner = class_lookup(m, self.cls, name)
        if raw is None:  # it is there, and says that there is none: each operator has its own words for that
            raise Unsupported(f"{name} of {self.cls.__name__}, which is None")
        if raw is MISSING:
            return None
        if isinstance(raw, C_METHODS):
            return None if owner is object else bound_slot(m, raw, self, self.cls, name)
        return descriptor_get(m, raw, owner, self, self.cls, name)

    def call_special(self, m: Interpreter, name: str, args: Args) -> Variable | None:
        """Call the method that an operator looks for; None if there is none."""
        found = self.special(m, name)
        return None if found is None else m.calls.call(found, args, {})

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        raw, owner = class_lookup(m, self.cls, name)
        if isinstance(raw, C_METHODS):
            return self.builtin(m, owner, name, args, kwargs)
        return m.calls.call(self.attribute(m, name), args, kwargs)

    def builtin(self, m: Interpreter, owner: type, name: str, args: Args, kwargs: Kwargs) -> Variable:
        """A method written in C, of ``object`` or of the built-in base class."""
        if owner is object or name in OBJECT_METHODS:
            own = OBJECT_METHODS.get(name)
            # A class in C that says so itself compares what it holds, and fills it.
            holds = name in _COMPARISONS or (name == "__init__" and not made_by_object(owner))
            if own is not None and (owner is object or (self.payload is None and not holds)):
                if name in _OPERANDS and (kwargs or len(args) != _OPERANDS[name]):
                    raise Unsupported(f"{name} with {len(args)} arguments")
                return own(m, self, [a.realize(m) for a in (*args, *kwargs.values())])
        if name == "__getitem__" and isinstance(self.payload, Dict) and self.payload.find(m, args[0]) is None:
            missing = self.special(m, "__missing__")
            if missing is not None:
                return m.calls.call(missing, args, {})
        if isinstance(self.payload, Dict) and owner is not self.payload.cls and name in vars(self.payload.cls):
            raise Unsupported(f"{owner.__name__}.{name} of an {self.payload.cls.__name__}, whose order is its own")
        if self.payload is not None and not gives_own_class(self.payload.python_type(), name):
            return self.payload.method(m, name, args, kwargs)
        handler = handler_of(vars(owner).get(name))
        if handler is not None:
            return handler(m, [self, *args], kwargs)
        raise Unsupported(f"method {name!r} of {self.cls.__name__}, which is written in C")

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        return m.calls.call(*self.calls_through(m, args, kwargs))

    def calls_through(self, m: Interpreter, args: Args, kwargs: Kwargs) -> tuple[Variable, Args, Kwargs]:
        found = self.special(m, "__call__")
        if found is None:
            m.errors.throw(TypeError, f"{shown_type(self.cls)!r} object is not callable")
        return found, args, kwargs

    def truth(self, m: Interpreter) -> bool:
        answer = self.call_special(m, "__bool__", [])
        if answer is not None:
            return m.operators.truth(m.operators.answer(answer, bool, "__bool__"))
        size = self.call_special(m, "__len__", [])
        return True if size is None else m.operators.truth(m.operators.answer(size, int, "__len__"))

    def hash_key(self, m: Interpreter) -> Hashable:
        raw, owner = class_lookup(m, self.cls, "__hash__")
        if owner is object:
            return m.identity.key(self)
        if self.payload is not None and isinstance(raw, C_METHODS):
            return self.payload.hash_key(m)
        if raw is None:
            m.errors.throw(TypeError, f"unhashable type: {shown_type(self.cls)!r}")
        method = self.special(m, "__hash__")
        if isinstance(raw, types.FunctionType) and method is not None:
            return own_key(m, self, method)
        raise Unsupported(f"hash of {self.cls.__name__}, which defines __hash__")

    def overrides(self, m: Interpreter) -> bool:
        return overrides_functions(m, self.cls)

    def length(self, m: Interpreter) -> Variable:
        size = self.call_special(m, "__len__", [])
        if size is None:
            m.errors.throw(TypeError, f"object of type {shown_type(self.cls)!r} has no len()")
        return m.operators.answer(size, int, "__len__")

    def iterate(self, m: Interpreter) -> Variable:
        method = self.special(m, "__iter__")
        if method is not None:
            return m.iteration.iterate_with(method)
        raw = class_lookup(m, self.cls, "__iter__")[0]
        if raw is None or class_lookup(m, self.cls, "__getitem__")[0] is MISSING:
            m.errors.throw(TypeError, f"{shown_type(self.cls)!r} object is not iterable")
        return m.effects.created(ItemIterator(self))

    def next(self, m: Interpreter) -> Variable:
        return m.iteration.next_of_object(self)

    def item(self, m: Interpreter, key: Variable) -> Variable:
        found = self.call_special(m, "__getitem__", [key])
        if found is None:
            m.errors.throw(TypeError, f"{shown_type(self.cls)!r} object is not subscriptable")
        return found

    def set_item(self, m: Interpreter, key: Variable, value: Variable) -> None:
        if self.call_special(m, "__setitem__", [key, value]) is None:
            self._check_either(m, "__setitem__", "__delitem__")
            m.errors.throw(TypeError, f"{shown_type(self.cls)!r} object does not support item assignment")

    def delete_item(self, m: Interpreter, key: Variable) -> None:
        if self.call_special(m, "__delitem__", [key]) is None:
            if not self.cls.__flags__ & HEAP_TYPE:
                raise Unsupported(f"deleting an item of a {self.cls.__name__}")
            self._check_either(m, "__delitem__", "__setitem__")
            m.errors.throw(TypeError, f"{shown_type(self.cls)!r} object {refusal_of_deletion(key.python_type())}")

    def _check_either(self, m: Interpreter, missing: str, other: str) -> None:
        """A class that has one of the two methods has the slot of both, which then looks for the one that is missing."""
        if class_lookup(m, self.cls, other)[0] is not MISSING:
            m.errors.throw(AttributeError, missing)

    def contains(self, m: Interpreter, value: Variable) -> bool:
        answer = self.call_special(m, "__contains__", [value])
        return super().contains(m, value) if answer is None else m.operators.truth(answer)

    # Reconstruction

    def made_of(self) -> Iterable[Variable]:
        parts = [x for x in self.attrs.values() if x is not None]
        return parts if self.payload is None else [*parts, *self.payload.made_of()]

    def reconstruct(self, e: Emitter) -> None:
        self.reconstruct_empty(e)
        if self.attrs or has_content(self.payload):
            self.fill(e)

    def reconstruct_empty(self, e: Emitter) -> None:
        if self.payload is None and made_by_object(self.cls):
            e.emit(build.push_callable(build.load_const(object.__new__)), build.load_const(self.cls), build.call(1))
        elif self.cls is types.SimpleNamespace:
            e.call(self.cls, [])
        elif self.payload is None:
            raise CannotReconstruct(self, f"an instance of {self.cls.__name__}, which keeps state in C")
        else:
            reconstruct_with_payload(e, self.cls, self.payload)

    def fill(self, e: Emitter) -> None:
        """Set the attributes and contents of the instance on top of the stack."""
        name = e.temps.get(id(self))
        if name is None:
            name = e.temp()
            e.emit(build.copy(1), build.store_fast(name))
        if self.payload is not None:
            fill_payload(e, self.payload, name)
        for attribute, content in self.attrs.items():
            if content is not None:
                setter = self.setter(e.m, attribute)
                e.emit(build.push_callable(build.load_const(setter)), build.load_fast(name))
                e.emit(build.load_const(attribute))
                e.load(content)
                e.emit(build.call(3), build.pop())

    # Side effects

    def let_go(self) -> Iterable[Any]:
        held = self.instance_dict() if self.source is not None else {}
        now = {name: self.attrs[name] for name in self.attrs if name in held}
        return [held[name] for name, new in now.items() if new is None or real_of(new) is not held[name]]

    def written(self) -> Iterable[Variable]:
        return [v for v in self.attrs.values() if v is not None]

    def replay(self, e: Emitter) -> None:
        for name, value in self.attrs.items():
            if value is None or name in self.regained:
                e.call_discarding(_discard_attribute, [self, Constant(name)])
            if value is not None:
                e.call_discarding(self.setter(e.m, name), [self, Constant(name), value])

    def setter(self, m: Interpreter, name: str) -> Callable[[Any, str, Any], None]:
        """What puts an attribute where the object keeps it, which a data descriptor of its class has no say in."""
        raw, _ = class_lookup(m, self.cls, name)
        hidden = raw is not MISSING and is_data_descriptor(m, raw) and not isinstance(raw, types.MemberDescriptorType)
        return _put_in_dictionary if hidden else self.plain_setter

    def __repr__(self) -> str:
        return f"<{self.cls.__name__} object>"


def _object_init(m: Interpreter, self: Object, args: Args) -> Variable:
    if args:
        words = "__init__() takes exactly one argument (the instance to initialize)"
        if class_lookup(m, self.cls, "__init__")[1] is not object:
            m.errors.throw(TypeError, f"object.{words}")
        if class_lookup(m, self.cls, "__new__")[1] is object:
            m.errors.throw(TypeError, f"{self.cls.__name__}.{words}")
    return Constant(None)


def _object_setattr(m: Interpreter, self: Object, args: Args) -> Variable:
    self.generic_set(m, attribute_name(m, args[0]), args[1])
    return Constant(None)


def _object_delattr(m: Interpreter, self: Object, args: Args) -> Variable:
    self.generic_delete(m, attribute_name(m, args[0]))
    return Constant(None)


def _object_getattribute(m: Interpreter, self: Object, args: Args) -> Variable:
    name = attribute_name(m, args[0])
    found = self.generic_attribute(m, name)
    if isinstance(found, Variable):
        return found
    self.no_attribute(m, name)


def _object_eq(m: Interpreter, self: Object, args: Args) -> Variable:
    return Constant(True) if m.operators.is_(self, args[0]) else Constant(NotImplemented)


def _object_ne(m: Interpreter, self: Object, args: Args) -> Variable:
    told = self.call_special(m, "__eq__", args)
    told = _object_eq(m, self, args) if told is None else told.realize(m)
    refused = isinstance(told, Constant) and told.value is NotImplemented
    return told if refused else Constant(not m.operators.truth(told))


def _object_order(m: Interpreter, self: Object, args: Args) -> Variable:
    return Constant(NotImplemented)


def _object_init_subclass(m: Interpreter, self: Object, args: Args) -> Variable:
    return Constant(None)


_COMPARISONS = [name for _, name, _ in COMPARE.values()]
#: The methods of ``object`` itself.
OBJECT_METHODS: dict[str, Any] = {
    "__init__": _object_init,
    "__setattr__": _object_setattr,
    "__delattr__": _object_delattr,
    "__getattribute__": _object_getattribute,
    **dict.fromkeys(_COMPARISONS, _object_order),
    "__eq__": _object_eq,
    "__ne__": _object_ne,
    "__init_subclass__": _object_init_subclass,
}


#: How many arguments those of them take that take no others.
_OPERANDS = {"__setattr__": 2, "__delattr__": 1, "__getattribute__": 1, **dict.fromkeys(_COMPARISONS, 1)}


def build_object(m: Interpreter, value: Any, source: Source | None) -> Variable:
    """Any other object: of a class written in Python, or opaque."""
    cls = type(value)
    if source is None:
        source = Const(value)
    payload = payload_of(m, value, source)
    m.guards.of_type(source, cls)
    made = Object(cls, value, payload)
    made.source = source
    if may_override(cls):
        m.modes.meet()
    return made


@handles(object)
def _object(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if args or kwargs:
        m.builder.fold(object, [None] * len(args), dict.fromkeys(kwargs))
    return m.effects.created(Object(object))


def _compare_namespaces(symbol: str) -> Callable[[Interpreter, Args, Kwargs], Variable]:
    def compare(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        left, right = (a.realize(m) for a in args)
        if isinstance(left, Object) and isinstance(right, Object) and issubclass(right.cls, types.SimpleNamespace):
            return m.operators.compare(symbol, InstanceDict(left), InstanceDict(right))
        return Constant(NotImplemented)

    return compare


handles(types.SimpleNamespace.__eq__)(_compare_namespaces("=="))
handles(types.SimpleNamespace.__ne__)(_compare_namespaces("!="))


@handles(types.SimpleNamespace)
def _namespace(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if args:
        raise Unsupported("SimpleNamespace of a mapping")
    made = m.effects.created(Object(types.SimpleNamespace))
    for name, value in kwargs.items():
        made.attrs[name] = value
    return made
