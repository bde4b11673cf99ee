"""Loops split where reshapes take their variable apart: `i // 64` and `i % 64` become two loops over 64s and ones.

Flows in: a body whose index expressions hold FloorDiv and Mod of a loop variable. Flows out: the same body with that
variable as the digits of a number in a mixed base, so that all its accesses are linear again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import sympy

from inductor.ir.body import Body
from inductor.ir.operations import Expr, Symbol, symbols_in
from symshapes import FloorDiv, Mod

NARROWEST = 8
"""The least size of the fastest loop that a split may leave: shorter ones cannot be vectorised."""

Span = tuple[int, int | None]
"""The part of a number between two powers of the base: `x // low % (high // low)`, without the remainder for None."""


def span(expr: Expr, variable: Symbol) -> Span | None:
    """`expr` as a part of `variable`: Mod(FloorDiv(i, 4), 3) is (4, 12). None if it is anything else."""
    if expr == variable:
        return 1, None
    if not isinstance(expr, FloorDiv | Mod) or not expr.args[1].is_Integer or expr.args[1] <= 0:
        return None
    inner = span(expr.args[0], variable)
    if inner is None:
        return None
    low, high = inner
    bound = low * int(expr.args[1])
    if high is not None and high % bound:
        return None
    return (bound, high) if isinstance(expr, FloorDiv) else (low, bound)


def _parts(expr: Expr, variable: Symbol) -> Iterator[Span | None]:
    """The parts of `variable` an expression uses; None for a use inside a division that is no part of it."""
    if variable not in symbols_in(expr):
        return
    if isinstance(expr, FloorDiv | Mod):
        yield span(expr, variable)
    elif expr.args:
        for arg in expr.args:
            yield from _parts(arg, variable)


def base_of(expressions: Sequence[Expr], variable: Symbol, size: Expr) -> list[int]:
    """Ascending powers at which to split, each dividing the next and the size; empty if there is no such split."""
    powers: set[int] = set()
    for expr in expressions:
        for part in _parts(expr, variable):
            if part is None:
                return []
            powers.update(p for p in part if p is not None and p != 1)
    result = sorted(powers)
    if not size.is_Integer:
        return []
    chain = [*result, int(size)]
    if any(b % a for a, b in pairwise(chain)):
        return []
    return [p for p in result if p != int(size)]


def split(body: Body, outer_sizes: Sequence[Expr], inner_sizes: Sequence[Expr]) -> tuple[Body, list[Expr], list[Expr]]:
    """The body with divided variables split. New variables are named after the one they are digits of."""
    expressions = [op.index for op in body.ops if op.index is not None]
    if not any(expr.has(FloorDiv, Mod) for expr in expressions):
        return body, list(outer_sizes), list(inner_sizes)
    digits: dict[Symbol, list[tuple[int, int | None, Symbol]]] = {}
    loops: list[tuple[list[Symbol], list[Expr]]] = []
    for variables, sizes, fastest in (
        (body.outer_vars, outer_sizes, not body.inner_vars),
        (body.inner_vars, inner_sizes, True),
    ):
        new_vars: list[Symbol] = []
        new_sizes: list[Expr] = []
        for at, (variable, size) in enumerate(zip(variables, sizes, strict=True)):
            base = base_of(expressions, variable, size)
            if not base or (fastest and at == len(variables) - 1 and base[0] < NARROWEST):
                new_vars.append(variable)
                new_sizes.append(size)
                continue
            digits[variable] = []
            for low, high in reversed(list(zip([1, *base], [*base, int(size)], strict=True))):
                symbol = sympy.Symbol(f"{variable}_{low}", integer=True, nonnegative=True)
                digits[variable].append((low, high, symbol))
                new_vars.append(symbol)
                new_sizes.append(sympy.Integer(high // low))
        loops.append((new_vars, new_sizes))
    if not digits:
        return body, list(outer_sizes), list(inner_sizes)
    known = {expr: _rewritten(expr, digits) for expr in set(expressions)}
    ops = tuple(op.with_index(known.__getitem__) for op in body.ops)
    return Body(tuple(loops[0][0]), tuple(loops[1][0]), ops), loops[0][1], loops[1][1]


def _rewritten(expr: Expr, digits: Mapping[Symbol, list[tuple[int, int | None, Symbol]]]) -> Expr:
    used = symbols_in(expr) & digits.keys()
    if not used:
        return expr
    if len(used) == 1 and (expr.is_Symbol or isinstance(expr, FloorDiv | Mod)):
        (variable,) = used
        part = span(expr, variable)
        assert part is not None
        low, high = part
        return sympy.Add(
            *(
                symbol * (power // low)
                for power, _, symbol in digits[variable]
                if power >= low and (high is None or power < high)
            )
        )
    result = expr.func(*(_rewritten(arg, digits) for arg in expr.args))
    return sympy.expand(result) if result.is_Mul else result
