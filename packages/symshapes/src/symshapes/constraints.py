"""What is known about symbols: ranges, equalities, divisibility, inequalities. The reasoning of a `ShapeEnv`.

Flows in: relations between integer expressions that hold. Flows out: simpler expressions, and yes, no or unknown for a
relation. Everything here is sound: an answer follows from what was learned, or is None.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import lru_cache
from math import gcd, inf, lcm
from typing import Any

import sympy
from sympy import Add, Expr, Integer, Mul, S, Symbol

from symshapes.expr.floats import FLOAT_FUNCTIONS, constant, is_int, is_number, number_of
from symshapes.expr.functions import FloorDiv, Mod
from symshapes.expr.printers import print_expr
from symshapes.expr.ranges import UNKNOWN, ValueRange, bound
from symshapes.expr.terms import Term, content, exact_quotient, multiplied_out, product, sum_of, terms_of

_NEGATED: dict[Any, Any] = {
    sympy.Eq: sympy.Ne,
    sympy.Ne: sympy.Eq,
    sympy.Lt: sympy.Ge,
    sympy.Ge: sympy.Lt,
    sympy.Gt: sympy.Le,
    sympy.Le: sympy.Gt,
}
RELATIONS = frozenset(_NEGATED)
_COMPARE: dict[Any, Callable[[Any, Any], bool]] = {
    sympy.Eq: operator.eq,
    sympy.Ne: operator.ne,
    sympy.Lt: operator.lt,
    sympy.Ge: operator.ge,
    sympy.Gt: operator.gt,
    sympy.Le: operator.le,
}


def truth(value: bool) -> Any:
    """A Python bool as a sympy constant."""
    return S.true if value else S.false


@lru_cache(maxsize=1 << 15)
def relation(kind: Any, left: Expr, right: Expr) -> Any:
    """A comparison, folded where the difference is a constant.

    sympy's own construction asks its assumption system each time, which costs milliseconds; a `ShapeEnv` knows more.
    """
    if left is right and is_int(left):
        return truth(_COMPARE[kind](0, 0))
    if is_number(left) and is_number(right):
        return truth(_COMPARE[kind](number_of(left), number_of(right)))
    if is_int(left) and is_int(right):
        difference = _difference(left, right)
        if difference.is_Integer:
            return truth(_COMPARE[kind](int(difference), 0))
    return kind(left, right, evaluate=False)


def negation(condition: Any) -> Any:
    """The opposite condition, without `Not` where a comparison has an opposite (floats may be NaN: theirs keep it)."""
    if condition is S.true or condition is S.false:
        return truth(condition is S.false)
    if condition.func in _NEGATED and is_integral(condition):
        return relation(_NEGATED[condition.func], *condition.args)
    if condition.func is sympy.Not:
        return condition.args[0]
    return sympy.Not(condition, evaluate=False)


def is_value(expr: Expr, value: int | float) -> list[Any]:
    """The conditions under which an expression has a value, of floats bit for bit (any NaN is one)."""
    if value != value:
        return [relation(sympy.Ne, expr, expr)]
    known = [relation(sympy.Eq, expr, constant(value))]
    if isinstance(value, float) and value == 0:
        known.append(relation(sympy.Eq, FLOAT_FUNCTIONS["Copysign"](S.One, expr), constant(math.copysign(1.0, value))))
    return known


def is_integral(condition: Any) -> bool:
    """Whether a comparison is one of integers."""
    return all(is_int(arg) for arg in condition.args)


@lru_cache(maxsize=1 << 15)
def normal_form(condition: Any) -> tuple[str, Expr] | bool:
    """A comparison of integers as ("ge", d), ("eq", d) or ("ne", d), meaning d >= 0, d == 0, d != 0.

    The coefficients of d have no common divisor; a constant answer comes as a bool.
    """
    left, right = condition.args
    kind = condition.func
    if kind is sympy.Le or kind is sympy.Lt:
        left, right = right, left
    variable, constant = _parts(multiplied_out(_difference(left, right)))
    if kind is sympy.Eq or kind is sympy.Ne:
        return _equality(variable, constant, kind is sympy.Eq)
    return _inequality(variable, constant - (kind is sympy.Lt or kind is sympy.Gt))


def _difference(left: Expr, right: Expr) -> Expr:
    return sum_of([*terms_of(left), *((-coefficient, monomial) for coefficient, monomial in terms_of(right))])


def _inequality(variable: list[Term], constant: int) -> tuple[str, Expr] | bool:
    if not variable:
        return constant >= 0
    common = content(variable)
    # g*r + c >= 0 is r + floor(c / g) >= 0 over the integers.
    return "ge", sum_of([*((c // common, m) for c, m in variable), (constant // common, S.One)])


def _equality(variable: list[Term], constant: int, equal: bool) -> tuple[str, Expr] | bool:
    if not variable:
        return (constant == 0) is equal
    common = content(variable)
    if constant % common:
        return not equal
    # One sign for d and -d, whichever way round it was asked.
    if min(variable, key=lambda term: print_expr(term[1]))[0] < 0:
        common = -common
    reduced = sum_of([*((c // common, m) for c, m in variable), (constant // common, S.One)])
    return ("eq" if equal else "ne"), reduced


def _parts(difference: Expr) -> tuple[list[Term], int]:
    variable = []
    constant = 0
    for coefficient, monomial in terms_of(difference):
        if monomial is S.One:
            constant = coefficient
        elif coefficient:
            variable.append((coefficient, monomial))
    return variable, constant


def _below(a: ValueRange, b: ValueRange) -> bool:
    return a.upper < b.lower


def _not_above(a: ValueRange, b: ValueRange) -> bool:
    return a.upper <= b.lower


def _apart(a: ValueRange, b: ValueRange) -> bool:
    return a.upper < b.lower or b.upper < a.lower


def _same(a: ValueRange, b: ValueRange) -> bool:
    return a == b and a.is_constant


# What two ranges say of a comparison of their values: (it holds, it does not).
_SEPARATED: dict[Any, tuple[Callable[[ValueRange, ValueRange], bool], Callable[[ValueRange, ValueRange], bool]]] = {
    sympy.Lt: (_below, lambda a, b: _not_above(b, a)),
    sympy.Le: (_not_above, lambda a, b: _below(b, a)),
    sympy.Gt: (lambda a, b: _below(b, a), _not_above),
    sympy.Ge: (lambda a, b: _not_above(b, a), _below),
    sympy.Eq: (_same, _apart),
    sympy.Ne: (_apart, _same),
}


class Constraints:
    """Knowledge that only grows; `version` counts the changes that can make an expression simpler."""

    def __init__(self) -> None:
        self.ranges: dict[Symbol, ValueRange] = {}
        self.replacements: dict[Expr, Expr] = {}
        self.divisors: dict[Expr, int] = {}
        self.order: dict[Symbol, tuple[bool, int]] = {}
        self.version = 0
        self.settled: list[Symbol] = []
        """Symbols that became expressions of others or numbers, in order; one may do so twice."""
        self.refined: list[Symbol] = []
        """Symbols whose range became smaller, each time."""
        self._least: dict[Expr, int] = {}  # r -> c: r >= c
        self._zeros: set[Expr] = set()
        self._nonzeros: set[Expr] = set()
        self._either: list[Any] = []  # of each one part or another
        self._simplified: dict[Any, Any] = {}
        self._decided: dict[Any, bool] = {}

    def add_symbol(self, symbol: Symbol, range_: ValueRange, *, unbacked: bool = False) -> None:
        """A new symbol; when two are equal, the later one is replaced by the earlier, and never a backed by an unbacked."""
        self.order[symbol] = (unbacked, len(self.order))
        self.ranges[symbol] = range_

    # Simplification

    def simplify(self, expr: Any) -> Any:
        """An equal expression (or condition) in which what is known has been used."""
        if not self.version or (not expr.args and expr not in self.replacements):
            return expr
        found = self._simplified.get(expr)
        if found is None:
            found = self._simplified[expr] = self._rewrite(expr)
        return found

    def _rewrite(self, expr: Any) -> Any:
        known = self.replacements.get(expr)
        if known is not None:
            return known
        args = [self.simplify(arg) for arg in expr.args]
        if any(new is not old for new, old in zip(args, expr.args, strict=True)):
            kind = expr.func
            expr = relation(kind, *args) if kind in RELATIONS else kind(*args)
            known = self.replacements.get(expr)
            if known is not None:
                return known
        if self.divisors:
            if isinstance(expr, Mod):
                return self._remainder(expr)
            if expr.is_Mul or expr.is_Add:
                return self._cancelled(expr)
        return expr

    def _remainder(self, expr: Expr) -> Expr:
        above, below = expr.args
        if not below.is_Integer:
            return expr
        number = int(below)
        kept = [
            (coefficient, monomial)
            for coefficient, monomial in terms_of(above)
            if (coefficient * self._divisor(monomial)) % number
        ]
        return expr if len(kept) == len(terms_of(above)) else Mod(sum_of(kept), below)

    def _divisor(self, monomial: Expr) -> int:
        """A number that divides it: as a whole, or by way of its factors."""
        found = self.divisors.get(monomial, 1)
        if monomial.is_Mul:
            for factor in monomial.args:
                found = lcm(found, self.divisors.get(factor, 1))
        return found

    def _cancelled(self, expr: Expr) -> Expr:
        """`n * (x // n)` is x where x is known to be divisible by n."""
        return Add(*map(self._cancelled_term, Add.make_args(expr)))

    def _cancelled_term(self, term: Expr) -> Expr:
        for factor in Mul.make_args(term):
            if isinstance(factor, FloorDiv):
                above, below = factor.args
                rest = exact_quotient(term, Mul(factor, below))
                if rest is not None and self.simplify(Mod(above, below)) == 0:
                    return self._cancelled(product(rest, above))
        return term

    # Decisions

    def decide(self, condition: Any) -> bool | None:
        """Whether a condition holds for every value the symbols can still have; None if that depends."""
        if condition is S.true or condition is S.false:
            return condition is S.true
        known = self._decided.get(condition)
        if known is not None:
            return known
        answer = self._decide(self.simplify(condition))
        if answer is not None:
            self._decided[condition] = answer
        return answer

    def _decide(self, condition: Any) -> bool | None:
        if condition is S.true or condition is S.false:
            return condition is S.true
        known = self._decided.get(condition)
        if known is not None:
            return known
        kind = condition.func
        if kind is sympy.Not:
            inner = self.decide(condition.args[0])
            return None if inner is None else not inner
        if kind is sympy.And or kind is sympy.Or:
            answers = [self.decide(arg) for arg in condition.args]
            strong = kind is sympy.Or
            if strong in answers:
                return strong
            return None if None in answers else not strong
        if kind not in RELATIONS:
            return None
        if not is_integral(condition):
            return self._decide_floats(kind, *[bound(arg, self.ranges) for arg in condition.args])
        form = normal_form(condition)
        if isinstance(form, bool):
            return form
        return self._decide_form(*form)

    @staticmethod
    def _decide_floats(kind: Any, left: ValueRange, right: ValueRange) -> bool | None:
        if UNKNOWN in (left, right):  # may be NaN, and of an int nothing is known
            return None
        sure, ruled_out = _SEPARATED[kind]
        if sure(left, right):
            return True
        return False if ruled_out(left, right) else None

    def _decide_form(self, kind: str, difference: Expr) -> bool | None:
        if kind == "ge":
            return self._at_least_zero(difference)
        answer = self._is_zero(difference)
        return answer if kind == "eq" or answer is None else not answer

    def _at_least_zero(self, difference: Expr) -> bool | None:
        span = bound(difference, self.ranges)
        if span.lower >= 0:
            return True
        if span.upper < 0:
            return False
        variable, constant = _parts(difference)
        least = self._least.get(sum_of(variable))
        if least is not None and least + constant >= 0:
            return True
        most = self._least.get(sum_of((-c, m) for c, m in variable))  # -r >= most, so r <= -most
        if most is not None and constant - most < 0:
            return False
        return None

    def _is_zero(self, difference: Expr) -> bool | None:
        if difference is S.Zero or difference in self._zeros:
            return True
        if 0 not in bound(difference, self.ranges) or difference in self._nonzeros:
            return False
        terms = terms_of(difference)
        if self._at_least_zero(sum_of([*terms, (-1, S.One)])):
            return False
        if self._at_least_zero(sum_of([*((-coefficient, monomial) for coefficient, monomial in terms), (-1, S.One)])):
            return False
        return None

    # Learning

    def learn(self, condition: Any) -> None:
        """Take a condition as true, and what is left of others of which one part or another holds."""
        self._learn(condition)
        if self._either:
            self._settle()

    def _settle(self) -> None:
        """Learn the parts of alternatives whose other parts do not hold."""
        version, seen = -1, len(self.refined)
        while self._either and (version != self.version or seen != len(self.refined)):
            version, seen = self.version, len(self.refined)
            waiting, self._either = self._either, []
            for condition in waiting:
                parts = [part for part in condition.args if self.decide(self.simplify(part)) is not False]
                if len(parts) == 1:
                    self._learn(parts[0])
                elif not any(self.decide(self.simplify(part)) for part in parts):
                    self._either.append(condition)

    def _learn(self, condition: Any) -> None:
        condition = self.simplify(condition)
        if condition is S.true:
            return
        self._decided[condition] = True
        kind = condition.func
        if kind is sympy.And:
            for arg in condition.args:
                self.learn(arg)
        elif kind is sympy.Or:
            self._either.append(condition)
        elif kind is sympy.Not:
            self._decided[condition.args[0]] = False
        elif kind in RELATIONS and is_integral(condition):
            form = normal_form(condition)
            if not isinstance(form, bool):
                _LEARN[form[0]](self, form[1])

    def _learn_at_least_zero(self, difference: Expr) -> None:
        variable, constant = _parts(difference)
        if len(variable) == 1 and variable[0][1].is_Symbol:
            coefficient, symbol = variable[0]  # the coefficient is 1 or -1 in normal form
            self.refine(symbol, ValueRange(-constant, inf) if coefficient > 0 else ValueRange(-inf, constant))
            return
        rest = sum_of(variable)
        self._least[rest] = max(-constant, self._least.get(rest, -constant))

    def _learn_zero(self, difference: Expr) -> None:
        variable, constant = _parts(difference)
        symbol = self._solvable(variable)
        if symbol is not None:
            coefficient = next(c for c, m in variable if m == symbol)
            rest = sum_of([*((c, m) for c, m in variable if m != symbol), (constant, S.One)])
            self._replace(symbol, multiplied_out(-rest if coefficient > 0 else rest))
            return
        self._zeros.add(difference)
        if len(variable) == 1:
            coefficient, monomial = variable[0]
            self.replacements[monomial] = Integer(-constant // coefficient)
            if isinstance(monomial, Mod) and constant == 0:
                self._learn_divisible(*monomial.args)
            self._changed()

    def _learn_divisible(self, above: Expr, below: Expr) -> None:
        terms = terms_of(above)
        if below.is_Integer and len(terms) == 1:
            coefficient, monomial = terms[0]
            number = int(below) // gcd(int(below), coefficient)
            self.divisors[monomial] = lcm(number, self.divisors.get(monomial, 1))
            if monomial.is_Symbol:
                self.refine(monomial, UNKNOWN)

    def _learn_nonzero(self, difference: Expr) -> None:
        variable, constant = _parts(difference)
        self._nonzeros.add(difference)
        if len(variable) == 1 and variable[0][1].is_Symbol:
            symbol = variable[0][1]
            value = -constant // variable[0][0]
            span = self.ranges[symbol]
            if value == span.lower:
                self.refine(symbol, ValueRange(value + 1, inf))
            elif value == span.upper:
                self.refine(symbol, ValueRange(-inf, value - 1))

    def _solvable(self, variable: list[Term]) -> Symbol | None:
        """The latest symbol that an equation gives as an expression of the others; none that the run finds before one of those."""
        best = None
        last = max(
            (self.order.get(s, (False, 0)) for _, monomial in variable for s in monomial.free_symbols), default=None
        )
        found_by_run = last is not None and last[0]
        for coefficient, monomial in variable:
            if abs(coefficient) != 1 or not monomial.is_Symbol or monomial not in self.order:
                continue
            if found_by_run and self.order[monomial] != last:
                continue
            if any(monomial in other.free_symbols for _, other in variable if other is not monomial):
                continue
            if best is None or self.order[monomial] > self.order[best]:
                best = monomial
        return best

    def _replace(self, symbol: Symbol, value: Expr) -> None:
        one = {symbol: value}
        span = self.ranges[symbol]
        self.settled.append(symbol)
        for old, had in self.replacements.items():
            new = self.replacements[old] = had.xreplace(one)
            if old.is_Symbol and new.is_Integer and not had.is_Integer:
                self.ranges[old] = ValueRange(int(new), int(new))
                self.settled.append(old)
                self.refined.append(old)
        self.replacements[symbol] = value
        if value.is_Integer:
            self.ranges[symbol] = ValueRange(int(value), int(value))
            self.refined.append(symbol)
        divisor = self.divisors.get(symbol)
        self._changed()
        # What was known of the symbol holds for what it equals.
        if span.lower != -inf:
            self.learn(relation(sympy.Ge, value, Integer(span.lower)))
        if span.upper != inf:
            self.learn(relation(sympy.Le, value, Integer(span.upper)))
        if divisor is not None:
            self.learn(relation(sympy.Eq, Mod(value, Integer(divisor)), S.Zero))
        for old, new in list(self.replacements.items()):
            if not old.is_Symbol and symbol in old.free_symbols:
                self.learn(relation(sympy.Eq, old.xreplace(one), new))

    def refine(self, symbol: Symbol, span: ValueRange) -> None:
        """Narrow a symbol's range. Raises ValueError if nothing is left."""
        new = self.ranges[symbol].intersect(span)
        divisor = self.divisors.get(symbol)
        if divisor is not None:  # the ends are multiples of it, too
            low, high = new.lower, new.upper
            new = ValueRange(
                low if low == -inf else -(-low // divisor) * divisor, high if high == inf else high // divisor * divisor
            )
        if new == self.ranges[symbol]:
            return
        self.ranges[symbol] = new
        self.refined.append(symbol)
        if new.is_constant and symbol not in self.replacements:
            self._replace(symbol, Integer(new.lower))

    def _changed(self) -> None:
        self.version += 1
        self._simplified.clear()


_LEARN: dict[str, Any] = {
    "ge": Constraints._learn_at_least_zero,
    "eq": Constraints._learn_zero,
    "ne": Constraints._learn_nonzero,
}
