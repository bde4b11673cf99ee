"""Canonical loops: order of the dimensions, and adjacent dimensions merged where every access allows it.

Flows in: a recorded body with one variable per dimension. Flows out: the same body over fewer, longer loops. Index
expressions are taken apart once into linear forms, since general simplification would cost more than the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache

import sympy

from inductor.ir.body import Body
from inductor.ir.digits import split
from inductor.ir.indexing import same
from inductor.ir.operations import Expr, Symbol
from symshapes import FloorDiv, Mod, dataclass


@cache
def outer_symbol(at: int) -> Symbol:
    """The variable of an outer loop, by its number."""
    return sympy.Symbol(f"i{at}", integer=True, nonnegative=True)


@cache
def inner_symbol(at: int) -> Symbol:
    """The variable of an inner loop (of a reduction), by its number."""
    return sympy.Symbol(f"r{at}", integer=True, nonnegative=True)


@dataclass
class Linear:
    """Sum of coefficient * loop variable, of factor * function(linear, divisor), and of what has no loop variable."""

    coefficients: dict[Symbol, Expr]
    nested: list[tuple[Expr, Callable[[Expr, Expr], Expr], Linear, Expr]]
    rest: list[Expr]
    whole: list[Expr]
    """Terms with loop variables used in a way not taken apart."""
    stuck: set[Symbol]
    """Those variables."""

    def forms(self) -> Iterator[Linear]:
        """This sum and all that stand within its functions."""
        yield self
        for _, _, inner, _ in self.nested:
            yield from inner.forms()

    def rebuild(self, replaced: dict[Symbol, Expr | None]) -> Expr:
        """The expression with each variable replaced; None drops its term."""
        terms = list(self.rest)
        if self.whole:
            renamed = {old: new for old, new in replaced.items() if new is not None}
            terms.extend(term.xreplace(renamed) for term in self.whole)
        for symbol, coefficient in self.coefficients.items():
            new = replaced.get(symbol, symbol)
            if new is not None:
                terms.append(coefficient * new)
        for factor, function, inner, divisor in self.nested:
            terms.append(factor * function(inner.rebuild(replaced), divisor))
        return sympy.Add(*terms)


@lru_cache(maxsize=1 << 12)
def take_apart(expr: Expr, variables: frozenset[Symbol]) -> Linear:
    """The linear form; the same layer twelve times asks for it once. Not to be changed by the caller."""
    linear = Linear({}, [], [], [], set())
    for term in sympy.Add.make_args(expr):
        if term in variables:
            linear.coefficients[term] = linear.coefficients.get(term, sympy.S.Zero) + 1
            continue
        used = term.free_symbols & variables
        if not used:
            linear.rest.append(term)
            continue
        varying = [f for f in sympy.Mul.make_args(term) if f.free_symbols & variables]
        core = varying[0]
        factor = term / core
        if len(varying) > 1:
            linear.stuck |= used
            linear.whole.append(term)
        elif core.is_Symbol:
            linear.coefficients[core] = linear.coefficients.get(core, sympy.S.Zero) + factor
        elif isinstance(core, FloorDiv | Mod) and not core.args[1].free_symbols & variables:
            inner = take_apart(core.args[0], variables)
            linear.nested.append((factor, type(core), inner, core.args[1]))
        else:
            linear.stuck |= used
            linear.whole.append(term)
    return linear


@lru_cache(maxsize=1 << 14)
def _rebuilt(index: Expr, variables: frozenset[Symbol], replaced: tuple[tuple[Symbol, Expr | None], ...]) -> Expr:
    return take_apart(index, variables).rebuild(dict(replaced))


def _merged(variables: Sequence[Symbol], sizes: Sequence[Expr], forms: Sequence[Linear]) -> list[list[int]]:
    """Runs of adjacent variables that every linear form lets become one."""

    def joins(a: int, b: int) -> bool:
        for form in forms:
            if variables[a] in form.stuck or variables[b] in form.stuck:
                return False
            left = form.coefficients.get(variables[a], sympy.S.Zero)
            right = form.coefficients.get(variables[b], sympy.S.Zero)
            if not same(left, right * sizes[b]):
                return False
        return True

    runs: list[list[int]] = []
    for at in range(len(variables)):
        if runs and joins(at - 1, at):
            runs[-1].append(at)
        else:
            runs.append([at])
    return runs


def canonicalise(
    body: Body,
    outer_sizes: Sequence[Expr],
    inner_sizes: Sequence[Expr],
    hint: Callable[[Expr], int],
    keep_inner_order: bool,
) -> tuple[Body, tuple[Expr, ...], tuple[Expr, ...]]:
    """The body with inner loops ordered by the strides of what it loads (unless `keep_inner_order`), adjacent loops merged, and
    variables numbered anew. Returns (body, outer sizes, inner sizes)."""
    body, outer_sizes, inner_sizes = split(body, outer_sizes, inner_sizes)
    variables = frozenset(body.outer_vars) | frozenset(body.inner_vars)
    if not variables:
        return body, (), ()
    apart: dict[Expr, Linear] = {}
    for op in body.ops:
        if op.index is not None and op.index not in apart:
            apart[op.index] = take_apart(op.index, variables)
    inner = list(range(len(body.inner_vars)))
    if len(inner) > 1 and not keep_inner_order:
        inner = _inner_order(body, apart, hint)
    forms = [form for linear in apart.values() for form in linear.forms()]
    replaced: dict[Symbol, Expr | None] = {}
    new_sizes: list[tuple[Expr, ...]] = []
    new_vars: list[tuple[Symbol, ...]] = []
    for olds, sizes, symbol in (
        (body.outer_vars, outer_sizes, outer_symbol),
        (tuple(body.inner_vars[k] for k in inner), [inner_sizes[k] for k in inner], inner_symbol),
    ):
        runs = _merged(olds, sizes, forms)
        for at, run in enumerate(runs):
            # Joined coefficients are multiples of the last one's, so the last carries the new variable alone.
            replaced.update({olds[k]: None for k in run[:-1]})
            replaced[olds[run[-1]]] = symbol(at)
        new_sizes.append(tuple(sympy.Mul(*(sizes[k] for k in run)) for run in runs))
        new_vars.append(tuple(symbol(at) for at in range(len(runs))))
    if all(old is new for old, new in replaced.items()):
        return body, tuple(outer_sizes), tuple(inner_sizes)
    renamed = tuple(replaced.items())
    ops = tuple(op.with_index(lambda index: _rebuilt(index, variables, renamed)) for op in body.ops)
    return Body(new_vars[0], new_vars[1], ops), new_sizes[0], new_sizes[1]


def _inner_order(body: Body, apart: dict[Expr, Linear], hint: Callable[[Expr], int]) -> list[int]:
    """Inner loops by descending stride of the load that uses most of them."""
    best: dict[Symbol, int] = {}
    for op in body.loads():
        linear = apart[op.index]
        strides = {v: abs(hint(c)) for v, c in linear.coefficients.items() if v in body.inner_vars}
        if len(strides) > len(best):
            best = strides
    order = range(len(body.inner_vars))
    return sorted(order, key=lambda k: -best.get(body.inner_vars[k], 0))
