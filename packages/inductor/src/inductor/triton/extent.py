"""How far a kernel reaches: its outer and inner points, and the largest position it computes.

Flows in: a `Kernel`. Flows out: `Extent`, in numbers where they are known, and as a function of the kernel's arguments.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import sympy
import torch

from inductor.device import Kernel
from inductor.ir.indexing import product
from inductor.ir.operations import Expr, IndexExpr, Indirect, Load, Op, Store, Symbol
from symshapes import FloorDiv, Mod, build_python, dataclass, print_expr

Measure = Callable[..., tuple[tuple[int, ...], int, int | None]]
"""Of a kernel's numbers, in order: outer sizes, inner points, largest position if that can be told."""


@dataclass(frozen=True)
class Extent:
    """Of one kernel."""

    outer: tuple[Expr, ...]
    inner: Expr
    bounds: tuple[Expr, ...] | None
    """No position is larger in absolute value than the largest of these, nor any number on the way to one, if their symbols
    are taken for their absolute values. None: that can't be told."""
    reduces: bool
    """There is an inner space."""
    numbers: tuple[str, ...]
    """The kernel's arguments that are numbers."""

    @property
    def known(self) -> tuple[tuple[int | None, ...], int | None, int | None]:
        """Outer sizes, inner points, largest position; None where only the numbers tell."""
        told = self.bounds is not None and all(bound.is_Integer for bound in self.bounds)
        return (
            tuple(map(_int, self.outer)),
            _int(self.inner),
            max(map(int, self.bounds or ()), default=0) if told else None,
        )

    def measure(self) -> Measure:
        """All three by the numbers."""
        bounds = dict.fromkeys(map(print_expr, self.bounds or ()))
        largest = "None" if self.bounds is None else f"max(0, {', '.join(bounds)})"
        lines = [f"sizes, row = ({''.join(f'{print_expr(size)}, ' for size in self.outer)}), {print_expr(self.inner)}"]
        lines += [f"{name} = abs({name})" for name in self.numbers]
        lines += [f"return sizes, row, {largest}"]
        text = "\n    ".join([f"def measure({', '.join(self.numbers)}):", *lines]) + "\n"
        names = {"math": math, "operator": operator, "abs": abs, "max": max, "min": min}
        made: Measure = build_python(text, names, entry="measure", title="extent")
        return made


def extent_of(kernel: Kernel) -> Extent:
    """How far `kernel` reaches."""
    body = kernel.body
    sizes = dict(zip(body.outer_vars, kernel.outer_sizes, strict=True))
    sizes |= dict(zip(body.inner_vars, kernel.inner_sizes, strict=True))
    last = {var: size - 1 for var, size in sizes.items()}
    last |= {op.symbol: op.size - 1 for op in body.ops if isinstance(op, Indirect)}
    indices = [op.index for op in body.ops if op.index is not None and not _is_float(op)]
    indices += [op.size for op in body.ops if isinstance(op, Indirect)]
    outer, inner = tuple(kernel.outer_sizes), product(kernel.inner_sizes)
    try:
        bounds = tuple(
            dict.fromkeys(_magnitude(expr, last) for expr in dict.fromkeys([*indices, product(outer), inner]))
        )
    except _Unbounded:
        bounds = None
    numbers = tuple(arg.name for arg in kernel.args if arg.role == "size")
    return Extent(outer, inner, bounds, bool(kernel.inner_sizes), numbers)


def reach_of(kernel: Kernel) -> dict[str, int]:
    """For each buffer of a kernel of known sizes how many elements from its start on it may touch.

    Raises:
        ValueError: that can't be told.
    """
    body = kernel.body
    sizes = zip((*body.outer_vars, *body.inner_vars), (*kernel.outer_sizes, *kernel.inner_sizes), strict=True)
    last = {var: size - 1 for var, size in sizes}
    found: dict[str, int] = {}
    for op in body.ops:
        if isinstance(op, Load | Store):
            try:
                end = _magnitude(op.index, last)
            except _Unbounded:
                end = op.index
            if not end.is_Integer:
                raise ValueError(f"no bound is known of {op.index}")
            found[op.buffer] = max(found.get(op.buffer, 0), int(end) + 1)
    return found


def _is_float(op: Op) -> bool:
    """Whether it is a number that is a float to Python, and no position."""
    return isinstance(op, IndexExpr) and op.dtype is torch.float64 and bool(op.index.is_Symbol)


def _int(expr: Expr) -> int | None:
    return int(expr) if expr.is_Integer else None


class _Unbounded(Exception):
    """Nothing is known of an expression's size."""


def _magnitude(expr: Expr, last: Mapping[Symbol, Expr]) -> Expr:
    """A bound of the absolute value of everything computed on the way to an index, in whatever order: terms may cancel only
    in the end. `last`: the largest value of each index symbol."""
    if expr.is_Integer:
        return abs(expr)
    if expr.is_Symbol:
        largest = last.get(expr)
        return expr if largest is None else _magnitude(largest, {})
    combine = _MAGNITUDES.get(expr.func)
    if combine is None:
        raise _Unbounded
    parts = [_magnitude(arg, last) for arg in expr.args]
    if all(part.is_Integer for part in parts) and expr.func is not sympy.Pow:
        # By Python's numbers: the first sum of sympy's imports much of it.
        return sympy.Integer(_OF_NUMBERS.get(expr.func, max)(list(map(int, parts))))
    return combine(*parts)


_OF_NUMBERS: dict[Any, Callable[[list[int]], int]] = {sympy.Add: sum, sympy.Mul: math.prod}
_MAGNITUDES: dict[Any, Callable[..., Expr]] = {
    sympy.Add: sympy.Add,
    sympy.Mul: sympy.Mul,
    sympy.Pow: sympy.Pow,
    **dict.fromkeys((FloorDiv, Mod, sympy.Max, sympy.Min, sympy.Abs), sympy.Max),
}
"""How large a function's value is at most, by how large its arguments are."""
