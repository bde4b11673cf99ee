"""Numbers drawn by NumPy's own generator, by `numpy.random.uniform` and its kin: drawn after the graph ran, in order, as those of `random` are.

Of arrays of them the values would be looked at: they are drawn for real.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from capture.errors import NotConstant, Unsupported
from capture.sources import Source
from capture.variables.base import Args, Interpreter, Kwargs, Variable
from capture.variables.building import builds_where
from capture.variables.drawn_numbers import drawn
from capture.variables.handlers import handler_of, handles
from capture.variables.objects import build_object
from capture.variables.torch_calls import BuiltinFunction

Bounds = Callable[..., tuple[float, float]]
_BELOW_ONE = math.nextafter(1.0, 0.0)
_MOST = 2**63 - 1


def _in_unit() -> tuple[float, float]:
    return 0.0, _BELOW_ONE


def _anywhere() -> tuple[float, float]:
    return -math.inf, math.inf


def _uniform(low: float = 0.0, high: float = 1.0) -> tuple[float, float]:
    if not math.isfinite(float(high) - low):
        raise TypeError
    return float(min(low, high)), float(max(low, high))  # rounding may give the end that is excluded


def _normal(loc: float = 0.0, scale: float = 1.0) -> tuple[float, float]:
    if not 0 < scale < math.inf:
        raise TypeError
    return -math.inf, math.inf


def _integer(low: int, high: int | None = None) -> tuple[int, int]:
    first, last = (0, low - 1) if high is None else (low, high - 1)
    if type(first) is not int or type(last) is not int or not -_MOST <= first <= last <= _MOST:
        raise TypeError
    return first, last


#: What one number lies between that these methods of a generator give, by their arguments; those raise for others, or are given none.
_BOUNDS: dict[str, Bounds] = {
    "random": _in_unit,
    "random_sample": _in_unit,
    "rand": _in_unit,
    "uniform": _uniform,
    "randn": _anywhere,
    "standard_normal": _anywhere,
    "normal": _normal,
    "randint": _integer,
}


def _handler(name: str, bounds: Bounds) -> Callable[[Interpreter, Args, Kwargs], Variable]:
    def draw(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        owner = args[0].realize(m)
        try:
            given = [m.builder.to_python(arg) for arg in args[1:]]
            named = {key: m.builder.to_python(value) for key, value in kwargs.items()}
            if not {type(each) for each in (*given, *named.values())} <= {int, float}:
                raise TypeError
            low, high = bounds(*given, **named)
        except (TypeError, NotConstant):
            raise Unsupported(f"numpy.random.{name}() with these arguments") from None
        return drawn(m, owner, name, given, named, low, high)

    return draw


def _register(generators: Any) -> None:
    if handler_of(generators.uniform) is not None:
        return
    for name, bounds in _BOUNDS.items():
        handles(getattr(generators, name))(_handler(name, bounds))


@builds_where(lambda cls: cls.__name__ == "cython_function_or_method")
def _build_function(m: Interpreter, value: Any, source: Source | None) -> Variable:
    """One written in C by other means: of NumPy's generators, say, which are not imported before a program does."""
    module = sys.modules.get("numpy.random")
    if module is not None:
        _register(module.RandomState)
    return m.builder.identified(BuiltinFunction(value), source)


@builds_where(lambda cls: cls.__name__ == "RandomState" and cls.__module__ == "numpy.random.mtrand")
def _build_generator(m: Interpreter, value: Any, source: Source | None) -> Variable:
    _register(type(value))
    return build_object(m, value, source)
