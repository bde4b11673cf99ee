"""Looking up names along a class's MRO, each look-up with its guard; what the data model says of what is found there."""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Iterable
from typing import Any

from capture._native import address
from capture._torch import NO_OVERRIDE
from capture.errors import Unsupported
from capture.guards import GuardKind
from capture.labels import HEAP_TYPE, place_of
from capture.sources import Attr, Source
from capture.trace_rules import is_infrastructure

from .base import Interpreter, Variable


class Missing:
    """What ``MISSING`` is: that there is no such entry."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing()


class Put:
    """What ``PUT`` is: an entry that the frame put into a class from outside; which, ``Classes.made_entry`` tells."""

    def __repr__(self) -> str:
        return "PUT"


PUT = Put()
#: Types of what stands in a class for a method written in C.
C_METHODS = (types.WrapperDescriptorType, types.MethodDescriptorType, types.BuiltinFunctionType)
_IMMUTABLE_TYPE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
_DATA_DESCRIPTORS = (property, types.MemberDescriptorType, types.GetSetDescriptorType)
#: Types of most of what stands in classes, that cannot change and have neither `__set__` nor `__delete__`; nor has what is missing.
_NO_DATA_DESCRIPTORS = frozenset(
    {types.FunctionType, classmethod, staticmethod, type(None), bool, int, str, Missing, Put}
)


def is_of_program(method: Any) -> bool:
    """Whether what is found in a class is a method that is neither torch's nor the standard library's, nor ours."""
    return isinstance(method, types.FunctionType) and not is_infrastructure(method.__code__.co_filename)


#: What is not asked of a member when something is computed with it.
_OF_MAKING = frozenset({"__new__", "__init__", "__init_subclass__", "__set_name__", "__class_getitem__", "__call__"})


def tells_in_its_own_way(cls: type[enum.Enum]) -> bool:
    """Whether an enumeration has special methods of the program's, that whatever is computed with its members may call."""
    return any(
        name.startswith("__") and name not in _OF_MAKING and is_of_program(method)
        for base in cls.__mro__
        if issubclass(base, enum.Enum)
        for name, method in vars(base).items()
    )


def attribute_name(m: Interpreter, value: Variable) -> str:
    """The name that an attribute is asked for by; raises ``TypeError`` in the program for anything but a text."""
    name: str = m.builder.to_python(value)
    if not isinstance(name, str):
        m.builder.fold(getattr, [None, name])
    return name


def is_changed(m: Interpreter, real: Any) -> bool:
    """Whether the frame has changed a real object, which does not tell of it yet."""
    met = m.builder.met(real)
    return met is not None and m.effects.has_changed(met)


def check_as_found(m: Interpreter, *reals: Any) -> None:
    """Raise ``Unsupported`` where the frame has changed one of these: what asks the real object then would learn of it as it was before."""
    for real in reals:
        if is_changed(m, real):
            raise Unsupported(f"what asks a {type(real).__name__} that the program has changed")


def own_entry(m: Interpreter, real: Any, place: Source, name: str) -> Variable | None:
    """What an object that is known has under a name in its own dictionary; None if there is nothing. Leaves a guard."""
    own = vars(real)
    check_as_found(m, own)
    if name in own:
        return m.builder.wrap(own[name], Attr(place, name, via_dict=True))
    m.guards.add(Attr(place, "__dict__"), GuardKind.NO_KEY, name)
    return None


def class_lookup(m: Interpreter, cls: type, name: str) -> tuple[Any, type]:
    """The raw class attribute and the class of the MRO that has it; ``MISSING`` if none does. Leaves a guard."""
    return m.classes.found.get((address(cls), name)) or m.classes.entry(cls, name)


def overrides_functions(m: Interpreter, cls: type) -> bool:
    """Whether torch asks a class what an operation on one of its objects comes to."""
    return class_lookup(m, cls, "__torch_function__")[0] not in (MISSING, NO_OVERRIDE)


def may_override(cls: type) -> bool:
    """Whether a class has something to say about operations of torch, as it is now."""
    return any("__torch_function__" in vars(base) for base in cls.__mro__)


def acts_as(m: Interpreter, raw: Any, kind: type, name: str = "__get__") -> bool:
    """Whether what is found in a class is a descriptor of a kind, or of a subclass that leaves one of its methods to that."""
    cls = type(raw)
    return cls is kind or (issubclass(cls, kind) and class_lookup(m, cls, name)[0] is vars(kind)[name])


def is_among(cls: Any, classes: Iterable[Any]) -> bool:
    """Whether it is one of these classes, without asking what their metaclasses say of equality."""
    for each in classes:  # noqa: SIM110  (without a generator: each `super()` asks)
        if each is cls:
            return True
    return False


def compares_in_its_own_way(metaclass: Any) -> bool:
    """Whether classes cannot be told apart by tables: what they are equal to, or their hash, is the program's to say, or they have none."""
    return metaclass.__hash__ is not type.__hash__ or metaclass.__eq__ is not type.__eq__


def abstract_methods(cls: type) -> Any:
    """What a class has for ``__abstractmethods__``, which is of its own; no metaclass is asked where it has none."""
    return cls.__dict__.get("__abstractmethods__")


def can_change(cls: type) -> bool:
    """Whether a class's own dictionary can be written to, and objects of it be given another class."""
    return cls.__flags__ & (HEAP_TYPE | _IMMUTABLE_TYPE) == HEAP_TYPE


@functools.cache
def gives_own_class(base: type, name: str) -> bool:
    """Whether a method of a built-in class makes an instance of the subclass that it is called on, as ``OrderedDict.copy`` does."""
    probe = type(base.__name__, (base,), {})
    for args in ((), (base(),)):
        owner = probe()
        try:
            made = getattr(base, name)(owner, *args)
        except Exception:  # it takes other arguments
            continue
        if type(made) is probe and made is not owner:
            return True
    return False


def check_own_class(m: Interpreter, cls: type) -> None:
    """Objects of some classes claim another class, as mocks do: what ``object.__getattribute__`` then answers is not known here."""
    if class_lookup(m, cls, "__class__")[1] is not object:
        raise Unsupported(f"the class that a {cls.__name__} claims to have")


def is_data_descriptor(m: Interpreter, raw: Any) -> bool:
    """Whether it takes precedence over the instance's dictionary."""
    if type(raw) in _NO_DATA_DESCRIPTORS:
        return False
    return isinstance(raw, _DATA_DESCRIPTORS) or any(
        class_lookup(m, type(raw), name)[0] is not MISSING for name in ("__set__", "__delete__")
    )


def made_by_object(cls: type) -> bool:
    """Whether ``object.__new__`` makes its instances, as CPython's own check has it: there is no state in C."""
    base: type | None = cls
    while base is not None:
        if isinstance(base.__dict__.get("__new__"), types.BuiltinFunctionType):
            return base is object
        base = base.__base__
    return False


#: Entries of a class whose representation tells the class's full name.
_TELLING = (types.WrapperDescriptorType, types.MethodDescriptorType, types.GetSetDescriptorType)


def is_callable(m: Interpreter, value: Variable) -> bool:
    """Whether a value's class has ``__call__``."""
    return class_lookup(m, value.python_type(), "__call__")[0] is not MISSING


def entry_of(cls: type, name: str) -> Any:
    """What a class or the first above it has under a name, as it stands there; `MISSING` where none has. Nothing is guarded."""
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), MISSING)


def has_entry(cls: type, name: str) -> bool:
    """Whether a class or one above it has an entry of a name: what is there is not asked, which may be a descriptor of the program's."""
    return entry_of(cls, name) is not MISSING


def can_iterate(cls: type) -> bool:
    """Whether ``iter()`` takes objects of a class."""
    return has_entry(cls, "__iter__") or has_entry(cls, "__getitem__")


def refusal_of_deletion(cls: type) -> str:
    """What is said of deleting an item under a key of a class: the interpreter has two places that say it."""
    return "doesn't support item deletion" if has_entry(cls, "__index__") else "does not support item deletion"


def shown_type(cls: type) -> str:
    """A class's name as the interpreter's messages have it: of those made in C it may hold their module's."""
    if place_of(cls)[0] == "builtins":
        return cls.__name__
    for entry in vars(cls).values():
        if isinstance(entry, _TELLING) and entry.__objclass__ is cls:
            return repr(entry).removesuffix("' objects>").rpartition("'")[2]
    return cls.__name__


def full_name(cls: type) -> str:
    """A class's name as newer messages have it: with its module, and where it was defined."""
    module = cls.__dict__.get("__module__", cls.__module__)
    return cls.__qualname__ if module in ("builtins", "__main__") else f"{module}.{cls.__qualname__}"


class _Empty:
    __slots__ = ("slot",)
    slot: bool


@functools.cache
def _empty_slots_name_modules() -> bool:
    """Whether the message of an empty slot has a class's full name, as from 3.13."""
    try:
        return _Empty().slot
    except AttributeError as error:
        return __name__ in str(error)


def shown_holder(cls: type) -> str:
    """A class's name as the message of an empty slot of its instance has it."""
    if not _empty_slots_name_modules():
        return shown_type(cls)
    module = cls.__module__
    return f"{module}.{cls.__qualname__}" if module not in ("builtins", "__main__") else cls.__qualname__
