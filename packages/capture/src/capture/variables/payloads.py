"""The built-in part of an instance of a subclass of a built-in type: how it starts, what an input's is, and how it is reconstructed."""

from __future__ import annotations

import collections
from collections.abc import Callable, Hashable
from typing import Any

from capture.bytecode import build
from capture.errors import NotConstant, Unsupported
from capture.guards import GuardKind
from capture.sources import Applied, Item, Source

from .base import Args, Interpreter, Variable
from .constants import CONSTANT_TYPES, Constant
from .mapping_inputs import guard_absent_key, items_of
from .mappings import Dict
from .placeholders import Lazy
from .property_parts import PropertyPart
from .reconstruction import Emitter, method_of
from .sequences import List, Tuple
from .sets import Set


def _literal(base: type) -> Callable[[Interpreter, Args], Variable]:
    def make(m: Interpreter, args: Args) -> Variable:
        try:
            return Constant(m.builder.fold(base, [m.builder.to_python(a) for a in args]))
        except NotConstant:
            raise Unsupported(f"construction of a {base.__name__} from values that are not constant") from None

    return make


#: How it starts, given the arguments of the class, by the class whose ``__new__`` is inherited.
PAYLOADS: dict[type, Callable[[Interpreter, Args], Variable]] = {
    dict: lambda m, args: Dict({}),
    collections.OrderedDict: lambda m, args: Dict({}, collections.OrderedDict),
    list: lambda m, args: List([]),
    set: lambda m, args: Set({}),
    property: lambda m, args: PropertyPart(),
    tuple: lambda m, args: Tuple(m.iteration.tupled(args[0]) if args else []),
    str: _literal(str),
    int: _literal(int),
    float: _literal(float),
}


def payload_of(m: Interpreter, value: Any, source: Source) -> Variable | None:
    """That of an input; guards what it is. None for an instance of any other class.

    Raises ``Unsupported`` for the built-in types that are not read.
    """
    for base, read in _READ.items():
        if issubclass(type(value), base):
            return read(m, value, source)
    return None


def _read_dict(m: Interpreter, value: dict[Any, Any], source: Source) -> Variable:
    cls = type(value)
    entries: dict[Hashable, tuple[Variable, Variable]] = {}
    for k, v in items_of(value):
        if type(k) not in CONSTANT_TYPES:
            raise Unsupported(f"keys of {cls.__name__}")
        entries[k] = (Constant(k), Lazy(v, Item(source, k, cls.__getitem__ is not dict.__getitem__)))
    made = Dict(entries, collections.OrderedDict if issubclass(cls, collections.OrderedDict) else dict)
    made.original = dict(entries)
    keys = tuple(k for k, _ in items_of(value))
    made.guard_keys = lambda: m.guards.add(source, GuardKind.DICT_KEYS, keys)
    made.guard_absent = lambda key: guard_absent_key(m, source, key, keys)
    made.source = source
    return made


def _read_list(m: Interpreter, value: list[Any], source: Source) -> Variable:
    made = List(_read_items(m, value, source, list))
    made.source = source
    made.is_payload = True
    return made


def _read_tuple(m: Interpreter, value: tuple[Any, ...], source: Source) -> Variable:
    return Tuple(_read_items(m, value, source, tuple))


def _read_items(m: Interpreter, value: Any, source: Source, base: type[list[Any] | tuple[Any, ...]]) -> list[Variable]:
    m.guards.add(source, GuardKind.LEN, base.__len__(value))
    if type(value).__getitem__ is not base.__getitem__:
        raise Unsupported(f"{base.__name__} subclass {type(value).__name__} with its own __getitem__")
    return [Lazy(v, Item(source, i)) for i, v in enumerate(base.__iter__(value))]


def _text_of(value: Any, _: int) -> str | None:
    """The plain text that an instance of a class of texts is, whatever its class says of it."""
    return str.__str__(value) if isinstance(value, str) else None


def _read_text(m: Interpreter, value: str, source: Source) -> Variable:
    text = str.__str__(value)
    m.guards.add(Applied(source, _text_of, 0), GuardKind.EQUALS, text)
    return Constant(text)


def _read_none(m: Interpreter, value: Any, source: Source) -> Variable:
    raise Unsupported(f"input of type {type(value).__name__}")


#: How an input's is read, by the built-in type.
_READ: dict[type, Callable[[Interpreter, Any, Source], Variable]] = {
    dict: _read_dict,
    list: _read_list,
    tuple: _read_tuple,
    str: _read_text,
    **dict.fromkeys((int, float, bytes, set, frozenset, complex), _read_none),
}


def has_content(payload: Variable | None) -> bool:
    """Whether it is filled after the instance was made."""
    return isinstance(payload, (Dict, List, Set, PropertyPart))


def whole(variable: Variable) -> Variable:
    """The instance that a part with content belongs to, which is where what goes over it finds it; anything else is whole."""
    return variable.holder if variable.holder is not None and has_content(variable) else variable


def reconstruct_with_payload(e: Emitter, cls: type, payload: Variable) -> None:
    """Push an instance of ``cls`` with this payload, which ``fill_payload`` completes if it has content."""
    base = payload.python_type()
    assert base in PAYLOADS
    e.emit(build.push_callable(build.load_const(method_of(base, "__new__"))), build.load_const(cls))
    if isinstance(payload, Constant):
        e.emit(build.load_const(payload.value), build.call(2))
    elif isinstance(payload, Tuple):
        e.emit(build.build_tuple(e.load_many(payload.items)), build.call(2))
    else:
        e.emit(build.call(1))


def fill_payload(e: Emitter, payload: Variable, name: str) -> None:
    """Give the instance in the local ``name`` its content, past whatever its class makes of adding to it."""
    if isinstance(payload, Dict):
        for key, value in payload.entries.values():
            e.emit(build.push_callable(build.load_const(method_of(payload.cls, "__setitem__"))), build.load_fast(name))
            e.load(key)
            e.load(value)
            e.emit(build.call(3), build.pop())
    elif isinstance(payload, PropertyPart):
        payload.hand_over(e, name)
    elif isinstance(payload, (List, Set)):
        function = list.extend if isinstance(payload, List) else set.update
        e.emit(build.push_callable(build.load_const(function)), build.load_fast(name))
        e.load_list(list(payload.items if isinstance(payload, List) else payload.entries.values()))
        e.emit(build.call(2), build.pop())
