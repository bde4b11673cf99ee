"""`FloorDiv` and `Mod` over the integers with Python's signs, simplified when they are built.

Flows in: integers and sympy integer expressions. Flows out: canonical sympy expressions, memoised.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sympy import Expr, Function, Integer, Mul, S, div, sympify

from symshapes.expr import terms
from symshapes.expr.terms import Term, common_factor, content, exact_quotient, sum_of, terms_of


def as_expr(value: Any) -> Expr:
    """A Python or sympy number as a sympy expression."""
    if isinstance(value, Expr):
        return value
    if type(value) is int:
        return _integer(value)
    return sympify(value)


_integer = lru_cache(maxsize=1 << 12)(Integer)


class FloorDiv(Function):
    """`numerator // denominator` over the integers, rounding towards minus infinity.

    Raises ZeroDivisionError for a denominator that is the constant zero.
    """

    nargs = (2,)
    is_integer = True
    is_commutative = True

    def __new__(cls, numerator: Any, denominator: Any, **_: Any) -> Expr:
        return _floor_div(as_expr(numerator), as_expr(denominator))

    def _eval_is_nonnegative(self) -> bool | None:
        above, below = self.args
        if above.is_nonnegative and below.is_positive:
            return True
        return None

    def _eval_is_negative(self) -> bool | None:
        above, below = self.args
        if below.is_positive:
            return above.is_negative
        return None


class Mod(Function):
    """`dividend % divisor` over the integers, with the sign of the divisor.

    Raises ZeroDivisionError for a divisor that is the constant zero.
    """

    nargs = (2,)
    is_integer = True
    is_commutative = True

    def __new__(cls, dividend: Any, divisor: Any, **_: Any) -> Expr:
        return _mod(as_expr(dividend), as_expr(divisor))

    def _eval_is_nonnegative(self) -> bool | None:
        return True if self.args[1].is_positive else None

    def _eval_is_nonpositive(self) -> bool | None:
        return True if self.args[1].is_negative else None


def opaque(kind: type[Function], *args: Expr) -> Expr:
    """The application as it stands, without simplification."""
    return Expr.__new__(kind, *args)


@lru_cache(maxsize=1 << 16)
def _floor_div(above: Expr, below: Expr) -> Expr:
    if below.is_Integer:
        number = int(below)
        if number == 0:
            raise ZeroDivisionError(f"{above} // 0")
        if above.is_Integer:
            return Integer(int(above) // number)
        if number == 1:
            return above
        if number < 0:
            return _floor_div(-above, Integer(-number))  # floor(a / -n) == floor(-a / n)
        return _floor_div_by_number(above, number)
    if above is S.Zero:
        return above
    if above == below:
        return S.One
    return _floor_div_by_symbols(above, below)


def _floor_div_by_number(above: Expr, number: int) -> Expr:
    whole: list[Term] = []
    rest: list[Term] = []
    constant = 0
    for coefficient, monomial in terms_of(above):
        if monomial is S.One:
            constant = coefficient
        elif coefficient % number == 0:
            whole.append((coefficient // number, monomial))
        else:
            rest.append((coefficient, monomial))
    carry, constant = divmod(constant, number)
    if carry:
        whole.append((carry, S.One))
    if not rest:  # what is left is a constant below the divisor
        return sum_of(whole)
    # floor((g*r + c) / (g*n)) == floor((r + floor(c / g)) / n): a common factor drops out, the constant rounds down.
    common = content(rest, number)
    if common > 1:
        rest = [(coefficient // common, monomial) for coefficient, monomial in rest]
        constant //= common
        number //= common
    if number == 1:
        return sum_of([*whole, *rest, (constant, S.One)])
    if constant:
        rest.append((constant, S.One))
    quotient = _nested_floor_div(sum_of(rest), number)
    return sum_of([*whole, *terms_of(quotient)]) if whole else quotient


def _nested_floor_div(above: Expr, number: int) -> Expr:
    """`above // number` where no term of `above` divides; folds a division or a remainder directly inside."""
    if isinstance(above, FloorDiv):
        inner, divisor = above.args
        return _floor_div(inner, Mul(divisor, Integer(number)))  # floor(floor(y) / n) == floor(y / n) for n > 0
    if isinstance(above, Mod):
        inner, modulus = above.args
        if modulus.is_Integer and int(modulus) > 0:
            size = int(modulus)
            if size <= number:
                return S.Zero
            if size % number == 0:  # (x % (k*n)) // n == (x // n) % k
                return _mod(_floor_div(inner, Integer(number)), Integer(size // number))
    return opaque(FloorDiv, above, Integer(number))


def _split(above: Expr, below: Expr) -> tuple[list[Expr], list[Expr]]:
    """The terms' exact quotients by `below`, and the terms that have none."""
    whole: list[Expr] = []
    rest: list[Expr] = []
    for term in above.args if above.is_Add else (above,):
        quotient = exact_quotient(term, below)
        if quotient is None:
            rest.append(term)
        else:
            whole.append(quotient)
    return whole, rest


def _cancelled(above: Expr, below: Expr) -> tuple[Expr, Expr, Expr] | None:
    """(g, above/g, below/g) for a common factor g that is not a number's unit, if there is one."""
    if not above.free_symbols & below.free_symbols and content(terms_of(above), content(terms_of(below))) == 1:
        return None
    common = common_factor(above, below)
    if common == 1 or common == -1:
        return None
    first, second = exact_quotient(above, common), exact_quotient(below, common)
    if first is None or second is None:
        first, second = _polynomial_quotient(above, common), _polynomial_quotient(below, common)
    return common, first, second


def _polynomial_quotient(above: Expr, below: Expr) -> Expr:
    quotient, remainder = div(above, below, domain="ZZ")
    if remainder != 0:
        raise ArithmeticError(f"{below} is no factor of {above}")
    return quotient


def _floor_div_by_symbols(above: Expr, below: Expr) -> Expr:
    exact = exact_quotient(above, below)
    if exact is not None:
        return exact
    if above is S.NegativeOne and below.is_positive:
        return above  # so that a length rounded up to a multiple of its part is that
    whole, rest = _split(above, below)
    if whole:
        return sum(whole, S.Zero) + _floor_div(sum(rest, S.Zero), below)
    found = _cancelled(above, below)
    if found is not None:
        return _floor_div(found[1], found[2])
    if isinstance(above, FloorDiv) and below.is_positive:
        inner, divisor = above.args
        return _floor_div(inner, Mul(divisor, below))
    return opaque(FloorDiv, above, below)


@lru_cache(maxsize=1 << 16)
def _mod(above: Expr, below: Expr) -> Expr:
    if below.is_Integer:
        number = int(below)
        if number == 0:
            raise ZeroDivisionError(f"{above} % 0")
        if above.is_Integer:
            return Integer(int(above) % number)
        if number == 1 or number == -1:
            return S.Zero
        if number < 0:
            return -_mod(-above, Integer(-number))  # a % -n == -((-a) % n)
        return _mod_by_number(above, number)
    if above is S.Zero or above == below:
        return S.Zero
    return _mod_by_symbols(above, below)


def _mod_by_number(above: Expr, number: int) -> Expr:
    rest: list[Term] = []
    constant = 0
    changed = False
    for coefficient, monomial in terms_of(above):
        if monomial is S.One:
            constant = coefficient % number
            continue
        # Only the coefficient's residue matters; its sign is kept, so that x - y stays x - y.
        residue = coefficient % number if coefficient > 0 else -(-coefficient % number)
        if not residue:
            continue
        if isinstance(monomial, Mod):  # c * (y % m) == c * y modulo n, where n divides c*m
            inner, modulus = monomial.args
            if modulus.is_Integer and (residue * int(modulus)) % number == 0:
                rest += [(residue * factor, part) for factor, part in terms_of(inner)]
                changed = True
                continue
        rest.append((residue, monomial))
    if not rest:
        return Integer(constant)
    if changed:
        rest.append((constant, S.One))
        return _mod(sum_of(rest), Integer(number))
    # (g*r + c) % (g*n) == g * ((r + c // g) % n) + c % g
    common = content(rest, number)
    if common > 1:
        rest = [(coefficient // common, monomial) for coefficient, monomial in rest]
        carry, constant = divmod(constant, common)
        number //= common
        rest.append((carry, S.One))
        inner_mod = S.Zero if number == 1 else _mod(sum_of(rest), Integer(number))
        return sum_of([(common, inner_mod), (constant, S.One)])
    if constant:
        rest.append((constant, S.One))
    return opaque(Mod, sum_of(rest), Integer(number))


def _mod_by_symbols(above: Expr, below: Expr) -> Expr:
    if exact_quotient(above, below) is not None:
        return S.Zero
    whole, rest = _split(above, below)
    if whole:
        return _mod(sum(rest, S.Zero), below)
    if isinstance(above, Mod) and exact_quotient(above.args[1], below) is not None:
        return _mod(above.args[0], below)
    found = _cancelled(above, below)
    if found is not None:  # (g*a) % (g*b) == g * (a % b), for either sign of g
        return found[0] * _mod(found[1], found[2])
    return opaque(Mod, above, below)


def reset_caches() -> None:
    """Forget all memoised divisions and remainders."""
    for memo in (_floor_div, _mod):
        memo.cache_clear()
    terms.reset_caches()
