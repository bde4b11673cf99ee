"""What makes classes: the class statement, ``type()``, named tuples, enumerations, dataclasses; and what is put into their bodies.

A class is evaluated as a whole where making it runs nothing of the program's: no metaclass, ``__init_subclass__`` or ``__set_name__`` of its own.
Whatever else makes one breaks the graph there, and is done for real.
"""

from __future__ import annotations

import builtins
import collections
import dataclasses
import enum
import functools
import types
import typing
from collections.abc import Iterable
from typing import Any

import torch

from capture.errors import NotConstant, Unsupported
from capture.trace_rules import module_of

from .base import Args, Interpreter, Kwargs, Variable
from .classes import Class
from .constants import Constant, Known
from .functions import VALUES, Function
from .handlers import handles
from .lookups import MISSING, can_change, class_lookup
from .made_classes import ANNOTATE, Made, MadeClass, Stand, annotating, new_class, prototype, prototypes
from .mapping_inputs import InputDict
from .mappings import Dict
from .objects import Object
from .sequences import List, Tuple
from .sets import Set

#: Modules whose metaclasses, and hooks of classes, do nothing but to the class that is made, and read nothing that another part of a program writes.
_MAKERS = frozenset({"abc", "enum", "typing"})
#: What makes a class, among a metaclass's methods.
_MAKING = ("__new__", "__init__", "__call__", "__prepare__", "mro")
#: Methods of an enumeration that are called, or asked, as it is made, or as members are looked for by value.
_ASKED_BY_ENUM = frozenset(
    {
        "__new__", "__init__", "__init_subclass__", "__set_name__", "_generate_next_value_", "_missing_", "_ignore_", "_order_",
        "__eq__", "__hash__", "__setattr__", "__getattribute__", "__getattr__", "__getnewargs__", "__reduce__", "__reduce_ex__",
    }
)  # fmt: skip


def _statement(name: str, bases: tuple[Any, ...], keywords: dict[str, Any], entries: dict[str, Any]) -> Any:
    """The class of a statement whose body comes to these entries; called from generated code, too."""

    def body(namespace: Any) -> None:
        if "__classdictcell__" in entries:  # until the class is made, if it is that which takes the cell
            entries["__classdictcell__"].cell_contents = namespace
        for key, value in entries.items():  # one by one, as an enumeration takes notice of
            namespace[key] = value

    return types.new_class(name, bases, keywords, body)


@handles(builtins.__build_class__)
def _build_class(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    body, name = args[0].realize(m), m.builder.to_python(args[1])
    if not isinstance(body, Function) or body.real is not None:
        raise Unsupported("a class of a function that is not of its statement")
    bases = [each.realize(m) for each in args[2:]]
    keywords = {key: value.realize(m) for key, value in kwargs.items()}
    real = tuple(_base(m, each) for each in bases)
    named = {key: prototype(m, value) for key, value in keywords.items()}
    try:
        resolved = types.resolve_bases(real)
    except Exception as error:  # that of what stands for a base, as the program will get it
        raise Unsupported(f"a class statement that is refused: {error}") from error
    _check_kind(m, name, resolved, named.get("metaclass", type))
    enumerates = any(isinstance(each, type) and issubclass(each, enum.Enum) for each in resolved)
    entries = {key: value.realize(m) for key, value in m.calls.class_body(body, once=enumerates).items()}
    namespace = prototypes(m, entries)
    if ANNOTATE in entries and any(type(each).__module__ == typing.__name__ for each in resolved):
        annotate = _steady(entries[ANNOTATE])
        namespace[ANNOTATE] = annotating(m, lambda m: m.calls.call(annotate, [Constant(VALUES)], {}).realize(m))
    _check_entries(m, name, resolved, namespace)
    making: list[Any] = [Constant(name), bases, keywords, entries]
    return new_class(m, _statement, making, [name, real, named, namespace], entries, namespace)


def _steady(annotate: Variable) -> Variable:
    """What makes annotations that the library asks for: they are to be the same when the class is made for real."""
    if not isinstance(annotate, Function) or set(annotate.code.co_freevars) - {"__classdict__"}:
        raise Unsupported("a class whose annotations are of variables, and asked for as it is made")
    return annotate


def _base(m: Interpreter, base: Variable) -> Any:
    """What stands in a class's statement for a base, which may be what `typing` takes for one."""
    if isinstance(base, Function) and base.real is not None and base.real.__module__ == typing.__name__:
        m.guards.note_identity(base, base.real)
        return base.real
    if isinstance(base, Class) or (isinstance(base, Known) and type(base.value).__module__ == typing.__name__):
        return base.value
    raise Unsupported(f"class statement with {base!r} for a base")


def _check_kind(m: Interpreter, name: str, bases: Iterable[Any], metaclass: Any) -> None:
    """Raises ``Unsupported`` where a class of these bases is made by code of the program's, or written in C."""
    classes = [each for each in bases if isinstance(each, type)]
    for meta in (metaclass, *map(type, classes)):
        if not isinstance(meta, type) or not all(_is_makers(m, meta, method) for method in _MAKING):
            raise Unsupported(f"class statement of {name}, whose metaclass is {getattr(meta, '__name__', meta)}")
    for base in classes:
        if not _is_makers(m, base, "__init_subclass__"):
            raise Unsupported(f"class statement of {name}, whose base {base.__name__} has an __init_subclass__")
        if issubclass(base, torch.Tensor):
            raise Unsupported(f"class statement of {name}, a class of tensors")
        if issubclass(base, enum.Enum) and not all(_is_makers(m, base, method) for method in _ASKED_BY_ENUM):
            raise Unsupported(f"class statement of {name}, an enumeration that makes its members in its own way")


def _is_makers(m: Interpreter, cls: type, name: str) -> bool:
    """Whether what a class has under a name is written in C, or of what only makes classes."""
    raw, owner = class_lookup(m, cls, name)
    function = raw.__func__ if isinstance(raw, (classmethod, staticmethod)) else raw
    if isinstance(function, types.FunctionType):
        return module_of(function) in _MAKERS
    return raw is MISSING or not m.classes.may_change(owner) or owner.__module__ in _MAKERS or function is None


def _check_entries(m: Interpreter, name: str, bases: Iterable[Any], entries: dict[str, Any]) -> None:
    if "__type_params__" in entries:
        raise Unsupported(f"class statement of {name}, with scopes that see its names")
    classes = [each for each in bases if isinstance(each, type)]
    own_way = _ASKED_BY_ENUM & entries.keys() or any(isinstance(each, Stand) for each in entries.values())
    if own_way and any(issubclass(each, enum.Enum) for each in classes):
        raise Unsupported(f"class statement of {name}, an enumeration that makes its members in its own way")


@handles(type)
def _type(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if len(args) == 1 and not kwargs:
        return m.builder.known(args[0].realize(m).python_type())
    if len(args) != 3 or kwargs:
        raise Unsupported("class made by type()")
    name, bases, namespace = (each.realize(m) for each in args)
    if not (isinstance(name, Constant) and isinstance(bases, Tuple) and isinstance(namespace, Dict)):
        raise Unsupported("class made by type()")
    if type(namespace) not in (Dict, InputDict):
        raise Unsupported("class made by type()")
    parts = [each.realize(m) for each in bases.items]
    if not all(isinstance(each, Class) for each in parts):
        raise Unsupported("class made by type()")
    entries = {m.builder.to_python(key): value.realize(m) for key, value in namespace.entries.values()}
    if not all(type(key) is str for key in entries) or "__classcell__" in entries:
        raise Unsupported("class made by type() of names that are no strings")
    real = tuple(_base(m, each) for each in parts)
    _check_kind(m, name.value, real, type)
    if any(issubclass(each, enum.Enum) for each in real):
        raise Unsupported("class made by type()")
    entries.setdefault("__module__", Constant(m.state.frame.globals.get("__name__")))
    given = prototypes(m, entries)
    return new_class(m, type, [name, parts, entries], [name.value, real, given], entries, given)


@handles("collections.namedtuple")
def _named_tuple(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    try:
        real = [m.builder.to_python(each) for each in args]
        named = {key: m.builder.to_python(value) for key, value in kwargs.items()}
    except NotConstant:
        raise Unsupported("a named tuple of names, or defaults, that are not constant") from None
    if named.get("module") is None:
        named["module"] = m.state.frame.globals.get("__name__", "__main__")
    make = functools.partial(collections.namedtuple, *real, **named)
    return new_class(m, make, [], [], {}, {})


#: What ``dataclasses.dataclass`` takes, in the order in which it passes it on.
_OF_DATACLASS = (
    "init", "repr", "eq", "order", "unsafe_hash", "frozen", "match_args", "kw_only", "slots", "weakref_slot",
)  # fmt: skip


@handles("dataclasses._process_class")
def _dataclass(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """What the decorator does to a class."""
    made = args[0].realize(m)
    given = dict(zip(_OF_DATACLASS, (m.builder.to_python(each) for each in args[1:]), strict=True))
    if not isinstance(made, MadeClass) or kwargs:
        raise Unsupported("a class from elsewhere that becomes a dataclass")
    if given["slots"] or given["weakref_slot"]:
        raise Unsupported("a dataclass with slots, which is another class")
    fields = made.entries.get("__annotations__")
    if ANNOTATE in made.entries:
        _steady(made.entries[ANNOTATE])
        made.value.__annotate__ = annotating(m, made.annotations)  # type: ignore[attr-defined,unused-ignore]
        fields = made.annotations(m)
    for name in [] if fields is None else m.iteration.elements(fields):
        label = m.builder.to_python(name)
        class_lookup(m, made.value, label)
        default = made.entries.get(label)
        if isinstance(default, (List, Dict, Set, Object)):
            raise Unsupported(f"a dataclass with a default for {label} that is not constant")
        if (
            default is not None
            and not isinstance(default, Made)
            and not _is_makers(m, default.python_type(), "__repr__")
        ):
            raise Unsupported(f"a dataclass with a default for {label} that says itself how it is written")
    for base in made.value.__mro__:
        for read in ("__dataclass_fields__", "__dataclass_params__", "__post_init__"):
            class_lookup(m, base, read)
    return _passed_on(m, made, functools.partial(dataclasses.dataclass, **given))


def _passed_on(m: Interpreter, made: MadeClass, function: Any) -> MadeClass:
    """A class after a function of the library gave it more, which asks its metaclass for what it has, and to have it set."""
    metaclass: type = type(made.value)
    for each in metaclass.__mro__:
        if can_change(each) and each.__module__ not in _MAKERS:
            raise Unsupported(f"a class that gets methods, whose metaclass is {each.__name__}")
    made.pass_on(m, function)
    return made


@handles(functools.total_ordering)
def _total_ordering(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    made = args[0].realize(m)
    if not isinstance(made, MadeClass):
        raise Unsupported("a class from elsewhere that gets all comparisons")
    for name in ("__lt__", "__le__", "__gt__", "__ge__"):
        class_lookup(m, made.value, name)
    return _passed_on(m, made, functools.total_ordering)


@handles("dataclasses.field")
def _field(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(Made(m, dataclasses.field, [], kwargs))


def _makes(cls: Any) -> None:
    """Register a class whose objects keep what they are made of, for a class to have."""

    @handles(cls)
    def make(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        return m.effects.created(Made(m, cls, [each.realize(m) for each in args], kwargs))


for _each in (property, staticmethod, classmethod, functools.cached_property, enum.auto):
    _makes(_each)
