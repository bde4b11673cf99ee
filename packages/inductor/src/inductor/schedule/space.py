"""Iteration spaces and affine index expressions: the arithmetic behind "do these two loops visit the same elements?".

Flows in: loop variables with sizes, sympy index expressions. Flows out: `Index` (a canonical, hashable form that compares
in constant time), `Remap` (old loop variables as sums of new ones) and `align`, which finds a common refinement of two
spaces. Plain dictionaries of coefficients stand in for sympy here, since fusion compares thousands of indices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import sympy

from inductor.ir.operations import Expr, Symbol
from symshapes import dataclass, simplify_with_ranges

Number = Any
"""A size or coefficient: a Python int where it is known."""


def number(value: Expr | int) -> Number:
    """`value` as an int if it is one, so that arithmetic on it stays cheap."""
    if isinstance(value, int):
        return value
    return int(value) if value.is_Integer else value


@dataclass(frozen=True, slots=True)
class Dim:
    """One loop: its variable and how often it runs."""

    var: Symbol
    size: Number


Linear = tuple[tuple[Symbol, Number], ...]
"""A sum of coefficient times variable."""
Remap = Mapping[Symbol, Linear]
"""What each old loop variable is in terms of new ones."""


@dataclass(frozen=True, slots=True)
class Index:
    """An index expression: linear in some loop variables, plus a rest that may hold more of them (in floor divisions)."""

    coefficients: frozenset[tuple[Symbol, Number]]
    rest: Number

    def coefficient(self, var: Symbol) -> Number:
        """What the index moves by where the variable moves by one, in elements."""
        return dict(self.coefficients).get(var, 0)

    def expr(self) -> Expr:
        """As sympy."""
        return _expr_of(self)


@lru_cache(maxsize=1 << 16)
def _expr_of(index: Index) -> Expr:
    return sympy.Add(*(sympy.sympify(c) * v for v, c in index.coefficients), sympy.sympify(index.rest))


@lru_cache(maxsize=1 << 16)
def index_of(expr: Expr, variables: frozenset[Symbol]) -> Index:
    """Split `expr` into its linear part over `variables` and the rest."""
    if not expr.is_Add and not expr.is_Mul and not expr.is_Symbol:
        return Index(frozenset(), number(expr))
    if any(isinstance(term, sympy.Mul) and any(f.is_Add for f in term.args) for term in sympy.Add.make_args(expr)):
        expr = sympy.expand(expr, deep=False)
    coefficients: dict[Symbol, Number] = {}
    rest: list[Expr] = []
    for term in sympy.Add.make_args(expr):
        found = [s for s in sympy.Mul.make_args(term) if s in variables]
        if len(found) != 1:
            rest.append(term)
            continue
        # A factor is what is left of a product without it; to divide by it imports much of sympy.
        factor = sympy.Mul(*(part for part in sympy.Mul.make_args(term) if part != found[0]))
        if not variables.isdisjoint(factor.free_symbols):
            rest.append(term)
            continue
        coefficients[found[0]] = number(number(factor) + coefficients.get(found[0], 0))
    return Index(frozenset((v, c) for v, c in coefficients.items() if c != 0), number(sympy.Add(*rest)))


def remap_index(index: Index, remap: Remap, variables: frozenset[Symbol], sizes: Mapping[Symbol, Number]) -> Index:
    """`index` over new loop variables.

    Args:
        variables: the new ones.
        sizes: their sizes, for simplifying divisions.
    """
    return _remapped(index, tuple(remap.items()), variables, tuple(sizes.items()))


@lru_cache(maxsize=1 << 16)
def _remapped(
    index: Index,
    pairs: tuple[tuple[Symbol, Linear], ...],
    variables: frozenset[Symbol],
    sizes: tuple[tuple[Symbol, Number], ...],
) -> Index:
    remap = dict(pairs)
    coefficients: dict[Symbol, Number] = {}
    for var, coefficient in index.coefficients:
        for new, factor in remap.get(var, ((var, 1),)):
            coefficients[new] = number(coefficients.get(new, 0) + coefficient * factor)
    rest = index.rest
    if not isinstance(rest, int) and not rest.free_symbols.isdisjoint(remap):
        replaced = simplify_with_ranges(
            rest.xreplace({old: linear_expr(new) for old, new in remap.items()}), dict(sizes)
        )
        more = index_of(replaced, variables)
        rest = more.rest
        for var, coefficient in more.coefficients:
            coefficients[var] = number(coefficients.get(var, 0) + coefficient)
    return Index(frozenset((v, c) for v, c in coefficients.items() if c != 0), rest)


def linear_expr(linear: Linear) -> Expr:
    """The sum as a sympy expression."""
    return sympy.Add(*(sympy.sympify(c) * v for v, c in linear))


@lru_cache(maxsize=1 << 14)
def exact_quotient(a: Number, b: Number) -> Expr | None:
    """a / b where that is certainly an integer expression, else None."""
    quotient = sympy.sympify(a) / sympy.sympify(b)
    if quotient.is_Integer:
        return quotient
    if quotient.is_Rational:
        return None
    numerator, denominator = quotient.as_numer_denom()
    return numerator if denominator == 1 else None


@dataclass(frozen=True)
class Alignment:
    """Two spaces as one: every dim of the frame split into `pieces`, every variable of the other in terms of these."""

    pieces: tuple[tuple[Dim, ...], ...]
    """For each frame dim its new dims, outermost first; a frame dim of size 1 has none."""
    frame: dict[Symbol, Linear]
    other: dict[Symbol, Linear]

    @property
    def splits(self) -> bool:
        """Whether a frame dim was divided or (of size 1) dropped, so that the frame's own indices have to be rewritten."""
        return any(len(piece) != 1 for piece in self.pieces)


def align(frame: Sequence[Dim], other: Sequence[Dim], fresh: Iterable[Symbol]) -> Alignment | None:
    """The common refinement of two loop nests that count through the same number of points in row-major order.

    (A*B,) and (A, B) refine to (A, B); (6, 4) and (2, 12) to (2, 3, 4). None where sizes don't divide, or where it
    can't be decided for symbolic sizes.

    Args:
        fresh: supply of symbols for new loops; a frame dim that stays whole keeps its own.
    """
    names = iter(fresh)
    left = [(d, number(d.size)) for d in frame if d.size != 1]
    right = [(d, number(d.size)) for d in other if d.size != 1]
    cuts: list[tuple[Dim, Dim, Number]] = []  # (frame dim, other dim, size), innermost first
    a, b = len(left) - 1, len(right) - 1
    rest_a = left[a][1] if a >= 0 else 1
    rest_b = right[b][1] if b >= 0 else 1
    while a >= 0 and b >= 0:
        if rest_a == rest_b:
            cuts.append((left[a][0], right[b][0], rest_a))
            a, b = a - 1, b - 1
            rest_a = left[a][1] if a >= 0 else 1
            rest_b = right[b][1] if b >= 0 else 1
        elif (quotient := _divides(rest_a, rest_b)) is not None:
            cuts.append((left[a][0], right[b][0], rest_b))
            rest_a, b = quotient, b - 1
            rest_b = right[b][1] if b >= 0 else 1
        elif (quotient := _divides(rest_b, rest_a)) is not None:
            cuts.append((left[a][0], right[b][0], rest_a))
            rest_b, a = quotient, a - 1
            rest_a = left[a][1] if a >= 0 else 1
        else:
            return None
    if a >= 0 or b >= 0:
        return None

    pieces: dict[Symbol, list[Dim]] = {d.var: [] for d in frame}
    others: dict[Symbol, list[Dim]] = {d.var: [] for d in other}
    for dim_a, dim_b, size in cuts:
        piece = Dim(dim_a.var if size == number(dim_a.size) else next(names), size)
        pieces[dim_a.var].insert(0, piece)
        others[dim_b.var].insert(0, piece)
    return Alignment(
        tuple(tuple(pieces[d.var]) for d in frame),
        {var: _weighted(dims) for var, dims in pieces.items()},
        {var: _weighted(dims) for var, dims in others.items()},
    )


def _divides(a: Number, b: Number) -> Number | None:
    """a / b if that is an integer other than 1, else None."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    quotient = exact_quotient(a, b)
    return None if quotient is None else number(quotient)


def _weighted(dims: Sequence[Dim]) -> Linear:
    """Row-major position in `dims` as a linear form."""
    result: list[tuple[Symbol, Number]] = []
    weight: Number = 1
    for dim in reversed(dims):
        result.append((dim.var, weight))
        weight = _times(weight, dim.size)
    return tuple(reversed(result))


def _times(a: Number, b: Number) -> Number:
    return a * b if isinstance(a, int) and isinstance(b, int) else _times_symbol(a, b)


@lru_cache(maxsize=1 << 14)
def _times_symbol(a: Number, b: Number) -> Number:
    return number(a * b)


def product(sizes: Iterable[Number]) -> Number:
    """The product of the sizes, a number where all are known; 1 of none."""
    result: Number = 1
    for size in sizes:
        result = _times(result, size)
    return result


SYMBOL_HINT = 64
"""Stands for an unknown size in estimates of traffic (only ever used for choosing, not for correctness)."""


@lru_cache(maxsize=1 << 14)
def estimate(size: Number) -> int:
    """A guess at a symbolic size."""
    if isinstance(size, int):
        return size
    guess = size.xreplace({s: sympy.Integer(SYMBOL_HINT) for s in size.free_symbols})
    return int(guess) if guess.is_Integer else SYMBOL_HINT
