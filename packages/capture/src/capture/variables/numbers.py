"""Symbolic numbers: an integer, float or bool that depends on dynamic sizes, with the graph node that computes it."""

from __future__ import annotations

import cmath
import math
import operator
import sys
import types
from collections.abc import Collection, Hashable, Iterable
from typing import Any

import torch
from torch import fx

from capture.errors import NotConstant
from symshapes import is_unbacked, number_function

from .base import Args, Interpreter, Kwargs, Variable
from .constants import BoundBuiltin, Constant
from .handlers import Fold, handles
from .lookups import shown_type
from .operations import UNARY
from .operator_methods import OPERATOR_METHODS, operator_method
from .reconstruction import CannotReconstruct, Emitter

_PYTHON_TYPES = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}

_UNARY = {name: symbol for symbol, (_, name) in UNARY.items()}

#: With so many keys an integer is compared one by one; among more it is looked up as the number that it is.
_FEW_KEYS = 16


#: Of integers of as many decimal digits, 3 bits each, none is refused its text.
_MOST_BITS = 3 * sys.int_info.str_digits_check_threshold


def is_written(number: int) -> bool:
    """Whether an integer has a text, as graphs and conditions need it, whatever the limit that the program sets."""
    return number.bit_length() <= _MOST_BITS


class Symbolic(Variable):
    """``value`` is a ``torch.SymInt``, ``SymFloat`` or ``SymBool``; ``node`` computes it in the graph."""

    holds_nothing = True

    node: fx.Node

    def __init__(self, node: fx.Node, value: Any) -> None:
        self.node = node
        self.value = value
        #: What it is, once that is guarded.
        self.known: Any = None

    def python_type(self) -> type:
        return _PYTHON_TYPES[type(self.value)]

    def as_python(self, m: Interpreter) -> Any:
        if self.known is None and is_unbacked(self.value):
            raise NotConstant(self)
        return self.specialise(m) if self.known is None else self.known

    def truth(self, m: Interpreter) -> bool:
        condition = self.value if self.python_type() is bool else self.value != self.python_type()()
        told = m.recorder.decide(condition) if is_unbacked(condition) else None
        return bool(condition) if told is None else told

    def specialise(self, m: Interpreter) -> Any:
        """The number itself, guarded to stay so."""
        self.known = self.python_type()(self.value)
        return self.known

    def settle(self, m: Interpreter, seen: set[int]) -> None:
        self.specialise(m)

    def may_be_among(self, m: Interpreter, keys: Collection[Hashable]) -> bool:
        if self.known is not None or self.python_type() is not int or is_unbacked(self.value) or len(keys) > _FEW_KEYS:
            return True
        return any(bool(self.value == key) for key in keys if isinstance(key, (int, float)))

    def hash_key(self, m: Interpreter) -> Hashable:
        key: Hashable = self.specialise(m)
        return key

    def attribute(self, m: Interpreter, name: str) -> Variable:
        cls = self.python_type()
        if name == "__class__":
            return m.builder.known(cls)
        if not hasattr(cls, name):
            m.errors.throw(AttributeError, f"{shown_type(cls)!r} object has no attribute {name!r}")
        if callable(getattr(cls, name)):
            return BoundBuiltin(self, name)
        if name in ("real", "numerator") and cls is not bool:
            return self
        if name in ("imag", "denominator"):
            return Constant(getattr(cls(), name))
        return Constant(self.specialise(m)).attribute(m, name)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        cls = self.python_type()
        found = None if kwargs else self.special(m, name, [a.realize(m) for a in args])
        if found is not None:
            return found
        function = number_function(getattr(cls, name))
        if function is not None and cls is not bool and not args and not kwargs:
            return m.recorder.record("call_function", function, [self], {})
        seen: set[int] = set()
        for value in (*args, *kwargs.values()):
            value.realize(m).settle(m, seen)
        return Constant(self.specialise(m)).method(m, name, args, kwargs)

    def special(self, m: Interpreter, name: str, args: Args) -> Variable | None:
        """What a special method gives where it is an operator or a conversion; None if it is neither."""
        cls = self.python_type()
        if len(args) == 1 and name in OPERATOR_METHODS and cls is not bool:
            return operator_method(m, name, self, args[0])
        if args:
            return None
        if name in _UNARY:
            return m.operators.unary(_UNARY[name], self)
        if name == "__bool__":
            return Constant(m.operators.truth(self))
        conversion = _CONVERSIONS.get(name)
        return None if conversion is None else m.calls.call(m.builder.known(conversion), [self], {})

    def made_of(self) -> Iterable[Variable]:
        return ()

    def reconstruct(self, e: Emitter) -> None:
        raise CannotReconstruct(self, "a graph result that was not planned")

    def as_argument(self, m: Interpreter) -> tuple[Any, Any]:
        return self.node, self.value

    def __repr__(self) -> str:
        return f"<symbolic {self.value}>"


#: Special methods without arguments that a function of the language asks for.
_CONVERSIONS: dict[str, Any] = {
    "__int__": int,
    "__index__": operator.index,
    "__float__": float,
    "__round__": round,
    "__floor__": math.floor,
    "__ceil__": math.ceil,
    "__trunc__": math.trunc,
    "conjugate": operator.pos,
}


class NumberFunction(Fold):
    """The handler of a function of numbers, of Python's: recorded where an argument is symbolic, if there is one that computes
    the same of those; of what is known it is called for real."""

    def __call__(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        real = [a.realize(m) for a in args]
        symbolic = any(isinstance(a, Symbolic) for a in real)
        if symbolic and not kwargs and all(map(is_any_number, real)):
            if self.function in _TO_INT and all(a.python_type() is not float for a in real):
                return m.calls.call(m.builder.known(int), args, {})
            if self.function in _TO_INT:
                return m.recorder.record("call_function", self.function, real, {})
            function = number_function(self.function)
            if function is not None:
                return m.recorder.record("call_function", function, real, {})
        own = _METHODS.get(self.function)
        looks_up: Any = getattr(real[0], "special", None) if own is not None and len(real) == 1 else None
        found = None if looks_up is None else looks_up(m, own)
        if found is not None:
            return m.calls.call(found, [], {})
        return super().__call__(m, args, kwargs)


_TO_INT = (math.floor, math.ceil, math.trunc)
#: What a class of the program's own says of them.
_METHODS: dict[Any, str] = {math.floor: "__floor__", math.ceil: "__ceil__", math.trunc: "__trunc__"}


def is_number(value: Variable) -> bool:
    """Whether it is a known int, float or bool."""
    return isinstance(value, Constant) and isinstance(value.value, (int, float))


def is_any_number(value: Variable) -> bool:
    """Whether it is a number, known or symbolic."""
    return isinstance(value, Symbolic) or is_number(value)


def total(m: Interpreter, name: str, values: list[Variable]) -> Variable | None:
    """A function of all of some numbers (a name as in `symshapes.number_function`), if all are, and one is symbolic."""
    if not any(isinstance(v, Symbolic) for v in values) or not all(map(is_any_number, values)):
        return None
    return m.recorder.record("call_function", number_function(name), values, {})


for _module in (math, cmath):
    for _function in vars(_module).values():
        if isinstance(_function, types.BuiltinFunctionType) and _function not in (math.prod, math.fsum):
            # Their arguments are numbers or small containers of numbers; the modules have no state.
            handles(_function)(NumberFunction(_function))


@handles(math.fsum)
def _fsum(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if len(args) == 1 and not kwargs:
        found = total(m, "ExactSum", [v.realize(m) for v in m.iteration.elements(args[0])])
        if found is not None:
            return found
    return Fold(math.fsum)(m, args, kwargs)


@handles(math.prod)
def _prod(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    result = kwargs.get("start", Constant(1))
    for value in m.iteration.each(args[0]):
        result = m.operators.binary("*", result, value)
    return result
