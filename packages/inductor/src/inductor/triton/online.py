"""Two walks over a row that are one: what the second sums needs what the first found, but what is known so far does, too, if sums are
mended where more becomes known (a softmax's sum of exponentials under the largest value, a variance under the mean).

Flows in: a body and the plan of its passes. Flows out: which passes are walked together, and the lines of that walk: each lane of a
block has numbers of its own, which are put together in the end. A block's points are shared among as many lanes as threads read at once,
so that a thread has few numbers of its own, and looks at all of its points before it mends them.

Sums of squares: B. P. Welford, "Note on a method for calculating corrected sums of squares and products" (1962), in each lane; lanes by
T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979). Sums of
exponentials: M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax" (2018).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch

from inductor.ir.body import Body
from inductor.ir.operations import Constant, Elementwise, Expr, Op, Ref, Scan, Store
from inductor.levels import Levels
from symshapes import dataclass


@dataclass(frozen=True)
class Online:
    """Two reductions that depend on each other, of the same values."""

    kind: Literal["exponentials", "squares"]
    value: Ref
    first: int
    """Position of the `reduce` for the largest value, or the sum."""
    second: int
    """That of the `reduce` for the sum of exponentials, or of squares, of differences from it."""

    @property
    def beginning(self) -> Iterator[str]:
        """Before the walk."""
        for name in self._names:
            start = "float('-inf')" if self.kind == "exponentials" and name == f"a{self.first}" else "0"
            yield f"{name} = tl.full([XBLOCK, LANES], {start}, tl.float32)"

    @property
    def _names(self) -> list[str]:
        """What a lane has: of squares the mean, too."""
        mean = [f"m{self.first}"] if self.kind == "squares" else []
        return [f"a{self.first}", *mean, f"a{self.second}"]

    def step(self, value: str, start: str) -> str:
        """With a block of values, the one that begins at `start`."""
        held = ", ".join(self._names)
        if self.kind == "exponentials":
            return f"{held} = library.add_exponentials({held}, tl.where(r_mask, {value}, float('-inf')))"
        return f"{held} = prelude.add_squares({held}, {value}, r_mask, {start}, r_count)"

    @property
    def ending(self) -> str:
        """After it: the two results."""
        held = ", ".join(self._names)
        if self.kind == "exponentials":
            return f"v{self.first}, v{self.second} = library.all_exponentials({held})"
        return f"v{self.first}, v{self.second} = prelude.all_squares({held}, r_count)"


def lanes(read: int) -> str:
    """The line that says how many lanes a block has.

    Args:
        read: points that a thread reads at once.
    """
    return (
        f"LANES: tl.constexpr = RBLOCK if RBLOCK < {read} * library.num_threads() else {read} * library.num_threads()"
    )


def walked_together(body: Body, plan: Levels, k: int, count: Expr) -> list[Online]:
    """How pass `k` does what pass `k + 1` is for, too; nothing if it can't.

    Args:
        count: points of a row.
    """
    if k + 1 >= len(plan.passes):
        return []
    walk, after = plan.passes[k], plan.passes[k + 1]
    if any(isinstance(body.ops[at], Store | Scan) for at in (*walk.ops, *after.ops)):
        return []
    found = [_online(body, walk.reductions, at, count) for at in after.reductions]
    known = [one for one in found if one is not None]
    alone = len(known) == len(found) == len(walk.reductions) and {one.first for one in known} == set(walk.reductions)
    return known if alone else []


def _online(body: Body, before: tuple[int, ...], at: int, count: Expr) -> Online | None:
    """Of a `reduce` that needs one of those `before`."""
    total = body.reduction(at)
    if total.kind != "sum" or total.dtype is not torch.float32 or body.dtype(total.value.at) is not torch.float32:
        return None
    summed = body.ops[total.value.at]
    match summed:
        case Elementwise("exp", (difference,)):
            kind: Literal["exponentials", "squares"] = "exponentials"
        case Elementwise("mul", (difference, other)) if difference == other:
            kind = "squares"
        case _:
            return None
    match body.ops[difference.at]:
        case Elementwise("sub", (value, middle)):
            first = middle.at if kind == "exponentials" else _sum_of_mean(body, body.ops[middle.at], count)
        case _:
            return None
    if first not in before:
        return None
    given = body.reduction(first)
    if given.value != value or given.kind != ("max" if kind == "exponentials" else "sum"):
        return None
    return Online(kind, value, first, at) if given.dtype is torch.float32 else None


def _sum_of_mean(body: Body, op: Op, count: Expr) -> int:
    """Position of the `reduce` that a mean is made of; -1 if it is none."""
    match op:
        case Elementwise("truediv", (total, divisor)):
            number = body.ops[divisor.at]
            return total.at if isinstance(number, Constant) and count == int(number.value) == number.value else -1
    return -1
