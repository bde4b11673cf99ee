"""The built-in functions of the language, and the functions of ``operator`` and ``functools`` with behaviour of their own."""

from __future__ import annotations

import builtins
import functools
import itertools
import operator
import sys
import types
from collections.abc import Callable

import torch

from capture.errors import NotConstant, Unsupported
from symshapes import number_function

from .base import Args, Interpreter, Kwargs, SymbolicRaise, Variable
from .classes import Class
from .constants import BoundBuiltin, Constant, Known
from .enums import EnumMember
from .functions import Function, Method
from .handlers import Fold, Handler, folds, handles, refuses
from .identities import Hashed, Identity, follows_from_ids
from .iterators import CallableIterator, StopIter
from .lookups import (
    C_METHODS,
    MISSING,
    attribute_name,
    can_iterate,
    class_lookup,
    has_entry,
    is_callable,
    shown_type,
)
from .mappings import Dict
from .modules import Module
from .numbers import Symbolic, is_number, total
from .objects import Object
from .operations import BINARY, COMPARE, INPLACE, UNARY
from .own_keys import real_hash
from .partials import Partial
from .sequences import List, Sequence, Tuple
from .set_elements import hashes_as_itself
from .sets import Set
from .tensors import Tensor


@handles(len)
def _len(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return args[0].realize(m).length(m).realize(m)


@handles(iter)
def _iter(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if len(args) == 2:
        if not is_callable(m, args[0].realize(m)):
            m.builder.fold(iter, [None, None])  # raises
        return m.effects.created(CallableIterator(args[0], args[1]))
    return m.iteration.iterate(args[0])


@handles(next)
def _next(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    iterator = args[0].realize(m)
    cls = iterator.python_type()
    if class_lookup(m, cls, "__next__")[0] is MISSING:
        m.errors.throw(TypeError, f"{shown_type(cls)!r} object is not an iterator")
    m.effects.activity += 1
    try:
        return iterator.next(m)
    except StopIter as stop:
        if len(args) > 1:
            return args[1]
        m.errors.throw_value(StopIteration, [] if stop.value is None or m.builder.is_none(stop.value) else [stop.value])


@handles(hasattr)
def _hasattr(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    try:
        args[0].realize(m).attribute(m, attribute_name(m, args[1])).realize(m)
    except SymbolicRaise as raised:
        if issubclass(raised.exception.python_type(), AttributeError):
            return Constant(False)
        raise
    return Constant(True)


@handles(getattr)
def _getattr(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    try:
        return args[0].realize(m).attribute(m, attribute_name(m, args[1])).realize(m)
    except SymbolicRaise as raised:
        if len(args) > 2 and issubclass(raised.exception.python_type(), AttributeError):
            return args[2]
        raise


@handles(setattr)
def _setattr(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    args[0].realize(m).set_attribute(m, attribute_name(m, args[1]), args[2])
    return Constant(None)


@handles(delattr)
def _delattr(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    args[0].realize(m).delete_attribute(m, attribute_name(m, args[1]))
    return Constant(None)


@handles(callable)
def _callable(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    value = args[0].realize(m)
    if isinstance(value, (Function, Method, Partial, BoundBuiltin, Class, Module)):
        return Constant(True)
    if isinstance(value, Object):
        return Constant(class_lookup(m, value.cls, "__call__")[0] is not MISSING)
    if isinstance(value, Known):
        return Constant(class_lookup(m, type(value.value), "__call__")[0] is not MISSING)
    return Constant(class_lookup(m, value.python_type(), "__call__")[0] is not MISSING)


@handles(id)
def _id(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    value = args[0].realize(m)
    if isinstance(value, Module) or (
        isinstance(value, Known) and not isinstance(value, EnumMember) and not value.made_here
    ):
        m.guards.note_identity(value, value.value)
        return Constant(id(value.value))
    if isinstance(value, (Tensor, List, Dict, Set)) or (type(value) is Object and value.payload is None):
        return m.effects.created(Identity(value))
    raise Unsupported("id() of an object")


@handles(hash)
def _hash(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    value = args[0].realize(m)
    if isinstance(value, (Symbolic, Tuple)):
        value.settle(m, set())
    plain = isinstance(value, (Constant, Symbolic)) or (isinstance(value, Tuple) and hashes_as_itself(value))
    if plain and m.builder.is_constant(value):
        real = m.builder.to_python(value)
        if isinstance(real, (float, complex)) and real != real:
            raise Unsupported("hash of a NaN, which is of the object")
        return Constant(m.builder.fold(hash, [real]))
    if isinstance(value, Object) and class_lookup(m, value.cls, "__hash__")[0] is None:
        m.errors.throw(TypeError, f"unhashable type: {shown_type(value.cls)!r}")
    if isinstance(value, Object):
        found = value.special(m, "__hash__")
        if isinstance(found, Method):
            given = m.calls.call(found, [], {}).realize(m)
            return given if given.hashes_by_id else Constant(real_hash(m, given))
    payload = value.payload if isinstance(value, Object) else None
    own = class_lookup(m, value.python_type(), "__hash__")[0]
    if payload is not None and hashes_as_itself(payload) and isinstance(own, C_METHODS):
        return Constant(hash(payload.hash_key(m)))
    if isinstance(value, (List, Dict, Set)):
        value.hash_key(m)  # raises, or is that of a frozen set
    if isinstance(value, Known) and isinstance(value.value, types.UnionType):
        for each in value.value.__args__:
            if not isinstance(class_lookup(m, type(each), "__hash__")[0], C_METHODS):
                raise Unsupported(f"hash of {value!r}")
    if hashes_as_itself(value):
        return Constant(m.builder.fold(hash, [value.hash_key(m)]))
    if value.hashes_by_id:
        return value  # an address, which is its own hash
    if isinstance(value, (Tuple, Set)) and follows_from_ids(value.hash_key(m)):
        return m.effects.created(Hashed(value))
    raise Unsupported(f"hash of {value!r}")


@handles(vars)
def _vars(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if not args:
        raise Unsupported("vars() of the frame")
    try:
        return args[0].realize(m).attribute(m, "__dict__")
    except SymbolicRaise as raised:
        if issubclass(raised.exception.python_type(), AttributeError):
            m.errors.throw(TypeError, "vars() argument must have __dict__ attribute")
        raise


refuses(
    dir, locals, globals, eval, exec, compile, open, input, breakpoint,
    why="call of a built-in with effects outside the graph (open, eval, locals, ...)",
)  # fmt: skip

# Text of a number, and back; numbers of the program's own classes are never known entirely.
folds(bin, oct, hex, chr, ord, int.from_bytes, float.fromhex, bytes.fromhex, str.maketrans, bytes.maketrans)


@handles(any)
def _any(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    iterator = m.iteration.iterate(args[0])
    while True:
        try:
            if m.operators.truth(iterator.next(m)):
                return Constant(True)
        except StopIter:
            return Constant(False)


@handles(all)
def _all(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    iterator = m.iteration.iterate(args[0])
    while True:
        try:
            if not m.operators.truth(iterator.next(m)):
                return Constant(False)
        except StopIter:
            return Constant(True)


def _added_in_turn(m: Interpreter, start: Variable, source: Variable) -> list[Variable]:
    """What is left to add up of what an iterable gives: numbers, of which adding does nothing else, or the sum, made as they come."""
    values = [start]
    for found in m.iteration.each(source):
        values.append(found.realize(m))
        if all(map(is_number, values)) or issubclass(start.python_type(), (str, bytes, bytearray)):
            continue
        result = values[0]
        for each in values[1:]:
            result = m.operators.binary("+", result, each).realize(m)
        values = [result]
    return values


#: Whether a sum of complex numbers carries what rounding loses.
_CARRIES_COMPLEX = sys.version_info >= (3, 14)


@handles(sum)
def _sum(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    start = args[1] if len(args) > 1 else kwargs.get("start", Constant(0))
    source = args[0].realize(m)
    values = [start.realize(m)]
    if type(source) in (List, Tuple):
        values += [v.realize(m) for v in m.iteration.elements(source)]
    else:
        values = _added_in_turn(m, values[0], source)
    if issubclass(values[0].python_type(), (str, bytes, bytearray)):
        m.builder.fold(sum, [[], values[0].python_type()()])  # which it refuses
    kinds = {v.python_type() for v in values}
    if float in kinds or (complex in kinds and _CARRIES_COMPLEX):
        # CPython adds floats its own way: 3.12 and later carry what rounding loses, from 3.14 of complex numbers, too.
        if all(is_number(v) for v in values):
            added = m.builder.fold(sum, [[v.as_python(m) for v in values[1:]], values[0].as_python(m)])
            return m.builder.from_python(added)
        if complex in kinds and _CARRIES_COMPLEX:
            return _sum_of_complex(m, values)
        found = total(m, "FloatSum", values)
        if found is not None:
            return found
    result = values[0]
    for value in values[1:]:
        result = m.operators.binary("+", result, value)
    return result


def _sum_of_complex(m: Interpreter, values: list[Variable]) -> Variable:
    """Numbers are added in their own way as far as there are no others."""
    numbers = list(
        itertools.takewhile(lambda v: is_number(v) or (type(v) is Constant and type(v.value) is complex), values)
    )
    rest = values[len(numbers) :]
    if rest and rest[0].python_type() in (int, float, complex):
        raise Unsupported("sum of complex numbers and others")
    known = [v.as_python(m) for v in numbers]
    result: Variable = m.builder.from_python(m.builder.fold(sum, [known[1:], known[0]])) if known else rest.pop(0)
    for value in rest:
        result = m.operators.binary("+", result, value)
    return result


def _extreme(symbol: str, name: str) -> Callable[[Interpreter, Args, Kwargs], Variable]:
    def choose(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        key = kwargs.get("key")
        if key is not None and m.builder.is_none(key):
            key = None
        best = best_key = None
        for found in m.iteration.each(args[0]) if len(args) == 1 else args:
            value = found.realize(m)
            own = value if key is None else m.calls.call(key, [value], {}).realize(m)
            if best is None or best_key is None:
                best, best_key = value, own
            elif key is None and (isinstance(best, Symbolic) or isinstance(value, Symbolic)):
                best = best_key = _symbolic_extreme(m, symbol, name, best, value)
            elif m.operators.truth(m.operators.compare(symbol, own, best_key)):
                best, best_key = value, own
        if best is None:
            if "default" in kwargs:
                return kwargs["default"]
            m.errors.throw(ValueError, f"{name}() iterable argument is empty")
        return best

    return choose


def _symbolic_extreme(m: Interpreter, symbol: str, name: str, best: Variable, value: Variable) -> Variable:
    """Of two numbers of one type an operation says it without asking; of others, which keep their types, the branch taken is guarded."""
    kinds = {best.python_type(), value.python_type()}
    if kinds == {int}:
        with m.modes.silent():
            return m.recorder.record("call_function", getattr(torch, f"sym_{name}"), [best, value], {})
    if kinds == {float}:
        return m.recorder.record("call_function", number_function(f"Float{name.capitalize()}"), [best, value], {})
    return value if m.operators.truth(m.operators.compare(symbol, value, best)) else best


handles(max)(_extreme(">", "max"))
handles(min)(_extreme("<", "min"))


@handles(sorted)
def _sorted(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(
        List(m.iteration.sort(m.iteration.listed(args[0]), kwargs.get("key"), kwargs.get("reverse")))
    )


@handles(abs)
def _abs(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.operators.unary("abs", args[0])


@handles(round)
def _round(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    value = args[0].realize(m)
    if isinstance(value, Tensor) and not has_entry(value.python_type(), "__round__"):
        m.errors.throw(TypeError, f"type {value.python_type().__name__} doesn't define __round__ method")
    if isinstance(value, Symbolic) and value.python_type() is not bool:
        digits = args[1] if len(args) > 1 else kwargs.get("ndigits", Constant(None))
        to = None if m.builder.is_none(digits) else digits.realize(m)
        if value.python_type() is float and to is None:
            return m.recorder.record("call_function", round, [value], {})
        if to is None or (
            to.python_type() is int and is_number(to) and value.python_type() is int and m.builder.to_python(to) >= 0
        ):
            return value
        if to.python_type() is int:
            function = number_function(f"{value.python_type().__name__.capitalize()}RoundTo")
            return m.recorder.record("call_function", function, [value, to], {})
    if isinstance(value, Object):
        given = args[1:] or list(kwargs.values())
        rounded = value.call_special(m, "__round__", [] if given and m.builder.is_none(given[0]) else given)
        if rounded is not None:
            return rounded
    return Fold(round)(m, args, kwargs)


@handles(pow)
def _pow(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if len(args) == 2 and not kwargs:
        return m.operators.binary("**", args[0], args[1])
    real = [a.realize(m) for a in args]
    if isinstance(real[0], Object) and len(args) == 3 and not kwargs:
        raised = real[0].call_special(m, "__pow__", real[1:])
        if raised is not None and not (isinstance(raised, Constant) and raised.value is NotImplemented):
            return raised
        raise Unsupported("pow() of an object that does not take it")
    if len(args) == 3 and not kwargs and all(v.python_type() is int for v in real):
        found = total(m, "IntPowMod", real)
        if found is not None:
            return found
    return Fold(pow)(m, args, kwargs)


@handles(divmod)
def _divmod(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    left, right = (a.realize(m) for a in args)
    kinds = [each.python_type() for each in (left, right)]
    tensors = isinstance(left, Tensor) or isinstance(right, Tensor)
    if tensors and not any(has_entry(cls, name) for cls in kinds for name in ("__divmod__", "__rdivmod__")):
        shown = " and ".join(repr(shown_type(cls)) for cls in kinds)
        m.errors.throw(TypeError, f"unsupported operand type(s) for divmod(): {shown}")
    if not any(isinstance(each, Symbolic) or each.rules_operators for each in (left, right)):
        return m.operators.binary("divmod()", left, right)
    return m.builder.new_tuple([m.operators.binary("//", args[0], args[1]), m.operators.binary("%", args[0], args[1])])


@handles(repr)
def _repr(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.operators.text(args[0], "repr")


@handles(ascii)
def _ascii(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return as_ascii(m, args[0])


def as_ascii(m: Interpreter, value: Variable) -> Variable:
    """``ascii(value)``: its representation, with all that is not ASCII escaped."""
    text: str = m.builder.to_python(m.operators.text(value, "repr"))
    return Constant(text.encode("ascii", "backslashreplace").decode("ascii"))


@handles(format)
def _format(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    spec = m.builder.to_python(args[1]) if len(args) > 1 else ""
    if not isinstance(spec, str):
        m.builder.fold(format, ["", spec])  # raises, in this version's words
    return m.operators.format(args[0], spec)


@handles(builtins.__import__)
def _import(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    name = m.builder.to_python(args[0])
    if not isinstance(name, str):
        m.builder.fold(builtins.__import__, [None])  # raises, in this version's words
    if len(args) > 1 or kwargs or name not in sys.modules:
        raise Unsupported(f"call of __import__ for {name}")
    m.globals.imported(name)
    return m.globals.imported(name.partition(".")[0])


@handles(functools.reduce)
def _reduce(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if not can_iterate(args[1].realize(m).python_type()):
        m.errors.throw(TypeError, "reduce() arg 2 must support iteration")
    total = args[2] if len(args) > 2 else None
    for value in m.iteration.each(args[1]):
        total = value if total is None else m.calls.call(args[0], [total, value], {})
    if total is None:
        m.errors.throw(TypeError, "reduce() of empty iterable with no initial value")
    return total


# The operator module


def _binary(symbol: str) -> Handler:
    return lambda m, args, kwargs: m.operators.binary(symbol, args[0], args[1])


def _inplace(symbol: str) -> Handler:
    return lambda m, args, kwargs: m.operators.inplace(symbol, args[0], args[1])


def _compare(symbol: str) -> Handler:
    return lambda m, args, kwargs: m.operators.compare(symbol, args[0], args[1])


def _unary(symbol: str) -> Handler:
    return lambda m, args, kwargs: m.operators.unary(symbol, args[0])


def _concatenation(symbol: str, function: Callable[..., object]) -> Handler:
    def join(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        """Of sequences it is ``+``, which those of C join; of others it is an error in its own words."""
        left, right = (a.realize(m) for a in args)
        if isinstance(left, Sequence) and isinstance(right, Sequence):
            return m.operators.inplace(symbol, left, right) if symbol == "+=" else m.operators.binary("+", left, right)
        try:
            real = [m.builder.to_python(left), m.builder.to_python(right)]
        except NotConstant:
            raise Unsupported(f"operator.{function.__name__} of {left!r} and {right!r}") from None
        return m.builder.from_python(m.builder.fold(function, real))

    return join


for _symbol, (_function, _) in BINARY.items():
    handles(_function)(_binary(_symbol))
for _symbol, _changing in INPLACE.items():
    handles(_changing)(_inplace(_symbol))
for _symbol, (_comparing, _, _) in COMPARE.items():
    handles(_comparing)(_compare(_symbol))
for _symbol, (_of_one, _) in UNARY.items():
    handles(_of_one)(_unary(_symbol))
for _symbol, _joining in (("+", operator.concat), ("+=", operator.iconcat)):
    handles(_joining)(_concatenation(_symbol, _joining))
handles(operator.inv)(_unary("~"))
handles(operator.not_)(lambda m, args, kwargs: Constant(not m.operators.truth(args[0])))
handles(operator.truth)(lambda m, args, kwargs: Constant(m.operators.truth(args[0])))
handles(operator.is_)(lambda m, args, kwargs: Constant(m.operators.is_(args[0], args[1])))
handles(operator.is_not)(lambda m, args, kwargs: Constant(not m.operators.is_(args[0], args[1])))
if sys.version_info >= (3, 14):
    handles(operator.is_none)(lambda m, args, kwargs: Constant(m.builder.is_none(args[0])))
    handles(operator.is_not_none)(lambda m, args, kwargs: Constant(not m.builder.is_none(args[0])))
handles(operator.contains)(lambda m, args, kwargs: Constant(args[0].realize(m).contains(m, args[1].realize(m))))
handles(operator.getitem)(lambda m, args, kwargs: args[0].realize(m).item(m, args[1].realize(m)))
handles(operator.call)(lambda m, args, kwargs: m.calls.call(args[0], args[1:], kwargs))
# They ask sequences for their elements; those of known ones compare as they do for real.
folds(operator.countOf, operator.indexOf)


@handles(operator.index)
def _index(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    real = args[0].realize(m)
    if isinstance(real, Symbolic) and real.python_type() is int:
        return real
    return Fold(operator.index)(m, args, kwargs) if isinstance(real, Symbolic) else Constant(m.operators.index(real))


@handles(operator.setitem)
def _setitem(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    args[0].realize(m).set_item(m, args[1].realize(m), args[2])
    return Constant(None)


@handles(operator.delitem)
def _delitem(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    args[0].realize(m).delete_item(m, args[1].realize(m))
    return Constant(None)
