"""Classes and Python modules as values: attribute reads, and construction of instances in the frame."""

from __future__ import annotations

import enum
import types
import weakref
from collections.abc import Hashable
from typing import Any

import torch

from capture.errors import EvaluateAgain, NotConstant, SkipFrame, Unsupported
from capture.guards import GuardKind
from capture.sources import Attr, Const, Item, Source
from capture.trace_rules import is_uninstalled, module_of

from .base import Args, Interpreter, Kwargs, SymbolicRaise, Variable
from .building import builds, known_part
from .changed_classes import delete_in_class, set_in_class
from .constants import BoundBuiltin, Constant, Known
from .descriptors import descriptor_get, reads
from .exception_groups import new_group
from .exceptions import ExceptionObject
from .functions import Method
from .handlers import checked_arguments, handler_of, handles
from .iterators import Computed
from .lifetimes import require_from_outside
from .lookups import (
    MISSING,
    abstract_methods,
    attribute_name,
    can_change,
    check_as_found,
    class_lookup,
    has_entry,
    is_among,
    is_data_descriptor,
    is_of_program,
    may_override,
    shown_type,
)
from .made_annotations import have_annotations
from .modules import Module
from .named_tuples import NamedTuple, check_operators
from .objects import Object, truth_by_methods
from .own_keys import own_key
from .payloads import PAYLOADS
from .sequences import Tuple
from .subclasses import check_class, new_tensor
from .tensors import Tensor
from .weak_references import own_reference

METADATA = frozenset(
    {"__name__", "__qualname__", "__module__", "__doc__", "__mro__", "__bases__", "__base__", "__annotations__"}
)


#: The flag of classes that give no instances when they are called.
_NO_INSTANCES = 1 << 7


class Class(Known):
    """A real class."""

    value: type

    def special(self, m: Interpreter, name: str) -> Variable | None:
        """A method that an operator looks for on the metaclass, bound; None if there is none written in Python.

        Those of enumerations that the frame makes are understood as a whole: their tables are no one else's.
        """
        m.guards.note_type(self.value)
        raw, owner = class_lookup(m, type(self.value), name)
        if not isinstance(raw, (types.FunctionType, classmethod, staticmethod)):
            return None
        if owner is enum.EnumMeta and self.made_here:
            return None
        return descriptor_get(m, raw, owner, self, type(self.value), name)

    def hash_key(self, m: Interpreter) -> Hashable:
        metaclass = type(self.value)
        if metaclass is type:
            return super().hash_key(m)
        own = self.special(m, "__hash__")
        if own is not None:
            return own_key(m, self, own)
        if class_lookup(m, metaclass, "__hash__")[0] is None:
            m.errors.throw(TypeError, f"unhashable type: {shown_type(metaclass)!r}")
        if self.special(m, "__eq__") is not None:
            raise Unsupported(f"hash of {self!r}, whose metaclass defines __eq__")
        return super().hash_key(m)

    def truth(self, m: Interpreter) -> bool:
        told = truth_by_methods(m, self)
        return True if told is None else told

    def attribute(self, m: Interpreter, name: str) -> Variable:
        cls = self.value
        if type(cls) is type:
            return self.generic_attribute(m, name)
        reads_itself, owner = class_lookup(m, type(cls), "__getattribute__")
        try:
            if not isinstance(reads_itself, types.FunctionType):
                return self.generic_attribute(m, name)
            m.guards.note_type(cls)
            reading = descriptor_get(m, reads_itself, owner, self, type(cls), "__getattribute__")
            return m.calls.call(reading, [Constant(name)], {})
        except SymbolicRaise as raised:
            fallback = self.special(m, "__getattr__")
            if fallback is None or not issubclass(raised.exception.python_type(), AttributeError):
                raise
        return m.calls.call(fallback, [Constant(name)], {})

    def generic_attribute(self, m: Interpreter, name: str) -> Variable:
        """``type.__getattribute__``."""
        cls = self.value
        if name == "__class__":
            return m.builder.known(type(cls))
        m.guards.note_type(cls)
        if name in METADATA and class_lookup(m, type(cls), name)[1] is type:
            if name == "__annotations__":
                have_annotations(m, cls)
            value = m.builder.fold(getattr, [cls, name])
            return (
                m.builder.wrap(value, Attr(Const(cls, cls.__qualname__), name))
                if self.made_here or m.classes.may_change(cls)
                else m.builder.from_python(value)
            )
        if issubclass(cls, enum.Enum) and self.made_here:
            found = m.builder.fold(getattr, [cls, name])
            if isinstance(found, enum.Enum):
                return m.builder.known(found)
            if name == "__members__" and class_lookup(m, type(cls), name)[1] is enum.EnumMeta:
                return m.calls.call(m.builder.known(types.MappingProxyType), [m.builder.from_python(dict(found))], {})
        meta_raw, meta_owner = class_lookup(m, type(cls), name)
        if (
            meta_raw is not MISSING
            and is_data_descriptor(m, meta_raw)
            and meta_owner is not type
            and reads(m, meta_raw)
        ):
            return descriptor_get(m, meta_raw, meta_owner, self, type(cls), name)
        raw, owner = class_lookup(m, cls, name)
        if raw is not MISSING:
            if issubclass(type(raw), enum.Enum) and class_lookup(m, type(raw), "__get__")[0] is MISSING:
                return m.builder.known(raw)
            if name == "__new__" and isinstance(raw, staticmethod):
                raw = raw.__func__
                return m.builder.class_attribute(raw)
            return descriptor_get(m, raw, owner, None, cls, name)
        if isinstance(meta_raw, types.FunctionType):
            return m.effects.created(Method(m.builder.class_attribute(meta_raw), self))
        if meta_raw is not MISSING and meta_owner is type and is_data_descriptor(m, meta_raw):
            value = m.builder.fold(getattr, [cls, name])  # which may have none
            if self.made_here or m.classes.may_change(cls):
                raise Unsupported(f"{name} of a class that may change")
            return m.builder.from_python(value)
        if meta_raw is not MISSING and meta_owner is type:
            return m.effects.created(BoundBuiltin(self, name))
        if meta_raw is not MISSING:
            return descriptor_get(m, meta_raw, meta_owner, self, type(cls), name)
        m.errors.throw(AttributeError, f"type object {shown_type(cls)!r} has no attribute {name!r}")

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "__call__":
            return self.call(m, args, kwargs)
        if name == "mro" and class_lookup(m, type(self.value), name)[1] is type:
            m.classes.note_order(self.value)
            return m.builder.from_python(m.builder.fold(self.value.mro, []))
        if name == "__subclasses__" and not args and class_lookup(m, type(self.value), name)[1] is type:
            return _subclasses(m, self)
        if name in ("__instancecheck__", "__subclasscheck__") or class_lookup(m, type(self.value), name)[1] is not type:
            return super().method(m, name, args, kwargs)
        raise Unsupported(f"type.{name}")

    def set_attribute(self, m: Interpreter, name: str, value: Variable) -> None:
        if self.made_here:
            raise Unsupported(f"setting attribute {name!r} of class {self.value.__name__}")
        set_in_class(m, self.value, name, value)

    def delete_attribute(self, m: Interpreter, name: str) -> None:
        if self.made_here:
            raise Unsupported(f"deleting attribute {name!r} of class {self.value.__name__}")
        delete_in_class(m, self.value, name)

    def iterate(self, m: Interpreter) -> Variable:
        found = self.special(m, "__iter__")
        if found is not None:
            return m.iteration.iterate_with(found)
        if issubclass(self.value, enum.Enum):
            members = m.builder.new_tuple([m.builder.known(each) for each in self.value])
            return m.effects.created(Computed(members, types.GeneratorType))
        return super().iterate(m)

    def length(self, m: Interpreter) -> Variable:
        found = self.special(m, "__len__")
        if found is not None:
            return m.operators.answer(m.calls.call(found, [], {}), int, "__len__")
        if issubclass(self.value, enum.Enum):
            return Constant(len(self.value))
        return super().length(m)

    def item(self, m: Interpreter, key: Variable) -> Variable:
        found = self.special(m, "__getitem__")
        if found is None and not issubclass(self.value, enum.Enum):
            raw, owner = class_lookup(m, self.value, "__class_getitem__")
            if isinstance(raw, types.FunctionType):
                raise Unsupported(f"__class_getitem__ of {self.value.__name__}, which is no class method")
            if isinstance(raw, classmethod) and isinstance(raw.__func__, types.FunctionType):
                found = descriptor_get(m, raw, owner, None, self.value, "__class_getitem__")
        if found is not None:
            return m.calls.call(found, [key], {})
        try:
            real = m.builder.to_python(key)
        except NotConstant:
            raise Unsupported(f"subscript of class {self.value.__name__}") from None
        return m.builder.known(m.builder.fold(lambda c, k: c[k], [self.value, real]))

    def contains(self, m: Interpreter, value: Variable) -> bool:
        found = self.special(m, "__contains__")
        if found is not None:
            return m.operators.truth(m.calls.call(found, [value], {}))
        if issubclass(self.value, enum.Enum):
            return bool(m.builder.fold(lambda c, k: k in c, [self.value, m.builder.to_python(value)]))
        return super().contains(m, value)

    def builtin(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "__call__" and self.value is not type:
            return instantiate(m, self, args, kwargs)
        handler = handler_of(vars(type).get(name))
        if handler is not None:
            return handler(m, [self, *args], kwargs)
        return super().builtin(m, name, args, kwargs)

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        handler = handler_of(self.value)
        if handler is not None:
            args, kwargs = checked_arguments(self.value, args, kwargs)
            return handler(m, args, kwargs)
        return construct(m, self, args, kwargs)

    def call_from(self, m: Interpreter, caller: Any, args: Args, kwargs: Kwargs) -> Variable:
        """The same for an operation of a frame that pushes the instance: the graph may break in ``__init__``."""
        if handler_of(self.value) is not None:
            return self.call(m, args, kwargs)
        return construct(m, self, args, kwargs, caller)


@handles(type.__getattribute__)
def _type_getattribute(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    cls = args[0].realize(m) if len(args) == 2 and not kwargs else None
    if not isinstance(cls, Class):
        raise Unsupported("type.__getattribute__ of what is no known class")
    return cls.generic_attribute(m, attribute_name(m, args[1]))


def construct(m: Interpreter, cls_var: Class, args: Args, kwargs: Kwargs, caller: Any = None) -> Variable:
    """A call of a class: what its metaclass says, else ``__new__``, then ``__init__``; see ``Class.call_from`` for ``caller``."""
    cls = cls_var.value
    meta_call = class_lookup(m, type(cls), "__call__")[0]
    if isinstance(meta_call, types.FunctionType):
        if issubclass(cls, enum.Enum) and module_of(meta_call) == enum.__name__:
            return _member(m, cls, args, kwargs)
        return m.calls.call(m.builder.class_attribute(meta_call), [cls_var, *args], kwargs)
    if meta_call is dict:  # of a TypedDict
        return m.calls.call(m.builder.known(dict), args, kwargs)
    return instantiate(m, cls_var, args, kwargs, caller)


def _member(m: Interpreter, cls: type[enum.Enum], args: Args, kwargs: Kwargs) -> Variable:
    """The member that a call of an enumeration gives."""
    if not cls._member_map_:
        raise Unsupported(f"a class that {cls.__name__} makes")
    check_as_found(m, cls._member_map_, cls._value2member_map_)
    if not args and not kwargs:
        m.builder.fold(cls, [])  # raises
    given = args[0].realize(m) if len(args) == 1 and not kwargs else None
    if isinstance(given, Known) and type(given.value) is cls:
        return given
    if class_lookup(m, cls, "__new__")[0] is not enum.Enum.__new__:
        raise Unsupported(f"a call of {cls.__name__}, of which the program says what it gives")
    real = [m.builder.to_python(a) for a in args]
    named = {name: m.builder.to_python(value) for name, value in kwargs.items()}
    value, *more = (*real, *named.values())
    value = (value, *more) if more else value
    if not _has_value(cls, value) and is_of_program(getattr(cls._missing_, "__func__", None)):
        raise Unsupported(f"a value that {cls.__name__} does not have, of which the program says what it is")
    try:
        return m.builder.known(m.builder.fold(cls, real, named))
    finally:
        values, owner = class_lookup(m, cls, "_value2member_map_")
        place = Item(Attr(Const(owner, owner.__qualname__), "__dict__"), "_value2member_map_")
        if value in values:
            m.guards.add(Item(place, value), GuardKind.ID, values[value])
        else:
            m.guards.add(place, GuardKind.NO_KEY, value)


def _has_value(cls: type[enum.Enum], value: object) -> bool:
    """Whether a member has a value."""
    try:
        return value in cls._value2member_map_
    except TypeError:
        raise Unsupported(f"a value of {cls.__name__} that has no hash") from None


def instantiate(m: Interpreter, cls_var: Class, args: Args, kwargs: Kwargs, caller: Any = None) -> Variable:
    """What ``type.__call__`` itself does."""
    cls = cls_var.value
    if issubclass(cls, torch.Tensor):
        check_class(m, cls)
    if cls.__flags__ & _NO_INSTANCES:
        m.builder.fold(cls, [])  # raises
    if class_lookup(m, cls, "__del__")[0] is not MISSING:  # it runs where the program lets go of the last reference
        raise SkipFrame(f"it makes a {cls.__name__}, whose objects do something when they die")
    if abstract_methods(cls):
        if class_lookup(m, cls, "__new__")[1] is object:
            m.builder.fold(object.__new__, [cls])  # raises
        raise Unsupported(f"construction of abstract class {cls.__name__}")
    new, owner = class_lookup(m, cls, "__new__")
    new = new.__func__ if isinstance(new, staticmethod) else new
    if isinstance(new, types.FunctionType):
        instance = m.calls.call(m.builder.class_attribute(new), [cls_var, *args], kwargs).realize(m)
    else:
        instance = allocate(m, cls, owner, args, kwargs)
    if not any(base is cls for base in instance.python_type().__mro__):
        return instance
    if isinstance(instance, (Object, Tensor)):
        initialise(m, instance, args, kwargs, caller)
    return instance


def initialise(m: Interpreter, instance: Object | Tensor, args: Args, kwargs: Kwargs, caller: Any = None) -> None:
    """Run ``__init__``; see ``Class.call_from`` for ``caller``."""
    init, owner = class_lookup(m, instance.cls, "__init__")
    if not isinstance(init, (types.FunctionType, types.WrapperDescriptorType, types.MethodDescriptorType)):
        raise Unsupported(f"construction of {instance.cls.__name__}, whose __init__ is a {type(init).__name__}")
    if isinstance(init, types.FunctionType):
        function = m.builder.class_attribute(init)
        if caller is None:
            result = m.calls.call(function, [instance, *args], kwargs)
        else:
            result = m.calls.call_from(caller, function, [instance, *args], kwargs, keeping=instance)
        if not m.builder.is_none(result.realize(m)):
            given = shown_type(result.realize(m).python_type())
            m.errors.throw(TypeError, f"__init__() should return None, not {given!r}")
        return
    if isinstance(instance, Tensor):  # torch's own is that of all objects, and its `__new__` takes the arguments
        return
    if owner is object:
        new, _ = class_lookup(m, instance.cls, "__new__")
        plain_new = not isinstance(new, (staticmethod, types.FunctionType))
        if (args or kwargs) and plain_new and instance.payload is None:
            m.errors.throw(TypeError, f"{instance.cls.__name__}() takes no arguments")
        return
    instance.builtin(m, owner, "__init__", args, kwargs)


class _Subclasses:
    """Asks whether the classes right below one are those that they were, and keeps none of them alive."""

    def __init__(self, cls: type, below: list[type]) -> None:
        self.cls, self.below = weakref.ref(cls), [weakref.ref(each) for each in below]

    def __call__(self) -> bool:
        cls = self.cls()
        now: list[type] = [] if cls is None else type.__subclasses__(cls)
        return len(now) == len(self.below) and all(ref() is each for ref, each in zip(self.below, now, strict=True))


def _subclasses(m: Interpreter, cls: Class) -> Variable:
    """``type.__subclasses__``, which tells of classes that the frame made, too."""
    if cls.made_here or m.classes.made:
        raise Unsupported("type.__subclasses__ beside classes that are made here")
    below: list[type] = type.__subclasses__(cls.value)
    m.guards.add(None, GuardKind.ANSWER, (_Subclasses(cls.value, below), (), True))
    return m.builder.from_python(below)


def _check_no_arguments(m: Interpreter, cls: type) -> None:
    """What ``object.__new__`` says of more than a class: nothing where only ``__init__`` takes them."""
    if class_lookup(m, cls, "__new__")[1] is not object:
        m.errors.throw(TypeError, "object.__new__() takes exactly one argument (the type to instantiate)")
    if class_lookup(m, cls, "__init__")[1] is object:
        m.errors.throw(TypeError, f"{cls.__name__}() takes no arguments")


def allocate(m: Interpreter, cls: type, owner: type, args: Args, kwargs: Kwargs) -> Variable:
    """A ``__new__`` written in C: of ``object``, of an exception, or of a built-in container."""
    if cls.__flags__ & _NO_INSTANCES:
        m.builder.fold(owner.__new__, [cls])  # raises
    if issubclass(cls, BaseException):
        if owner.__module__ != "builtins":
            raise Unsupported(f"construction of {cls.__name__}")
        if issubclass(cls, BaseExceptionGroup):
            return new_group(m, cls, list(args))
        return m.effects.created(ExceptionObject(cls, list(args)))
    if issubclass(cls, torch.nn.Module):
        return m.effects.created(Module(cls))
    if issubclass(cls, torch.Tensor):
        return new_tensor(m, cls, args, kwargs)
    if owner is object:
        if args or kwargs:
            _check_no_arguments(m, cls)
        if may_override(cls):
            m.modes.meet()
        return m.effects.created(Object(cls))
    if cls.__module__ == torch.return_types.__name__ and len(args) == 1 and not kwargs:
        items = m.iteration.elements(args[0])
        if len(items) != getattr(cls, "n_fields", -1):
            raise Unsupported(f"construction of {cls.__name__} of {len(items)} values")
        return m.effects.created(Tuple(items, cls))
    base = next((c for c in cls.__mro__ if is_among(c, PAYLOADS)), owner)
    payload = PAYLOADS.get(base) if issubclass(base, owner) else None
    if owner is weakref.ref and args:
        made = own_reference(m, args[0]) if cls is weakref.ref and len(args) == 1 and not kwargs else None
        if made is not None:
            return made
        require_from_outside(m, args[0])
    if payload is None or (owner is tuple and _is_of_c(cls)):
        raise Unsupported(f"construction of {cls.__name__}, whose base {owner.__name__} is written in C")
    if kwargs and isinstance(class_lookup(m, cls, "__new__")[0], types.BuiltinFunctionType) and base in _BY_NEW:
        raise Unsupported(f"construction of {cls.__name__} with keyword arguments")
    if base is tuple and hasattr(cls, "_fields"):
        check_operators(m, cls)
        return m.effects.created(NamedTuple(m.iteration.elements(args[0]) if args else [], cls))
    return m.effects.created(Object(cls, payload=m.effects.created(payload(m, args))))


def _is_of_c(cls: type) -> bool:
    """Whether a class of tuples is, or has a base, written in C: as of sys.flags, it may be that the program can make none."""
    return any(each is not tuple and each is not object and not can_change(each) for each in cls.__mro__)


#: Built-in classes that take all that they are made of in ``__new__``.
_BY_NEW = (tuple, int, float, str)


class PyModule(Known):
    """A Python module: attributes are globals of that module."""

    value: types.ModuleType

    def truth(self, m: Interpreter) -> bool:
        return True

    def attribute(self, m: Interpreter, name: str) -> Variable:
        m.guards.note_type(self.value)
        cls = type(self.value)
        if cls is not types.ModuleType:
            found = self.of_class(m, cls, name)
            if found is not None:
                return found
        namespace = self.value.__dict__
        if name in namespace or (id(namespace), name) in m.globals.written:
            found = m.globals.read(namespace, name)
            m.effects.later.named(m, namespace, name, found)
            return found
        own_name = namespace.get("__name__")
        if not isinstance(own_name, str):
            raise Unsupported("a module without a name")
        m.guards.add(Attr(Const(self.value, own_name), "__dict__"), GuardKind.NO_KEY, name)
        fallback = namespace.get("__getattr__")
        if isinstance(fallback, types.FunctionType) and is_uninstalled(fallback.__code__.co_filename):
            return m.calls.call(m.globals.read(namespace, "__getattr__"), [Constant(name)], {})
        try:
            real = getattr(self.value, name)
        except AttributeError as error:
            m.guards.add(Const(self.value, own_name), GuardKind.NO_ATTR, name)
            m.errors.throw(AttributeError, str(error))
        if name in namespace:
            raise EvaluateAgain(f"{own_name}.{name} was made as it was asked for")
        return m.builder.wrap(real, known_part(self.value, name))

    def of_class(self, m: Interpreter, cls: type, name: str) -> Variable | None:
        """What a class of modules with attributes of its own gives; None if that is the module's own dictionary's."""
        if isinstance(class_lookup(m, cls, "__getattribute__")[0], types.FunctionType):
            raise Unsupported(f"attribute of a {cls.__name__}, which reads them in its own way")
        raw, owner = class_lookup(m, cls, name)
        if (
            raw is MISSING
            or is_among(owner, types.ModuleType.__mro__)
            or (name in vars(self.value) and not is_data_descriptor(m, raw))
        ):
            return None
        written = isinstance(class_lookup(m, type(raw), "__get__")[0], types.FunctionType)
        if written or isinstance(raw, (types.FunctionType, property, staticmethod, classmethod)):
            return descriptor_get(m, raw, owner, self, cls, name)
        return m.builder.wrap(m.builder.fold(getattr, [self.value, name]), known_part(self.value, name))

    def set_attribute(self, m: Interpreter, name: str, value: Variable) -> None:
        cls = type(self.value)
        if has_entry(types.ModuleType, name):
            raise Unsupported(f"setting attribute {name!r} of a {cls.__name__}")
        m.guards.note_type(self.value)
        if cls is not types.ModuleType:
            if not is_among(class_lookup(m, cls, "__setattr__")[1], types.ModuleType.__mro__):
                raise Unsupported(f"setting attribute {name!r} of a {cls.__name__}, which sets them in its own way")
            raw, owner = class_lookup(m, cls, name)
            setter = class_lookup(m, type(raw), "__set__")[0]
            if isinstance(setter, types.FunctionType):
                m.calls.call(m.builder.wrap(setter, None), [m.builder.class_value(owner, name, raw), self, value], {})
                return
            if raw is not MISSING and is_data_descriptor(m, raw):
                raise Unsupported(f"setting attribute {name!r} of a {cls.__name__}")
        m.globals.write(
            vars(self.value) if cls is types.ModuleType else types.ModuleType.__getattribute__(self.value, "__dict__"),
            name,
            value,
        )


@builds(types.ModuleType, subclasses=True)
def _build_module(m: Interpreter, value: Any, source: Source | None) -> Variable:
    return m.builder.identified(PyModule(value), source)
