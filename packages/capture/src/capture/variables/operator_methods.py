"""The methods behind the operators, called by name on built-in values: `[1].__eq__(x)` asks that method alone, and may give NotImplemented.

Whether a method takes an operand is a matter of the two classes, and the interpreter itself is asked: by an empty value of each.
"""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Callable
from typing import Any

import torch

from capture.errors import Unsupported

from .base import Interpreter, Variable
from .lookups import C_METHODS, MISSING, can_iterate, class_lookup, entry_of, has_entry, is_among, shown_type
from .operations import BINARY, COMPARE, INPLACE

Asked = Callable[[Interpreter, Variable, Variable], Variable]


def _left(symbol: str) -> Asked:
    return lambda m, v, x: m.operators.binary(symbol, v, x)


def _right(symbol: str) -> Asked:
    return lambda m, v, x: m.operators.binary(symbol, x, v)


def _assigned(symbol: str) -> Asked:
    return lambda m, v, x: m.operators.inplace(symbol, v, x)


def _compared(symbol: str) -> Asked:
    return lambda m, v, x: m.operators.compare(symbol, v, x)


def _divided(m: Interpreter, v: Variable, x: Variable) -> Variable:
    return m.calls.call(m.builder.known(divmod), [v, x], {})


#: By name: what does the same as an operator, and the other operand's method that the operator would ask as well.
OPERATOR_METHODS: dict[str, tuple[Asked, str]] = {
    "__divmod__": (_divided, "__rdivmod__"),
    "__rdivmod__": ((lambda m, v, x: _divided(m, x, v)), "__divmod__"),
    **{f"__{name}__": (_left(symbol), f"__r{name}__") for symbol, (_, name) in BINARY.items()},
    **{f"__r{name}__": (_right(symbol), f"__{name}__") for symbol, (_, name) in BINARY.items()},
    **{f"__i{name}__": (_assigned(symbol + "="), f"__r{name}__") for symbol, (_, name) in BINARY.items()},
    **{name: (_compared(symbol), reflected) for symbol, (_, name, reflected) in COMPARE.items()},
}
#: Those that take what can be iterated over, and a text's ``%``: no class says whether they take its objects.
_ASK_FOR_MORE = frozenset(
    {"__mod__", "__rmod__", *(f"__{function.__name__}__" for function in INPLACE.values())} - {"__imul__"}
)

_VIEWS: tuple[Callable[[], Any], ...] = ({}.keys, {}.values, {}.items)
#: What stands for a value, by the class that code in C takes it for.
_STAND_INS: dict[type, Callable[[], Any]] = {
    object: object, type(None): type(None),
    **{
        cls: cls
        for cls in (
            list, tuple, dict, set, frozenset, str, bytes, bytearray, collections.deque, collections.OrderedDict,
            collections.defaultdict, torch.Size,
        )
    },
    **{type(number): functools.partial(type(number), 1) for number in (1, True, 1.0, 1j)},
    **{type(view()): view for view in _VIEWS},
}  # fmt: skip


#: Those that sequences have for themselves: operators ask them when all other methods of both operands are asked.
_OF_SEQUENCES = frozenset({"__add__", "__mul__", "__rmul__", "__iadd__", "__imul__"})
_COUNTS = frozenset({"__mul__", "__rmul__", "__imul__"})


def _base(cls: type) -> type:
    """What code in C takes an object of a class for."""
    return next(base for base in cls.__mro__ if base in _STAND_INS)


def _named_alike(cls: type) -> Any:
    """A value that methods in C name like those of a class, and take for what they take those for."""
    base = _base(cls)
    if cls is base:
        return _STAND_INS[cls]()
    return type(shown_type(cls), (base,), {})()


@functools.cache
def _takes(method: Any, base: type) -> bool | None:
    """Whether a method takes operands of a class: False where it gives NotImplemented, None where it raises `TypeError`."""
    try:
        return method(_STAND_INS[method.__objclass__](), _STAND_INS[base]()) is not NotImplemented
    except TypeError:
        return None


def _method(cls: type, name: str) -> Any:
    """The method in C that a class has under a name, if it is one of those that are asked by empty values."""
    found = entry_of(cls, name)
    is_known = isinstance(found, types.WrapperDescriptorType) and found.__objclass__ in _STAND_INS
    return found if is_known else None


def takes(cls: type, name: str, other: type) -> bool:
    """Whether a class has a method in C that is known to take operands of another."""
    method = _method(cls, name)
    return method is not None and _takes(method, _base(other)) is True


def is_of_sequences(cls: type, name: str) -> bool:
    """Whether a class has a method in C that operators ask last.

    One of the program's that writes its counterpart is asked for both in their turn, and for `+=` all but the built-in types themselves are.
    """
    method = _method(cls, name) if name in _OF_SEQUENCES else None
    if method is None or _takes(method, object) is not None:
        return False
    own = cls.__mro__[: cls.__mro__.index(_base(cls))]
    return not own or (name != "__iadd__" and not any(_counterpart(name) in vars(each) for each in own))


def _counterpart(name: str) -> str:
    """The method that is the other half of what an operator asks a class for; of an assignment, there is none."""
    return name if name.startswith("__i") else OPERATOR_METHODS[name][1]


def operator_method(m: Interpreter, name: str, owner: Variable, other: Variable) -> Variable:
    """``owner.__name__(other)`` of a built-in value; raises in the program what its method raises."""
    ask, reflected = OPERATOR_METHODS[name]
    cls = other.python_type()
    method = _method(owner.python_type(), name)
    if method is None:
        return ask(m, owner, other)
    taken = _takes(method, _base(cls))
    if method.__objclass__ is object and name in ("__eq__", "__ne__") and m.operators.is_(owner, other):
        return m.builder.from_python(name == "__eq__")
    if taken is False:
        return m.builder.from_python(NotImplemented)
    if taken is None and not _asks_for_more(name, cls):
        m.builder.fold(method, [_named_alike(method.__objclass__), _named_alike(cls)])
    part = other.payload if taken and name not in _ASK_FOR_MORE else None
    if part is not None and not isinstance(class_lookup(m, cls, "__iter__")[0], _PLAIN):
        raise Unsupported(f"{name} with an operand that iterates in its own way")
    if _has_a_say(m, method, cls if part is None else part.python_type(), reflected):
        raise Unsupported(f"{name} by name, with an operand that an operator would ask as well")
    return ask(m, owner, part or other)


_PLAIN = (*C_METHODS, type(MISSING))


def _asks_for_more(name: str, cls: type) -> bool:
    """Whether a method that refuses an empty object of its own kind takes one that can be iterated over, or counts."""
    if name in _ASK_FOR_MORE or (name in _COUNTS and has_entry(cls, "__index__")):
        return True
    return name not in _OF_SEQUENCES and can_iterate(cls)  # of views


def _has_a_say(m: Interpreter, method: Any, cls: type, name: str) -> bool:
    """Whether an operator would ask the other operand as well, for an answer of its own."""
    found: Any = class_lookup(m, cls, name)[0]
    if found is MISSING:
        return False
    if not isinstance(found, C_METHODS):
        return True
    owner, asked_first = method.__objclass__, method.__name__ == f"__r{name[2:]}"
    made_for = getattr(found, "__objclass__", None)
    if made_for is owner or made_for not in _STAND_INS:
        return False
    return (asked_first and _takes(found, owner) is not False) or (not asked_first and is_among(owner, cls.__mro__))
