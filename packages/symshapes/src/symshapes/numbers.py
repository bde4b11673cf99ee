"""Python's functions of numbers, for symbolic ones too: what stands in a graph where the program calls `math.log` of a size.

Flows in: numbers, plain or symbolic. Flows out: the functions, by Python's function or by the name of the expression that they make.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from symshapes.expr.floats import FLOAT_FUNCTIONS, computation, text_of
from symshapes.expr.symbols import SYMBOLIC
from symshapes.node import SymNode, number_of_node

_CONDITIONS = frozenset({"FloatIsInteger", "Isnan", "Isinf", "Isfinite"})


def _node(number: Any, like: SymNode) -> SymNode:
    if isinstance(number, torch.SymBool):
        number = bool(number)
    if isinstance(number, SYMBOLIC):
        return number.node
    return like.wrap_int(int(number)) if isinstance(number, int) else like.wrap_float(number)


def _make(name: str) -> Callable[..., Any]:
    compute = computation(name)

    def function(*numbers: Any) -> Any:
        like = next((number.node for number in numbers if isinstance(number, SYMBOLIC)), None)
        if like is None or not all(isinstance(number, (int, float, *SYMBOLIC)) for number in numbers):
            result = compute(*numbers)
            return bool(result) if name in _CONDITIONS else result
        first, *others = (_node(number, like) for number in numbers)
        made = first.applied(name, *others)
        if name in _CONDITIONS:
            made = made.as_condition()
        return number_of_node(made)

    function.__name__ = function.__qualname__ = f"sym_{name.lower()}"
    function.__doc__ = f"`{text_of(name)}` of numbers, of which some may be symbolic; raises what it raises."
    return function


_BY_NAME: dict[str, Callable[..., Any]] = {name: _make(name) for name in FLOAT_FUNCTIONS}
globals().update({function.__name__: function for function in _BY_NAME.values()})
_PYTHON: dict[Any, str] = {
    **{getattr(math, name): name.capitalize() for name in dir(math) if name.capitalize() in FLOAT_FUNCTIONS},
    math.pow: "MathPow",
    int.bit_length: "BitLength",
    int.bit_count: "BitCount",
    float.is_integer: "FloatIsInteger",
}


def number_function(key: Any) -> Callable[..., Any] | None:
    """The function that computes for plain and symbolic numbers what one of Python's does for plain ones, bit for bit; None if there is none.

    Args:
        key: Python's function (`math.log`), or the name of an expression's class (`"FloatMax"`, `"Log"`).

    Of symbolic numbers the result is symbolic. That it has a value is guarded, where Python's function would raise.
    """
    name = _PYTHON.get(key, key)
    return _BY_NAME.get(name) if isinstance(name, str) else None
