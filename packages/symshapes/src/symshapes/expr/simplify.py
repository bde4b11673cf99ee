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
from symshapes.expr.terms import Term, exact_quotient, sum_of, terms_of
from symshapes.ranges import ValueRange, bound

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
        if below.is_Integer:
            if bound(expr, self.ranges).upper < int(below):
                return True
        elif bound(expr, self.ranges).upper < bound(below, self.ranges).lower:
            return True
        if not self.last:
            return False
        # With symbolic sizes: put every index at its last value where that can only enlarge the difference.
        difference = (expr - below).expand()
        at_most = {}
        for symbol in difference.free_symbols & self.last.keys():
            slope = difference.coeff(symbol)
            if symbol in slope.free_symbols or symbol in (difference - slope * symbol).expand().free_symbols:
                continue
            if bound(slope, self.ranges).lower >= 0:
                at_most[symbol] = self.last[symbol]
        if not at_most:
            return False
        return bound(difference.xreplace(at_most).expand(), self.ranges).upper < 0

    def floor_div(self, above: Expr, below: Expr) -> Expr:
        result = FloorDiv(above, below)
        if not isinstance(result, FloorDiv):
            return self.rest_of(result) if result.is_Add or result.is_Mul else self.again(result)
        above, below = result.args
        if self.inside(above, below):
            return S.Zero
        if below.is_Integer:
            split = self.split(above, int(below))
            if split is not None:
                common, high, _ = split
                return self.floor_div(high, Integer(int(below) // common))
            return result
        high, low = _symbolic_split(above, below)
        if high is not S.Zero and self.inside(low, below):
            return high
        return result

    def mod(self, above: Expr, below: Expr) -> Expr:
        result = Mod(above, below)
        if not isinstance(result, Mod):
            return self.rest_of(result) if result.is_Add or result.is_Mul else self.again(result)
        above, below = result.args
        if self.inside(above, below):
            return above
        if below.is_Integer:
            split = self.split(above, int(below))
            if split is not None:
                common, high, low = split
                return Integer(common) * self.mod(high, Integer(int(below) // common)) + low
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

    def split(self, above: Expr, number: int) -> tuple[int, Expr, Expr] | None:
        """`above == g*high + low` with g a divisor of `number` and 0 <= low < g, as (g, high, low)."""
        terms = terms_of(above)
        if len(terms) < 2:
            return None
        candidates = sorted({gcd(number, coefficient) for coefficient, _ in terms} - {1}, reverse=True)
        for common in candidates:
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
                return common, sum_of(high), rest
        return None


def _index_range(size: Expr) -> ValueRange:
    top = bound(size, {}).upper
    return ValueRange(0, max(0, top - 1))


def _symbolic_split(above: Expr, below: Expr) -> tuple[Expr, Expr]:
    high: list[Expr] = []
    low: list[Expr] = []
    for term in Add.make_args(above.expand()):
        quotient = exact_quotient(term, below)
        if quotient is None:
            low.append(term)
        else:
            high.append(quotient)
    return Add(*high), Add(*low)


def _recombined(expr: Expr) -> Expr:
    """`d*(x // d) + x % d` is x; also with both sides times one factor."""
    terms = terms_of(expr)
    for position, (coefficient, monomial) in enumerate(terms):
        for remainder in Mul.make_args(monomial):
            if not isinstance(remainder, Mod):
                continue
            above, below = remainder.args
            factor = exact_quotient(monomial, remainder)
            if factor is None:
                continue
            wanted = set(terms_of((Integer(coefficient) * factor * below * FloorDiv(above, below)).expand()))
            others = [term for index, term in enumerate(terms) if index != position]
            if wanted.issubset(others):
                left = [term for term in others if term not in wanted]
                joined = sum_of(left) + Integer(coefficient) * factor * above
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
