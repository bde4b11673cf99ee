"""Python's functions of numbers as opaque functions, so that nothing is reordered: a symbolic float rounds exactly as Python's would.

Flows in: sympy expressions. Flows out: applications that fold only when all their arguments are constants.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import sympy
from sympy import Expr, Function, Integer

from symshapes.expr.functions import as_expr


class FloatFunction(Function):
    """A function of floats and ints that yields a float; `compute` is its Python meaning, `text` Python's word.

    Python's word is called with the arguments, or if `packed` with one tuple of them.
    """

    is_commutative = True
    is_real = True
    compute: Callable[..., Any]
    text: str
    packed = False

    def __new__(cls, *args: Any, **_: Any) -> Expr:
        exprs = [as_expr(arg) for arg in args]
        if all(map(is_number, exprs)):
            return constant(cls.compute(*map(number_of, exprs)))
        return Expr.__new__(cls, *exprs)


class IntFunction(FloatFunction):
    """A function of floats and ints that yields an int; one that yields a bool is 1 or 0."""

    is_integer = True


def is_int(expr: Expr) -> bool:
    """Whether an expression is an int to Python. sympy's `is_integer` would deduce it, at a hundred times the cost.

    Sums, products, divisions and so on are only ever built of ints: floats have their own functions.
    """
    if expr.is_Symbol:
        return bool(expr.is_integer)
    if isinstance(expr, FloatFunction):
        return isinstance(expr, IntFunction)
    return not expr.is_Float


def is_number(expr: Expr) -> bool:
    """Whether an expression is a constant, whose Python number `number_of` gives."""
    return bool(expr.is_Number) or _is_negative_zero(expr)


def _is_negative_zero(expr: Expr) -> bool:
    return isinstance(expr, FloatFunction) and expr.text == "-" and len(expr.args) == 1 and bool(expr.args[0].is_zero)


def number_of(expr: Expr) -> int | float:
    """The Python number of a constant."""
    if expr.is_Integer:
        return int(expr)
    return -0.0 if _is_negative_zero(expr) else float(expr)


def constant(value: int | float) -> Expr:
    """A Python number as a constant; a float keeps all its 53 bits, and a zero its sign, which sympy's floats have not."""
    if isinstance(value, int):
        return Integer(value)
    return _float(value, math.copysign(1, value) < 0)


@lru_cache(maxsize=1 << 12)
def _float(value: float, negative: bool) -> Expr:
    if value == 0 and negative:
        return Expr.__new__(FLOAT_FUNCTIONS["FloatNeg"], sympy.Float(0.0))
    return sympy.Float(value, 17 if math.isfinite(value) else 15)


Computation = Callable[..., Any]

_MATH = (
    "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "tanh", "asinh", "acosh", "atanh", "atan2", "erf", "erfc", "gamma", "lgamma", "degrees", "radians", "fabs", "hypot", "fmod",
    "remainder", "copysign", "ldexp",
)  # fmt: skip
"""Functions of the module `math` that give a float."""
_MATH_INT = ("gcd", "lcm", "isqrt", "comb", "perm", "factorial", "isnan", "isinf", "isfinite")
"""Those that give an int, or a bool."""

# name: (Python's function or operator sign, what it computes)
_FLOAT: dict[str, tuple[str, Computation]] = {
    "ToFloat": ("float", float),
    "FloatAdd": ("+", operator.add),
    "FloatSub": ("-", operator.sub),
    "FloatMul": ("*", operator.mul),
    "FloatDiv": ("/", operator.truediv),
    "IntTrueDiv": ("/", operator.truediv),
    "FloatPow": ("pow", operator.pow),
    "FloatMod": ("operator.mod", operator.mod),
    "FloatFloorDiv": ("operator.floordiv", operator.floordiv),
    "FloatNeg": ("-", operator.neg),
    "FloatAbs": ("abs", abs),
    "FloatMax": ("max", lambda a, b: float(max(a, b))),
    "FloatMin": ("min", lambda a, b: float(min(a, b))),
    "FloatRoundTo": ("round", round),
    "FloatSum": ("sum", lambda *numbers: sum(numbers)),  # of which CPython 3.12 and later carry what rounding loses
    "ExactSum": ("math.fsum", lambda *numbers: math.fsum(numbers)),
    "MathPow": ("math.pow", math.pow),
    **{name.capitalize(): (f"math.{name}", getattr(math, name)) for name in _MATH},
}
_INT: dict[str, tuple[str, Computation]] = {
    "FloatFloor": ("math.floor", math.floor),
    "FloatCeil": ("math.ceil", math.ceil),
    "FloatTrunc": ("math.trunc", math.trunc),
    "FloatRound": ("round", round),
    "FloatIsInteger": ("float.is_integer", float.is_integer),
    "IsReal": ("isinstance", lambda value: isinstance(value, (int, float))),
    "IntRoundTo": ("round", round),
    "IntPow": ("pow", operator.pow),
    "IntPowMod": ("pow", pow),
    "BitAnd": ("operator.and_", operator.and_),
    "BitOr": ("operator.or_", operator.or_),
    "BitXor": ("operator.xor", operator.xor),
    "LShift": ("operator.lshift", operator.lshift),
    "RShift": ("operator.rshift", operator.rshift),
    "BitLength": ("int.bit_length", int.bit_length),
    "BitCount": ("int.bit_count", int.bit_count),
    **{name.capitalize(): (f"math.{name}", getattr(math, name)) for name in _MATH_INT},
}
_PACKED = frozenset({"FloatSum", "ExactSum"})


def text_of(name: str) -> str:
    """Python's word for a function of `FLOAT_FUNCTIONS`."""
    return (_FLOAT.get(name) or _INT[name])[0]


def computation(name: str) -> Computation:
    """What a function of `FLOAT_FUNCTIONS` computes, under a name that can stand in a graph."""
    compute = (_FLOAT.get(name) or _INT[name])[1]
    return _named(name, compute, whole=name in _INT) if name in _INT or compute.__name__ == "<lambda>" else compute


def _named(name: str, compute: Computation, *, whole: bool) -> Computation:
    """The same under a name that can stand in a graph; a bool becomes an int where it is to be whole."""

    def computed(*numbers: Any) -> Any:
        return int(compute(*numbers)) if whole else compute(*numbers)

    computed.__name__ = computed.__qualname__ = name
    return computed


class _Functions(Mapping[str, type[FloatFunction]]):
    """Made as they are asked for: sympy works on each class for a tenth of a millisecond, and few programs have one."""

    def __init__(self) -> None:
        self._made: dict[str, type[FloatFunction]] = {}

    def __getitem__(self, name: str) -> type[FloatFunction]:
        made = self._made.get(name)
        if made is None:
            members = {
                "compute": staticmethod(computation(name)),
                "text": text_of(name),
                "packed": name in _PACKED,
                "__module__": __name__,
            }
            base = IntFunction if name in _INT else FloatFunction
            # Another thread may have made it meanwhile: there is one.
            made = self._made.setdefault(name, type(name, (base,), members))
        return made

    def __iter__(self) -> Iterator[str]:
        yield from _FLOAT
        yield from _INT

    def __len__(self) -> int:
        return len(_FLOAT) + len(_INT)

    def __contains__(self, name: object) -> bool:
        return name in _FLOAT or name in _INT


FLOAT_FUNCTIONS: Mapping[str, type[FloatFunction]] = _Functions()
"""By name: `FloatAdd`, `IntTrueDiv`, `FloatFloor`..."""
