"""Simplification of index arithmetic by the ranges of its symbols.

Flows in: an expression over indices and their sizes (0 <= index < size). Flows out: an expression of the same value for
all indices in range, with fewer divisions and remainders.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import Any

from sympy import Add, Expr, Integer, Mul, S, Symbol

from symshapes.expr.functions import FloorDiv, Mod, as_expr
from symshapes.expr.ranges import ValueRange, bound
from symshapes.expr.terms import Term, exact_quotient, monomial_gcd, multiplied_out, product, scaled, sum_of, terms_of

_MEMO_LIMIT = 1 << 16
_memo: dict[tuple[Any, ...], Expr] = {}
_free_memo: dict[Expr, frozenset[Symbol]] = {}


def _free(expr: Expr) -> frozenset[Symbol]:
    found = _free_memo.get(expr)
    if found is None:
        if len(_free_memo) > _MEMO_LIMIT:
            _free_memo.clear()
        found = _free_memo[expr] = frozenset(expr.free_symbols)
    return found


class _Simplifier:
    def __init__(self, sizes: dict[Symbol, Expr]) -> None:
        self.sizes = sizes
        self.ranges = {symbol: _index_range(size) for symbol, size in sizes.items()}
        self.last = {symbol: size - 1 for symbol, size in sizes.items() if not size.is_Integer}
        self.done: dict[Expr, Expr] = {}

    def run(self, expr: Expr) -> Expr:
        if not expr.args:
            size = self.sizes.get(expr) if expr.is_Symbol else None
            return S.Zero if size is S.One else expr
        found = self.done.get(expr)
        if found is None:
            found = self.done[expr] = self._rewrite(expr)
        return found

    def _rewrite(self, expr: Expr) -> Expr:
        args = [self.run(arg) for arg in expr.args]
        kind = expr.func
        if kind is FloorDiv:
            return self.floor_div(args[0], args[1])
        if kind is Mod:
            return self.mod(args[0], args[1])
        unchanged = all(new is old for new, old in zip(args, expr.args, strict=True))
        rebuilt = expr if unchanged else kind(*args)
        if not rebuilt.is_Add:
            return rebuilt
        return _recombined(rebuilt)

    def inside(self, expr: Expr, below: Expr) -> bool:
        """Whether 0 <= expr < below is certain."""
        if bound(expr, self.ranges).lower < 0:
            return False
        return self.less(expr, below)

    def less(self, expr: Expr, below: Expr) -> bool:
        """Whether expr < below is certain."""
        top = bound(expr, self.ranges).upper
        if top < (int(below) if below.is_Integer else bound(below, self.ranges).lower):
            return True
        if not self.last:
            return False
        # With symbolic sizes: put every index at its last value where that can only enlarge the difference.
        difference = multiplied_out(expr - below)
        terms = terms_of(difference)
        at_most = {}
        for symbol in _free(difference) & self.last.keys():
            slopes = [(c, exact_quotient(m, symbol)) for c, m in terms if symbol in _free(m)]
            if all(
                slope is not None and symbol not in _free(slope) and bound(c * slope, self.ranges).lower >= 0
                for c, slope in slopes
            ):
                at_most[symbol] = self.last[symbol]
        if not at_most:
            return False
        return bound(multiplied_out(difference.xreplace(at_most)), self.ranges).upper < 0

    def floor_div(self, above: Expr, below: Expr) -> Expr:
        result = FloorDiv(above, below)
        if not isinstance(result, FloorDiv):
            return self.rest_of(result) if result.is_Add or result.is_Mul else self.again(result)
        above, below = result.args
        if self.inside(above, below):
            return S.Zero
        split = self.split(above, below)
        if split is not None:
            high, _, _, cofactor = split
            return self.floor_div(high, cofactor)
        return result

    def mod(self, above: Expr, below: Expr) -> Expr:
        result = Mod(above, below)
        if not isinstance(result, Mod):
            return self.rest_of(result) if result.is_Add or result.is_Mul else self.again(result)
        above, below = result.args
        if self.inside(above, below):
            return above
        split = self.split(above, below)
        if split is not None:
            high, low, common, cofactor = split
            return product(common, self.mod(high, cofactor)) + low
        return result

    def again(self, expr: Expr) -> Expr:
        if isinstance(expr, FloorDiv):
            return self.floor_div(*expr.args) if expr not in self.done else self.done[expr]
        if isinstance(expr, Mod):
            return self.mod(*expr.args) if expr not in self.done else self.done[expr]
        return expr

    def rest_of(self, expr: Expr) -> Expr:
        """A division or remainder that came apart into a sum: its new parts in turn."""
        parts = [
            Mul(*[self.again(factor) for factor in Mul.make_args(term)]) if term.is_Mul else self.again(term)
            for term in Add.make_args(expr)
        ]
        result = Add(*parts)
        return _recombined(result) if result.is_Add else result

    def split(self, above: Expr, below: Expr) -> tuple[Expr, Expr, Expr, Expr] | None:
        """`above == g*high + low`, `below == g*cofactor` and 0 <= low < g, as (high, low, g, cofactor)."""
        if not below.is_Integer:
            above = multiplied_out(above)
        terms = terms_of(above)
        if len(terms) < 2:
            return None
        if below.is_Integer:
            return self._split_by_number(terms, int(below))
        for common in self._common_factors(terms, below):
            high: list[Expr] = []
            low: list[Expr] = []
            for coefficient, monomial in terms:
                term = scaled(coefficient, monomial)
                quotient = exact_quotient(term, common)
                (low if quotient is None else high).append(term if quotient is None else quotient)
            rest = Add(*low)
            cofactor = exact_quotient(below, common)
            if high and cofactor is not None and self.inside(rest, common):
                return Add(*high), rest, common, cofactor
        return None

    @staticmethod
    def _common_factors(terms: tuple[Term, ...], below: Expr) -> list[Expr]:
        found = {below: None}
        for coefficient, monomial in terms:
            common = monomial_gcd(scaled(coefficient, monomial), below)
            if common is not S.One:
                found[common] = None
        return list(found)

    def _split_by_number(self, terms: tuple[Term, ...], number: int) -> tuple[Expr, Expr, Expr, Expr] | None:
        for common in sorted({gcd(number, coefficient) for coefficient, _ in terms} - {1}, reverse=True):
            high: list[Term] = []
            low: list[Term] = []
            for coefficient, monomial in terms:
                if monomial is S.One:
                    carry, constant = divmod(coefficient, common)
                    high.append((carry, monomial))
                    low.append((constant, monomial))
                elif coefficient % common == 0:
                    high.append((coefficient // common, monomial))
                else:
                    low.append((coefficient, monomial))
            rest = sum_of(low)
            if rest is not S.Zero and self.inside(rest, Integer(common)):
                return sum_of(high), rest, Integer(common), Integer(number // common)
        return None


def _index_range(size: Expr) -> ValueRange:
    top = bound(size, {}).upper
    return ValueRange(0, max(0, top - 1))


def _recombined(expr: Expr) -> Expr:
    """`d*(x // d) + x % d` is x; also with both sides times one factor."""
    terms = terms_of(expr)
    for position, (coefficient, monomial) in enumerate(terms):
        for remainder in Mul.make_args(monomial):
            if not isinstance(remainder, Mod):
                continue
            above, below = remainder.args
            factor = S.One if monomial is remainder else exact_quotient(monomial, remainder)
            if factor is None:
                continue
            factor = scaled(coefficient, factor)
            wanted = terms_of(multiplied_out(Mul(factor, below, FloorDiv(above, below))))
            others = [term for index, term in enumerate(terms) if index != position]
            if all(term in others for term in wanted):
                left = [term for term in others if term not in wanted]
                joined = sum_of([*left, *terms_of(multiplied_out(Mul(factor, above)))])
                return _recombined(joined) if joined.is_Add else joined
    return expr


def simplify_with_ranges(expr: Any, sizes: Mapping[Symbol, Any]) -> Expr:
    """An equal expression for all indices in range.

    Args:
        expr: integer expression over indices (and other symbols, which go by their assumptions).
        sizes: per index symbol its size (an int or an expression): 0 <= index < size. An index of size 1 is 0.

    `FloorDiv(8*i + j, 8)` with j of size 8 is `i`; `Mod(8*i + j, 8)` is `j`; `8*FloorDiv(i, 8) + Mod(i, 8)` is `i`.
    """
    expr = as_expr(expr)
    if not expr.args:
        size = sizes.get(expr) if expr.is_Symbol else None
        return S.Zero if size == 1 else expr
    free = _free(expr)
    used = {symbol: as_expr(size) for symbol, size in sizes.items() if symbol in free}
    key = (expr, *used.items())
    found = _memo.get(key)
    if found is None:
        if len(_memo) > _MEMO_LIMIT:
            _memo.clear()
        found = _memo[key] = _Simplifier(used).run(expr)
    return found


def reset_caches() -> None:
    """Forget all simplified expressions."""
    _memo.clear()
    _free_memo.clear()
