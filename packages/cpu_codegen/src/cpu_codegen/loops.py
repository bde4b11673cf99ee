"""Loops and their simplification: those of size 1 dropped, neighbours merged where every index allows it."""

from __future__ import annotations

import sympy

from cpu_codegen.index import Expr, Symbol, stride
from inductor import Body, Kernel, Reduce
from symshapes import dataclass


@dataclass(frozen=True)
class Loop:
    """One loop over [0, size)."""

    variable: Symbol
    size: Expr

    @property
    def static(self) -> int | None:
        """The size if it is known."""
        return int(self.size) if self.size.is_Integer else None


def product(loops: tuple[Loop, ...]) -> int | None:
    """Number of points of all loops together, if it is known."""
    total = 1
    for loop in loops:
        if loop.static is None:
            return None
        total *= loop.static
    return total


def simplify(kernel: Kernel) -> tuple[Body, tuple[Loop, ...], tuple[Loop, ...]]:
    """The kernel's body without loops of size 1, adjacent loops merged, over variables d0, d1, ... and r0, r1, ..."""
    body = kernel.body
    outer = [Loop(v, sympy.sympify(s)) for v, s in zip(body.outer_vars, kernel.outer_sizes, strict=True)]
    inner = [Loop(v, sympy.sympify(s)) for v, s in zip(body.inner_vars, kernel.inner_sizes, strict=True)]
    reduces = any(isinstance(op, Reduce) for op in body.ops) or bool(inner)
    zero = sympy.S.Zero
    values: dict[Symbol, Expr] = {loop.variable: zero for loop in (*outer, *inner) if loop.static == 1}
    outer = [loop for loop in outer if loop.static != 1]
    inner = [loop for loop in inner if loop.static != 1]
    body = body.substitute(values, [loop.variable for loop in outer], [loop.variable for loop in inner])
    indices = [op.index for op in body.ops if op.index is not None]
    outer, indices, merged_outer = _merge(outer, indices)
    inner, indices, merged_inner = _merge(inner, indices)
    for merge in (merged_outer, merged_inner):
        for step in merge:
            body = body.substitute(step, [], [])
    # A loop of size 1 stands in where none is left: printing then knows one shape only.
    if not outer:
        outer = [Loop(sympy.Symbol("none"), sympy.S.One)]
    if not inner and reduces:
        inner = [Loop(sympy.Symbol("none_inner"), sympy.S.One)]
    names = {
        loop.variable: sympy.Symbol(f"{prefix}{k}", integer=True, nonnegative=True)
        for prefix, loops in (("d", outer), ("r", inner))
        for k, loop in enumerate(loops)
    }
    # Through fresh symbols: an old variable may bear the name of a new one.
    fresh = {old: sympy.Dummy(integer=True, nonnegative=True) for old in names}
    body = body.substitute(fresh, [], [])
    body = body.substitute(
        {fresh[old]: new for old, new in names.items()},
        [names[loop.variable] for loop in outer],
        [names[loop.variable] for loop in inner],
    )
    return (
        body,
        tuple(Loop(names[loop.variable], loop.size) for loop in outer),
        tuple(Loop(names[loop.variable], loop.size) for loop in inner),
    )


def merged(body: Body, outer: tuple[Loop, ...]) -> tuple[Body, tuple[Loop, ...]]:
    """A body without inner loops, with neighbouring loops merged."""
    loops, _, steps = _merge(list(outer), [op.index for op in body.ops if op.index is not None])
    for step in steps:
        body = body.substitute(step, [loop.variable for loop in loops], [])
    return body, tuple(loops)


def _merge(loops: list[Loop], indices: list[Expr]) -> tuple[list[Loop], list[Expr], list[dict[Symbol, Expr]]]:
    """Merge neighbours (a, b) where every index moves by size(b) times as much in a as in b."""
    steps: list[dict[Symbol, Expr]] = []
    k = len(loops) - 2
    while k >= 0:
        a, b = loops[k], loops[k + 1]
        if all(_mergeable(e, a, b) for e in indices):
            step = {a.variable: sympy.S.Zero}
            indices = [e.xreplace(step) for e in indices]
            loops = [*loops[:k], Loop(b.variable, sympy.expand(a.size * b.size)), *loops[k + 2 :]]
            steps.append(step)
        k -= 1
    return loops, indices, steps


def _mergeable(expr: Expr, a: Loop, b: Loop) -> bool:
    symbols = expr.free_symbols
    if a.variable not in symbols and b.variable not in symbols:
        return True
    step_a, step_b = stride(expr, a.variable), stride(expr, b.variable)
    return (
        step_a is not None
        and step_b is not None
        and {a.variable, b.variable}.isdisjoint(step_a.free_symbols | step_b.free_symbols)
        and sympy.expand(step_a - step_b * b.size) == 0
    )
