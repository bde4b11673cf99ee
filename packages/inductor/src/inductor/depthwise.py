"""Which loops convolve channels, each by itself: sums over overlapping windows of one load, times a load of weights.

Flows in: a `Body` and its loops' sizes. Flows out: its `Depthwise`, if it is one. A backend may print these so that neighbours
share what they read (`DeviceTraits.depthwise`), where anything else that reduces would be in the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sympy

from inductor.ir.body import Body
from inductor.ir.operations import Constant, Elementwise, Expr, Load, Reduce, Symbol, Where, symbols_in


@dataclass(frozen=True)
class Depthwise:
    """Positions in the body, and loop variables."""

    sum: int
    """The `reduce`."""
    image: int
    weight: int
    tests: tuple[int, ...]
    """Comparisons, all of which hold where there is something to add."""
    channel: Symbol
    """The outer variable in which both are contiguous."""
    column: Symbol
    """The outer variable in which windows overlap, and the inner one that walks over them in its direction."""
    tap: Symbol
    row_tap: Symbol
    """The other inner variable."""


def depthwise_of(body: Body, outer_sizes: Sequence[Expr], inner_sizes: Sequence[Expr]) -> Depthwise | None:
    """The body's sum over windows of two dimensions; None if it reduces anything else, or its windows do not overlap."""
    sums = [at for at, op in enumerate(body.ops) if isinstance(op, Reduce)]
    if len(sums) != 1 or len(body.inner_vars) != 2 or body.reduction(sums[0]).kind != "sum":
        return None
    at, tests = body.reduction(sums[0]).value.at, tuple[int, ...]()
    value = body.ops[at]
    if isinstance(value, Where):
        otherwise = body.ops[value.otherwise.at]
        if not isinstance(otherwise, Constant) or otherwise.value != 0:
            return None
        tests = _conjunction(body, value.condition.at)
        value = body.ops[value.then.at]
    if not (isinstance(value, Elementwise) and value.primitive == "mul"):
        return None
    loads = [
        (ref.at, op)
        for ref in value.operands
        if isinstance(op := body.ops[ref.at], Load)
        and (op.mask is None or set(_conjunction(body, op.mask.at)) <= set(tests))
    ]
    if len(loads) != 2:
        return None
    (weight_at, weight), (image_at, image) = sorted(loads, key=lambda load: len(set(symbols_in(load[1].index))))
    inner = set(body.inner_vars)
    if not set(symbols_in(image.index)) > set(symbols_in(weight.index)) > inner:
        return None
    channels = [v for v in body.outer_vars if _step(image, v) == _step(weight, v) == 1]
    row_tap, tap = sorted(body.inner_vars, key=lambda v: -_step(image, v))
    others = [v for v in body.outer_vars if _step(image, v) > 1 and _step(weight, v) == 0]
    if len(channels) != 1 or not others:
        return None
    column = min(others, key=lambda v: _step(image, v))
    size = _sizes(body.inner_vars, inner_sizes)[tap]
    if _step(image, tap) < 2 or not _step(image, column) < _step(image, tap) * size:
        return None
    return Depthwise(sums[0], image_at, weight_at, tests, channels[0], column, tap, row_tap)


def _conjunction(body: Body, at: int) -> tuple[int, ...]:
    op = body.ops[at]
    if isinstance(op, Elementwise) and op.primitive == "bitwise_and":
        return tuple(dict.fromkeys(test for ref in op.operands for test in _conjunction(body, ref.at)))
    return (at,)


def _sizes(variables: Iterable[Symbol], sizes: Iterable[Expr]) -> dict[Symbol, int]:
    """Sizes that are known; others as 0."""
    return {v: int(n) if sympy.sympify(n).is_Integer else 0 for v, n in zip(variables, sizes, strict=True)}


def _step(load: Load, variable: Symbol) -> int:
    step = load.index.coeff(variable)
    return int(step) if isinstance(step, sympy.Integer) else 0
