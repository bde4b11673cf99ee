"""Conversions: what calling ``bool``, ``int``, ``float``, ``complex``, ``str``, ``bytes`` and ``reversed`` gives."""

from __future__ import annotations

import types

import torch

from capture.errors import NotConstant, Unsupported

from . import iterators
from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant
from .deques import Deque, ReversedDequeIterator
from .handlers import handles
from .lookups import MISSING, class_lookup, shown_type
from .mapping_views import DictView, ReversedDictIterator
from .mappings import Dict
from .named_tuples import NamedTuple
from .numbers import Symbolic
from .objects import Object
from .sequences import List, Sequence, Tuple
from .slices import Range
from .tensors import Tensor


@handles(bool)
def _bool(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if not args:
        return Constant(False)
    value = args[0].realize(m)
    if isinstance(value, Symbolic) and value.python_type() is bool:
        return value
    number = value.as_number(m, bool)
    if number is not None:
        return number
    return Constant(m.operators.truth(value))


def _number(cls: type) -> None:
    @handles(cls)
    def convert(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        if not args and not kwargs:
            return Constant(cls())
        if not args:
            return Constant(m.builder.fold(cls, [], {k: m.builder.to_python(v) for k, v in kwargs.items()}))
        value = args[0].realize(m)
        if isinstance(value, Tensor) and cls is complex:
            raise Unsupported("complex() of a tensor's value")
        number = None if len(args) > 1 or kwargs else value.as_number(m, cls)
        if number is not None:
            return number
        if isinstance(value, Symbolic):
            if value.python_type() is cls:
                return value
            function = {(float, int): torch.sym_float, (int, float): torch.sym_int}.get((cls, value.python_type()))
            if function is not None:
                with m.modes.silent():
                    return m.recorder.record("call_function", function, [value], {})
            value = Constant(value.specialise(m))
        if isinstance(value, Object) and len(args) == 1 and not kwargs:
            found = _of_object(m, value, cls)
            if found is not None:
                return found
        try:
            real = [m.builder.to_python(a) for a in [value, *args[1:]]]
            named = {k: m.builder.to_python(v) for k, v in kwargs.items()}
        except NotConstant:
            raise Unsupported(f"{cls.__name__}() of {value!r}") from None
        return Constant(m.builder.fold(cls, real, named))


#: The methods that say what number an object is, in the order in which they are asked.
_ASKED: dict[type, tuple[str, ...]] = {
    int: ("__int__", "__index__", "__trunc__"),
    float: ("__float__", "__index__"),
    complex: ("__complex__", "__float__", "__index__"),
}
#: What they must give, where that is no integer.
_ANSWERED: dict[str, type] = {"__complex__": complex, "__float__": float}


def _of_object(m: Interpreter, value: Object, cls: type) -> Variable | None:
    """What an object says that it is as a number; None if it has no word in it."""
    for method in _ASKED[cls]:
        found = value.call_special(m, method, [])
        if found is None:
            continue
        if method == "__trunc__":
            raise Unsupported("int() by __trunc__, of which Python warns")
        found = m.operators.answer(found, _ANSWERED.get(method, int), method)
        if isinstance(found, Object) or found.python_type() not in (cls, int, bool, float):
            raise Unsupported(f"{cls.__name__}() of what {method} gives no number for")
        if found.python_type() is cls:
            return found
        if method == "__int__" or (method == "__float__" and found.python_type() is not float):
            raise Unsupported(f"{cls.__name__}() of what {method} gives another number for")
        return m.calls.call(m.builder.known(cls), [found], {})
    return None


_number(int)
_number(float)
_number(complex)


@handles(str)
def _str(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if not args and not kwargs:
        return Constant("")
    if len(args) != 1 or kwargs:
        given = {k: m.builder.to_python(v) for k, v in kwargs.items()}
        return Constant(m.builder.fold(str, [m.builder.to_python(a) for a in args], given))
    return m.operators.text(args[0])


@handles(bytes)
def _bytes(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    real = args[0].realize(m) if len(args) == 1 and not kwargs else None
    if isinstance(real, Object):
        found = real.call_special(m, "__bytes__", [])
        if found is not None:
            return m.operators.answer(found, bytes, "__bytes__")
    given = {k: m.builder.to_python(v) for k, v in kwargs.items()}
    return Constant(m.builder.fold(bytes, [m.builder.to_python(a) for a in args], given))


def _sequence_of(m: Interpreter, value: Variable) -> Variable:
    """A list or tuple with the elements of any iterable."""
    real = value.realize(m)
    return real if isinstance(real, Sequence) else m.effects.created(List(m.iteration.elements(real)))


@handles(reversed)
def _reversed(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    value = args[0].realize(m)
    cls = value.python_type()
    reverses, item, length = (class_lookup(m, cls, name)[0] for name in ("__reversed__", "__getitem__", "__len__"))
    if reverses is MISSING and length is MISSING and isinstance(item, types.FunctionType):
        m.errors.throw(TypeError, f"object of type {shown_type(cls)!r} has no len()")
    if reverses is MISSING and MISSING in (item, length):
        m.errors.throw(TypeError, f"{shown_type(cls)!r} object is not reversible")
    if isinstance(value, Tensor):
        return value.method(m, "__reversed__", [], {})
    if isinstance(value, Object):
        found = value.special(m, "__reversed__")
        if found is not None and value.payload is None:
            return m.calls.call(found, [], {})
    if type(value) in (List, Tuple, NamedTuple):
        return m.effects.created(iterators.ReversedIterator(value))
    if isinstance(value, Deque):
        return m.effects.created(ReversedDequeIterator(value))
    if isinstance(value, Range):
        return m.effects.created(iterators.RangeIterator(value.value[::-1]))
    if isinstance(value, Object) and value.payload is None:
        size = m.operators.index(value.length(m))
        return m.effects.created(iterators.ItemIterator(value, size - 1, -1))
    if isinstance(value, (Dict, DictView)):
        owner, kind = (value, "keys") if isinstance(value, Dict) else (value.owner, value.kind)
        return m.effects.created(ReversedDictIterator(m, owner, kind))
    listed = _sequence_of(m, value)
    assert isinstance(listed, Sequence)
    return m.effects.created(iterators.Computed(m.builder.new_tuple(list(reversed(listed.items))), reversed))


# operator's callable objects
