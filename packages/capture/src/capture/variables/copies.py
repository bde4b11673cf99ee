"""``copy``: shallow and deep copies, by what ``object.__reduce_ex__`` and the program's own methods make of them."""

from __future__ import annotations

import collections
import copy
import copyreg
import enum
import types
from collections.abc import Hashable
from typing import Any

from capture.errors import Unsupported
from capture.guards import GuardKind
from capture.sources import Const
from capture.trace_rules import module_of

from .base import Args, Interpreter, Kwargs, SymbolicRaise, Variable
from .constants import BoundBuiltin, Constant, Known
from .copied_tensors import copy_of_tensor, deep_copy_of_tensor
from .functions import Function
from .handlers import handles
from .instances import InstanceDict
from .lookups import C_METHODS, MISSING, check_as_found, class_lookup, made_by_object
from .mappings import Dict
from .objects import Object
from .sequences import InputList, List, Tuple
from .sets import Set
from .tensors import Tensor


def _check_reads(m: Interpreter, value: Object) -> None:
    """What makes a copy is read as any attribute is: a class that reads them in its own way may refuse."""
    if isinstance(class_lookup(m, value.cls, "__getattribute__")[0], C_METHODS):
        return
    for name in ("__reduce_ex__", "__reduce__"):
        try:
            value.attribute(m, name)
        except SymbolicRaise as refused:
            raise Unsupported(f"a copy of {value!r}, whose attributes are read in its own way") from refused


def _check_attributes(m: Interpreter, value: Variable) -> None:
    """Raises ``Unsupported`` for a dictionary with attributes of its own, which a copy has, too; guards that one from outside has none."""
    if not isinstance(value, Dict) or value.cls is not collections.OrderedDict:
        return
    if value.attrs or (value.source is not None and not _has_none(m.builder.outside(value))):
        raise Unsupported("a copy of a dictionary with attributes of its own")
    if value.source is not None:
        m.guards.predicate(value, _has_none, "{} has no attributes of its own")


def _has_none(dictionary: Any) -> bool:
    return not vars(dictionary)


@handles(copy.copy)
def _copy(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    value = args[0].realize(m)
    if isinstance(value, (Constant, Tuple)):
        return value
    _check_attributes(m, value)
    if isinstance(value, (List, Dict, Set)):
        return value if value.python_type() is frozenset else value.method(m, "copy", [], {})
    if isinstance(value, Object):
        _check_reads(m, value)
        own = class_lookup(m, value.cls, "__copy__")[0]
        if isinstance(own, types.FunctionType):
            return m.calls.call(m.builder.class_attribute(own), [value], {})
        if own is MISSING:
            state = _state(m, value)
            return _with_state(m, _new(m, value.cls), state)
    if isinstance(value, Tensor):
        if value.has_own(m, "__copy__"):
            return m.calls.call(value.attribute(m, "__copy__"), [], {})
        return copy_of_tensor(m, value)
    raise Unsupported(f"copy of {value!r}")


@handles(copy.deepcopy)
def _deepcopy(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    named = dict(zip(("x", "memo"), args, strict=False)) | kwargs
    memo = named["memo"].realize(m) if "memo" in named else Constant(None)
    if not isinstance(memo, Memo) and not m.builder.is_none(memo):
        raise Unsupported("copy.deepcopy with a memo of the program's own")
    return _deep(m, named["x"], memo if isinstance(memo, Memo) else m.effects.created(Memo({})))


class Memo(Dict):
    """What ``copy.deepcopy`` hands to the program's ``__deepcopy__``, which hands it on: what was copied already."""

    def __init__(self, entries: dict[Hashable, tuple[Variable, Variable]]) -> None:
        super().__init__(entries)
        self.copies: dict[int, Variable] = {}
        #: The originals, which live on while their ids are in use; tensors by themselves.
        self.originals: list[Variable] = []
        self.tensors: list[Variable] = []

    def put(self, original: Variable, made: Variable) -> Variable:
        """Note a copy."""
        self.originals.append(original)
        self.copies[id(original)] = made
        return made


def _deep_copy_of_known(m: Interpreter, value: Known) -> Variable:
    """Itself, or what ``copy`` raises for it; what the program says of it is not run ahead."""
    own = class_lookup(m, type(value.value), "__deepcopy__")[0]
    if isinstance(own, types.FunctionType) and module_of(own) != enum.__name__:
        raise Unsupported(f"deep copy of {value!r}")
    if m.builder.fold(copy.deepcopy, [value.value]) is not value.value:
        raise Unsupported(f"deep copy of {value!r}")
    return value


def _deep(m: Interpreter, value: Variable, memo: Memo) -> Variable:
    """The deep copy of anything; objects met twice are copied once."""
    value = value.realize(m)
    if isinstance(value, (Constant, Function)):
        return value
    if isinstance(value, Known):
        return _deep_copy_of_known(m, value)
    if id(value) in memo.copies:
        return memo.copies[id(value)]
    if isinstance(value, Tensor):
        if value.has_own(m, "__deepcopy__"):
            return memo.put(value, m.calls.call(value.attribute(m, "__deepcopy__"), [memo], {}).realize(m))
        value.check_operator(m, "__deepcopy__")
        return memo.put(value, deep_copy_of_tensor(m, value, memo.tensors))
    if isinstance(value, List) and type(value) in (List, InputList):
        made_list: List = m.effects.created(List([], value.cls))
        memo.put(value, made_list)
        made_list.items.extend(_deep(m, x, memo) for x in list(value.items))
        return made_list
    if type(value) is Tuple and value.cls is tuple:
        return _deep_copy_of_tuple(m, value, memo)
    if isinstance(value, InstanceDict):
        value = value.as_dict(m)
    _check_attributes(m, value)
    if isinstance(value, Dict) and value.factory is None:
        copied: Dict = m.effects.created(Dict({}, value.cls))
        memo.put(value, copied)
        for hashed, (key, content) in value.whole(m).items():
            if not isinstance(key.realize(m), (Constant, Known)):
                raise Unsupported("deep copy of a dictionary's keys")
            copied.entries[hashed] = (key, _deep(m, content, memo))
        return copied
    if isinstance(value, Set):
        order = value.known_order()  # in which it is gone through, whatever gave it that
        if order is None:
            raise Unsupported("deep copy of a set, whose order is not known")
        return memo.put(value, Set.of(m, [_deep(m, x, memo) for x in order], value.cls, in_order=True))
    if type(value) is Object:
        return _deep_copy_of_object(m, value, memo)
    raise Unsupported(f"deep copy of {value!r}")


def _deep_copy_of_tuple(m: Interpreter, value: Tuple, memo: Memo) -> Variable:
    """Itself, if nothing in it was copied."""
    items = [_deep(m, x, memo) for x in value.items]
    if id(value) in memo.copies:  # it holds itself
        return memo.copies[id(value)]
    if all(new is old.realize(m) for new, old in zip(items, value.items, strict=True)):
        return memo.put(value, value)
    return memo.put(value, m.builder.new_tuple(items))


def _deep_copy_of_object(m: Interpreter, value: Object, memo: Memo) -> Variable:
    """By its own method, or of what it holds."""
    own = _asked(m, value, "__deepcopy__")
    if own is not None:
        return memo.put(value, m.calls.call(own, [memo], {}).realize(m))
    _check_reads(m, value)
    if _asked(m, value, "__reduce_ex__") is not None:
        raise Unsupported(f"deep copy of {value!r}")
    state = _state(m, value)
    made = _new(m, value.cls)
    memo.put(value, made)
    return _with_state(m, made, {name: _deep(m, content, memo) for name, content in state.items()})


def _asked(m: Interpreter, value: Object, name: str) -> Variable | None:
    """What ``getattr`` finds; None if that is nothing, or ``object``'s own method."""
    try:
        found = value.attribute(m, name).realize(m)
    except SymbolicRaise as raised:
        if not issubclass(raised.exception.python_type(), AttributeError):
            raise
        return None
    by_object = class_lookup(m, value.cls, name)[1] is object
    if by_object and isinstance(found, BoundBuiltin) and found.owner is value and found.name == name:
        return None
    return found


#: What says of a class how objects of it are copied, besides what is asked of each.
_RULES = (
    "__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__", "__getstate__", "__setstate__",
)  # fmt: skip


def _state(m: Interpreter, value: Object) -> dict[str, Variable]:
    """What ``object.__reduce_ex__`` has for a state; raises ``Unsupported`` where something else was said of how it is copied."""
    cls = value.cls
    check_as_found(m, copyreg.dispatch_table)
    by_rule = cls in copyreg.dispatch_table
    if not by_rule:
        m.guards.add(Const(copyreg.dispatch_table, "copyreg.dispatch_table"), GuardKind.NO_KEY, cls)
        found = (class_lookup(m, cls, name) for name in _RULES)
        by_rule = any(raw is not MISSING and owner is not object for raw, owner in found)
        # Abstract classes and mixins say that they have none.
        by_rule |= any(class_lookup(m, base, "__slots__")[0] for base in cls.__mro__ if "__slots__" in vars(base))
    if by_rule or value.payload is not None or not made_by_object(cls) or _asked(m, value, "__getstate__") is not None:
        raise Unsupported(f"copy of {value!r}")
    return InstanceDict(value).snapshot(m)


def _new(m: Interpreter, cls: type) -> Object:
    """``cls.__new__(cls)``."""
    raw, owner = class_lookup(m, cls, "__new__")
    if owner is object:
        return m.effects.created(Object(cls))
    if not isinstance(raw, staticmethod):
        raise Unsupported(f"copy of a {cls.__name__}, whose __new__ is a {type(raw).__name__}")
    made = m.calls.call(m.builder.class_attribute(raw.__func__), [m.builder.known(cls)], {}).realize(m)
    if type(made) is not Object:
        raise Unsupported(f"copy of a {cls.__name__}, whose __new__ gives {made!r}")
    return made


def _with_state(m: Interpreter, made: Object, state: dict[str, Variable]) -> Object:
    """The object with these attributes, past whatever its class makes of setting them."""
    if not state:
        return made
    if _asked(m, made, "__setstate__") is not None:
        raise Unsupported(f"copy of {made!r}")
    attributes = made.attribute(m, "__dict__").realize(m)
    if not isinstance(attributes, InstanceDict):
        raise Unsupported(f"copy of {made!r}, whose __dict__ is {attributes!r}")
    for name, content in state.items():
        attributes.set_item(m, Constant(name), content)
    return made
