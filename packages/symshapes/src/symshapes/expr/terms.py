"""Sums as lists of (integer coefficient, monomial): the form in which division and remainder are simplified.

Flows in: sympy integer expressions. Flows out: their terms, and exact quotients where one exists.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cmp_to_key, lru_cache
from math import gcd

import sympy
from sympy import Add, Basic, Expr, Integer, Mul, S

Term = tuple[int, Expr]


@lru_cache(maxsize=1 << 15)
def terms_of(expr: Expr) -> tuple[Term, ...]:
    """`4*x*y - 2*z + 3` as `((4, x*y), (-2, z), (3, 1))`; the order is sympy's."""
    return tuple(_term(arg) for arg in (expr.args if expr.is_Add else (expr,)))


def _term(arg: Expr) -> Term:
    if arg.is_Integer:
        return int(arg), S.One
    if arg.is_Mul:
        head = arg.args[0]
        if head.is_Integer:
            rest = arg.args[1:]
            return int(head), rest[0] if len(rest) == 1 else Mul._from_args(rest)
    return 1, arg


def sum_of(terms: Iterable[Term]) -> Expr:
    """The inverse of `terms_of`.

    Built without sympy's flattening, in the argument order that it would give: index arithmetic makes thousands.
    """
    merged: dict[Expr, int] = {}
    terms = iter(terms)
    for coefficient, monomial in terms:
        if coefficient:
            if monomial.is_Add:  # sympy distributes a number over a sum
                return _flattened_sum(merged, coefficient, monomial, terms)
            merged[monomial] = merged.get(monomial, 0) + coefficient
    constant = merged.pop(S.One, 0)
    parts = [scaled(coefficient, monomial) for monomial, coefficient in merged.items() if coefficient]
    if len(parts) > 1:
        parts.sort(key=_sympy_order)
    if constant or not parts:
        parts.insert(0, Integer(constant))
    return parts[0] if len(parts) == 1 else Add._from_args(parts, True)


_sympy_order = cmp_to_key(Basic.compare)


def _flattened_sum(merged: dict[Expr, int], coefficient: int, monomial: Expr, rest: Iterable[Term]) -> Expr:
    parts = [scaled(c, m) for m, c in merged.items()]
    return Add(*parts, scaled(coefficient, monomial), *(scaled(c, m) for c, m in rest))


def scaled(coefficient: int, monomial: Expr) -> Expr:
    """`coefficient * monomial` for a monomial without a numeric factor."""
    if coefficient == 1 or monomial is S.One:
        return Integer(coefficient) if monomial is S.One else monomial
    if coefficient == 0:
        return S.Zero
    if monomial.is_Add:
        return Mul(Integer(coefficient), monomial)
    rest = monomial.args if monomial.is_Mul else (monomial,)
    return Mul._from_args((Integer(coefficient), *rest), True)


def product(*factors: Expr) -> Expr:
    """The product, multiplied out."""
    return multiplied_out(Mul(*factors))


def multiplied_out(expr: Expr) -> Expr:
    """The expression as a sum of products without sums in them (inside divisions and remainders as it is)."""
    for term in Add.make_args(expr):
        for factor in Mul.make_args(term):
            if (factor.is_Add and factor is not expr) or (factor.is_Pow and factor.args[0].is_Add):
                return expr.expand(deep=False) if term is expr else Add(*map(multiplied_out, Add.make_args(expr)))
    return expr


def content(terms: Iterable[Term], start: int = 0) -> int:
    """The greatest common divisor of `start` and the coefficients."""
    found = start
    for coefficient, _ in terms:
        found = gcd(found, coefficient)
        if found == 1:
            break
    return found


@lru_cache(maxsize=1 << 14)
def _factors(expr: Expr) -> tuple[int, dict[Expr, int]]:
    """An expression as its integer content and its factors with powers; a sum is one factor after its content."""
    total = 1
    powers: dict[Expr, int] = {}
    for arg in Mul.make_args(expr):
        if arg.is_Integer:
            total *= int(arg)
            continue
        base, exponent = arg, 1
        if arg.is_Pow and arg.args[1].is_Integer and int(arg.args[1]) > 0:
            base, exponent = arg.args[0], int(arg.args[1])
        if base.is_Add:
            inner = terms_of(base)
            common = content(inner)
            if common > 1:
                total *= common**exponent
                base = sum_of((coefficient // common, monomial) for coefficient, monomial in inner)
        powers[base] = powers.get(base, 0) + exponent
    return total, powers


@lru_cache(maxsize=1 << 14)
def exact_quotient(dividend: Expr, divisor: Expr) -> Expr | None:
    """`dividend / divisor` where every factor of the divisor is a factor of the dividend, otherwise None.

    The divisor is taken to be non-zero (a zero one is an error of the program in either form).
    """
    if divisor.is_Integer:
        number = int(divisor)
        if dividend.is_Add or dividend.is_Integer:
            terms = terms_of(dividend)
            if any(coefficient % number for coefficient, _ in terms):
                return None
            return sum_of((coefficient // number, monomial) for coefficient, monomial in terms)
    above, powers = _factors(dividend)
    below, wanted = _factors(divisor)
    if below == 0 or above % below:
        return None
    left = dict(powers)
    for base, exponent in wanted.items():
        have = left.get(base, 0)
        if have < exponent:
            return None
        left[base] = have - exponent
    return Mul(Integer(above // below), *(base**exponent for base, exponent in left.items() if exponent))


@lru_cache(maxsize=1 << 12)
def common_factor(first: Expr, second: Expr) -> Expr:
    """The polynomial greatest common divisor; floor divisions and remainders count as opaque variables.

    Costs a millisecond or so, hence only asked where both sides hold symbols.
    """
    try:
        return sympy.gcd(first, second)
    except sympy.PolynomialError:  # a part that is no polynomial, for example a symbolic power
        return S.One


@lru_cache(maxsize=1 << 14)
def monomial_gcd(first: Expr, second: Expr) -> Expr:
    """The product of the factors that two terms share, without cancelling inside sums."""
    above, powers = _factors(first)
    below, others = _factors(second)
    shared = [base ** min(exponent, others[base]) for base, exponent in powers.items() if base in others]
    return Mul(Integer(gcd(above, below)), *shared)


def reset_caches() -> None:
    """Forget all memoised terms, factors and quotients."""
    for memo in (terms_of, _factors, exact_quotient, common_factor, monomial_gcd):
        memo.cache_clear()
