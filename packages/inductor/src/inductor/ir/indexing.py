"""Index arithmetic: strides, flattening, and division of index expressions with the loop variables' ranges known.

Everything is exact for symbolic sizes; where a simplification cannot be proved, FloorDiv and Mod stay in the expression.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import sympy

from inductor.ir.operations import Expr, Symbol
from symshapes import FloorDiv, Mod

Index = Sequence[Expr]
Ranges = Mapping[Symbol, Expr]
"""How many values each index symbol takes, from zero."""

ZERO = sympy.Integer(0)
ONE = sympy.Integer(1)


def product(sizes: Iterable[Expr]) -> Expr:
    """The product of the sizes; 1 of none."""
    return _product(tuple(sizes))


@lru_cache(maxsize=1 << 14)
def _product(sizes: tuple[Expr, ...]) -> Expr:
    result: Expr = ONE
    for size in sizes:
        result = result * size
    return result


@lru_cache(maxsize=1 << 14)
def times(a: Expr, b: Expr) -> Expr:
    """The product of two, which sympy takes microseconds to make each time."""
    return a * b


def same(a: Expr | int, b: Expr | int) -> bool:
    """Whether two sizes are equal for all values of their symbols."""
    if a == b:
        return True
    numbers = (int, sympy.Integer)
    if isinstance(a, numbers) and isinstance(b, numbers):
        return False
    return _same(a, b)


@lru_cache(maxsize=1 << 14)
def _same(a: Expr | int, b: Expr | int) -> bool:
    return bool(sympy.expand(a - b) == 0)


def is_empty(sizes: Iterable[Expr]) -> bool:
    """Whether one of the sizes is known to be 0."""
    return any(size == 0 for size in sizes)


def contiguous_strides(sizes: Sequence[Expr]) -> tuple[Expr, ...]:
    """Row-major strides; a dimension of size 0 counts as 1, as in torch."""
    return _contiguous_strides(tuple(sizes))


@lru_cache(maxsize=1 << 14)
def _contiguous_strides(sizes: tuple[Expr, ...]) -> tuple[Expr, ...]:
    strides: list[Expr] = []
    step: Expr = ONE
    for size in reversed(sizes):
        strides.append(step)
        if size != 0:
            step = step * size
    return tuple(reversed(strides))


def linear_index(index: Index, strides: Sequence[Expr], offset: Expr = ZERO) -> Expr:
    """The place of an index in memory, in elements: the sum of position times stride, and the offset."""
    return _linear_index(tuple(index), tuple(strides), offset)


@lru_cache(maxsize=1 << 14)
def _linear_index(index: tuple[Expr, ...], strides: tuple[Expr, ...], offset: Expr) -> Expr:
    terms = []
    for position, stride in zip(index, strides, strict=True):
        if position is ZERO:
            continue
        term = position if stride is ONE else position * stride
        # sympy distributes only numbers over sums; loops need every variable's coefficient.
        if position.is_Add and not stride.is_Integer:
            term = sympy.expand(term)
        terms.append(term)
    return sympy.Add(offset, *terms)


def interval(expr: Expr, ranges: Ranges) -> tuple[Expr, Expr] | None:
    """Least and greatest value of an index expression (as expressions of sizes), or None where not known."""
    if expr.is_Integer:
        return expr, expr
    if expr.is_Symbol:
        size = ranges.get(expr)
        return (expr, expr) if size is None else (ZERO, size - 1)
    if isinstance(expr, sympy.Add):
        low: Expr = ZERO
        high: Expr = ZERO
        for term in expr.args:
            bounds = interval(term, ranges)
            if bounds is None:
                return None
            low, high = low + bounds[0], high + bounds[1]
        return low, high
    if not expr.free_symbols & ranges.keys():
        return expr, expr
    if isinstance(expr, sympy.Mul):
        varying = [f for f in expr.args if f.free_symbols & ranges.keys()]
        if len(varying) != 1:
            return None
        bounds = interval(varying[0], ranges)
        factor = expr / varying[0]
        if bounds is None:
            return None
        if factor.is_nonnegative:
            return factor * bounds[0], factor * bounds[1]
        return (factor * bounds[1], factor * bounds[0]) if factor.is_negative else None
    if isinstance(expr, Mod):
        inner = interval(expr.args[0], ranges)
        if inner is not None and inner[0].is_nonnegative:
            return ZERO, expr.args[1] - 1
        return None
    if isinstance(expr, FloorDiv):
        inner = interval(expr.args[0], ranges)
        divisor = expr.args[1]
        if inner is None or not divisor.is_positive or divisor.free_symbols & ranges.keys():
            return None
        return FloorDiv(inner[0], divisor), FloorDiv(inner[1], divisor)
    return None


def within(expr: Expr, size: Expr, ranges: Ranges) -> bool:
    """Whether 0 <= expr < size is certain."""
    bounds = interval(expr, ranges)
    if bounds is None:
        return False
    low, room = bounds[0], size - 1 - bounds[1]
    if low.is_Integer and room.is_Integer:
        return bool(low >= 0 and room >= 0)
    return bool(sympy.expand(low).is_nonnegative and sympy.expand(room).is_nonnegative)


def _is_whole(quotient: Expr) -> bool:
    """A product of integers and symbols without a denominator."""
    if quotient.is_Integer or quotient.is_Symbol:
        return True
    if isinstance(quotient, sympy.Mul):
        return all(_is_whole(factor) for factor in quotient.args)
    if isinstance(quotient, sympy.Pow):
        return bool(quotient.exp.is_Integer and quotient.exp > 0 and _is_whole(quotient.base))
    return bool(quotient.is_integer) and isinstance(quotient, FloorDiv | Mod | sympy.Add)


def divide(expr: Expr, divisor: Expr, ranges: Ranges) -> tuple[Expr, Expr]:
    """`(expr // divisor, expr % divisor)` of a nonnegative index expression, simplified where the ranges allow it."""
    if divisor == 1:
        return expr, ZERO
    if within(expr, divisor, ranges):
        return ZERO, expr
    whole: list[Expr] = []
    rest: list[Expr] = []
    for term in sympy.Add.make_args(expr):
        quotient = term / divisor
        if _is_whole(quotient):
            whole.append(quotient)
        else:
            rest.append(term)
    if not whole:
        return FloorDiv(expr, divisor), Mod(expr, divisor)
    quotient, remainder = sympy.Add(*whole), sympy.Add(*rest)
    if within(remainder, divisor, ranges):
        return quotient, remainder
    bounds = interval(remainder, ranges)
    if bounds is not None and bounds[0].is_nonnegative:
        return quotient + FloorDiv(remainder, divisor), Mod(remainder, divisor)
    return FloorDiv(expr, divisor), Mod(expr, divisor)


def groups(old: Sequence[Expr], new: Sequence[Expr]) -> Sequence[tuple[Sequence[int], Sequence[int]]]:
    """Split two shapes of equally many elements into the shortest runs of dimensions with equal products.

    Returns pairs (old dimensions, new dimensions); dimensions of size 1 may stand in a run or alone against an empty
    one."""
    return _groups(tuple(old), tuple(new))


@lru_cache(maxsize=1 << 12)
def _groups(old: tuple[Expr, ...], new: tuple[Expr, ...]) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    result: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    o = n = 0
    while o < len(old) or n < len(new):
        olds: list[int] = []
        news: list[int] = []
        p_old: Expr = ONE
        p_new: Expr = ONE
        # A leading 1 is its own run, so that it never joins dimensions that need not be joined.
        if o < len(old) and old[o] == 1:
            result.append(((o,), ()))
            o += 1
            continue
        if n < len(new) and new[n] == 1:
            result.append(((), (n,)))
            n += 1
            continue
        while not olds or not same(p_old, p_new):
            grow_old = grow_new = False
            if not olds:
                grow_old = grow_new = True
            elif p_old.is_Integer and p_new.is_Integer:
                grow_old, grow_new = p_old < p_new, p_new < p_old
            else:
                grow_old = _is_whole(p_new / p_old)
                grow_new = not grow_old and _is_whole(p_old / p_new)
                if not grow_old and not grow_new:
                    grow_old = grow_new = True
            if grow_old and o < len(old):
                olds.append(o)
                p_old = p_old * old[o]
                o += 1
            elif grow_old:
                grow_new = True
            if grow_new and n < len(new):
                news.append(n)
                p_new = p_new * new[n]
                n += 1
            elif grow_new and o < len(old):
                olds.append(o)
                p_old = p_old * old[o]
                o += 1
            elif o >= len(old) and n >= len(new):
                break
        result.append((tuple(olds), tuple(news)))
    return tuple(result)


def reshape_index(index: Index, old: Sequence[Expr], new: Sequence[Expr], ranges: Ranges) -> list[Expr]:
    """The position in shape `old` of the element at `index` of shape `new`."""
    result: list[Any] = [ZERO] * len(old)
    for olds, news in groups(old, new):
        if not olds or not news:
            continue
        if len(olds) == len(news) == 1:
            result[olds[0]] = index[news[0]]
            continue
        flat = linear_index([index[d] for d in news], contiguous_strides([new[d] for d in news]))
        flat = sympy.expand(flat) if not flat.is_Symbol else flat
        for dim in reversed(olds[1:]):
            flat, result[dim] = divide(flat, old[dim], ranges)
        result[olds[0]] = flat
    return result
