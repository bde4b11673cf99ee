"""Numbers drawn by the standard library's ``random``, or by another generator: drawn after the graph ran, in order; until then only their bounds are known.

A program that draws and does not look, or whose decision is the same for all that may be drawn, is one graph: layers that are
dropped at random are so outside of training. Where it depends on the number, the graph ends before it is drawn.
"""

from __future__ import annotations

import functools
import math
import operator
import random
from collections.abc import Mapping, Sequence
from typing import Any

from capture.errors import Unsupported
from capture.guards import GuardKind

from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant
from .handlers import handles
from .objects import Object

_UNARY: dict[str, Any] = {"-": operator.neg, "+": operator.pos}
#: By a known number: each grows or falls with the number that is drawn.
_BINARY: dict[str, Any] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
#: What tells from one bound of each side that a comparison holds: below, or at most.
_ORDERS: dict[str, tuple[Any, bool]] = {
    "<": (operator.lt, False),
    "<=": (operator.le, False),
    ">": (operator.lt, True),
    ">=": (operator.le, True),
}
_LARGEST = math.nextafter(1.0, 0.0)


class Drawn(Variable):
    """A number from ``low`` to ``high``, both included, of the class that these have."""

    rules_operators = True

    def __init__(self, low: float, high: float) -> None:
        self.low = low
        self.high = high

    def python_type(self) -> type:
        return type(self.low)

    def truth(self, m: Interpreter) -> bool:
        if self.low > 0 or self.high < 0:
            return True
        raise Unsupported("branch on a random number")

    def operate(self, m: Interpreter, symbol: str, operands: Args) -> Variable:
        spans = [_span(m, value.realize(m)) for value in operands]
        if len(spans) == 1 and symbol in _UNARY:
            return _between(m, [_UNARY[symbol](end) for end in spans[0]])
        made_by: Any = _BINARY.get(symbol[0] if symbol[1:] == "=" else symbol)
        if len(spans) == 2 and made_by and any(low == high for low, high in spans):
            return _between(m, [made_by(a, b) for a in spans[0] for b in spans[1]])
        if symbol in _ORDERS:
            below, turned = _ORDERS[symbol]
            left, right = reversed(spans) if turned else spans
            if below(left[1], right[0]):
                return Constant(True)
            if not below(left[0], right[1]):
                return Constant(False)
            raise Unsupported("a decision by a random number")
        raise Unsupported(f"{symbol} of a random number")

    def __repr__(self) -> str:
        return "<random number>"


def _span(m: Interpreter, value: Variable) -> tuple[float, float]:
    """The bounds of an operand."""
    if isinstance(value, Drawn):
        return value.low, value.high
    number: Any = value.value if isinstance(value, Constant) else None
    if type(number) not in (int, float) or not math.isfinite(number):
        raise Unsupported("a random number beside what is no known number")
    return number, number


def _between(m: Interpreter, ends: list[Any]) -> Variable:
    """What an operation gives that rounds, but never the other way round: it gives the bounds for the bounds."""
    if any(math.isnan(end) for end in ends):
        raise Unsupported("a random number without bounds")
    made: Variable = m.effects.created(Drawn(min(ends), max(ends)))
    return made


def drawn(
    m: Interpreter,
    owner: Variable,
    method: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    low: float,
    high: float,
) -> Variable:
    """A number from ``low`` to ``high`` that a generator from outside is to draw by this method."""
    if not isinstance(owner, Object) or owner.source is None:
        raise Unsupported("a random number of a generator that is not known")
    m.guards.add(owner.source, GuardKind.ID, owner.value)
    m.effects.activity += 1
    m.effects.changes += 1
    draw = getattr(owner.value, method)
    m.effects.announced.append(functools.partial(draw, *args, **kwargs) if args or kwargs else draw)
    return _between(m, [low, high])


@handles(random.Random.random)
def _draw(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    owner = args[0].realize(m)
    if len(args) > 1 or kwargs:
        raise Unsupported("a random number of a generator that is not known")
    return drawn(m, owner, "random", (), {}, 0.0, _LARGEST)
