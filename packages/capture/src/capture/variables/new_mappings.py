"""Dictionaries that the program makes by calls: ``dict()``, ``OrderedDict()``, ``defaultdict()``, ``fromkeys()``; and what a counter counts."""

from __future__ import annotations

import collections
from typing import Any

from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .building import converts
from .constants import Constant
from .handlers import handles
from .hashing import DICT_KEY, hash_as
from .lookups import is_callable
from .mappings import Dict


@handles(dict)
def _dict(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return _fill(m, m.effects.created(Dict({})), args, kwargs)


@handles(collections.OrderedDict)
def _ordered_dict(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return _fill(m, m.effects.created(Dict({}, collections.OrderedDict)), args, kwargs)


@handles(collections.defaultdict)
def _defaultdict(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    factory = args[0].realize(m) if args else Constant(None)
    if not m.builder.is_none(factory) and not is_callable(m, factory):
        m.errors.throw(TypeError, "first argument must be callable or None")
    made = m.effects.created(Dict({}, collections.defaultdict, factory))
    return _fill(m, made, args[1:], kwargs)


def inherits_from_keys(method: Any) -> bool:
    """Whether a class method is the ``fromkeys`` that a class of dictionaries has from ``dict``."""
    owner = getattr(method, "__self__", None)
    return isinstance(owner, type) and issubclass(owner, dict) and method.__name__ == "fromkeys"


def from_keys(m: Interpreter, cls: type, args: Args, kwargs: Kwargs) -> Variable:
    """``fromkeys`` of a class that inherits it: whatever the class makes is given one item after the other."""
    named = dict(zip(("iterable", "value"), args, strict=False)) | kwargs
    if "iterable" not in named or len(named) != len(args) + len(kwargs):
        raise Unsupported("fromkeys with other than its arguments")
    made = m.calls.call(m.builder.known(cls), [], {}).realize(m)
    for key in m.iteration.each(named["iterable"]):
        made.set_item(m, key.realize(m), named.get("value", Constant(None)))
    return made


@handles(collections._count_elements)  # type: ignore[attr-defined]
def _count_elements(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """What a counter does with an iterable."""
    counts = args[0].realize(m)
    for element in m.iteration.each(args[1]):
        key = element.realize(m)
        before = counts.method(m, "get", [key, Constant(0)], {})
        counts.set_item(m, key, m.operators.binary("+", before, Constant(1)))
    return Constant(None)


def _fromkeys(cls: type) -> None:
    @handles(cls.fromkeys)  # type: ignore[attr-defined]
    def fromkeys(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        named = dict(zip(("iterable", "value"), args, strict=False)) | kwargs
        if "iterable" not in named or len(named) != len(args) + len(kwargs) or (kwargs and cls is dict):
            raise Unsupported("fromkeys with other than its arguments")
        made = Dict({}, cls)
        m.effects.created(made)
        kept = named["iterable"].realize(m).kept_keys(m)
        if kept is not None:
            made.entries.update({k: (key, named.get("value", Constant(None))) for k, key in kept.items()})
            return made
        for key in m.iteration.each(named["iterable"]):
            made.set_item(m, key, named.get("value", Constant(None)))
        return made


def _fill(m: Interpreter, made: Dict, args: Args, kwargs: Kwargs) -> Variable:
    made.update(m, args, kwargs)
    return made


for _cls in (dict, collections.OrderedDict):
    _fromkeys(_cls)


@converts(dict, collections.OrderedDict)
def _convert_dict(m: Interpreter, value: dict[Any, Any]) -> Variable:
    pairs = [(m.builder.from_python(k), m.builder.from_python(v)) for k, v in value.items()]
    return m.effects.created(Dict({hash_as(m, k, DICT_KEY): (k, v) for k, v in pairs}, type(value)))
