"""A mean and the mean square of differences from it, of long rows that are cut into parts, by one walk over memory in place of two.

Flows in: the loop that makes the mean, and the one that reads it. Flows out: a loop that leaves the sum and the squares of each part, and
bodies that put the parts' together (T. F. Chan, G. H. Golub, R. J. LeVeque, 1979). In a part differences are from its first element: what
cancels is then no more than the part's own spread.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

import sympy

from inductor.ir.body import Body
from inductor.ir.operations import Constant, Elementwise, Expr, Load, Op, Reduce, Ref, Store, Symbol
from inductor.ir.program import LoopOp, Operation
from inductor.levels import only, split
from symshapes import dataclass


@dataclass(frozen=True)
class Variance:
    """Two loops over the same values: of `mean` the sum, of `squares` that of the squares of the differences from its mean."""

    mean: LoopOp
    squares: LoopOp
    sum: int
    """Position of the first one's `reduce`."""
    value: int
    """Of what it sums."""
    square_sum: int
    """Position of the second one's `reduce`."""
    middle: int
    """Of its load of the mean."""

    def first_step(self, names: Sequence[str], place: Expr, moved: Body, count: int) -> Body:
        """Of each part its sum and its squares, stored to `names` at a place.

        Args:
            moved: the body of the mean over a part.
            count: points of a part.
        """
        begins = moved.substitute(dict.fromkeys(moved.inner_vars, sympy.Integer(0)), moved.outer_vars, moved.inner_vars)
        (values, where), (first, there) = only(moved, {self.value}), only(begins, {self.value})
        dtype = moved.dtype(self.value)
        ops: list[Op] = [*values, *(op.with_operands(lambda ref: Ref(ref.at + len(values))) for op in first)]

        def new(op: Op) -> Ref:
            ops.append(op)
            return Ref(len(ops) - 1)

        def compute(name: str, *operands: Ref) -> Ref:
            return new(Elementwise(name, operands, dtype))

        start = Ref(there[self.value].at + len(values))
        away = compute("sub", where[self.value], start)
        new(Store(names[0], place, new(Reduce("sum", where[self.value], dtype)), None))
        total = new(Reduce("sum", away, dtype))
        squares = new(Reduce("sum", compute("mul", away, away), dtype))
        mean = compute("truediv", total, new(Constant(float(count), dtype)))
        spread = compute("sub", squares, compute("mul", total, mean))
        new(Store(names[1], place, compute("maximum", spread, new(Constant(0.0, dtype))), None))
        return Body(moved.outer_vars, moved.inner_vars, tuple(ops))

    def second_steps(self, names: Sequence[str], place: Expr, part: Symbol, count: int) -> tuple[Body, Body]:
        """What both loops are over the parts' sums and squares; `place` is by the variables of the first one."""
        dtype = self.mean.body.dtype(self.value)
        renamed = dict(zip(self.mean.body.outer_vars, self.squares.body.outer_vars, strict=True))
        there = place.xreplace(renamed)

        def of_sum(ops: list[Op], moved: Mapping[int, Ref]) -> Ref:
            ops.append(Load(names[0], place, None, dtype))
            ops.append(Reduce("sum", Ref(len(ops) - 1), dtype))
            return Ref(len(ops) - 1)

        def of_squares(ops: list[Op], moved: Mapping[int, Ref]) -> Ref:
            ops.append(Constant(float(count), dtype))
            points = Ref(len(ops) - 1)
            ops.append(Load(names[0], there, None, dtype))
            ops.append(Elementwise("truediv", (Ref(len(ops) - 1), points), dtype))
            ops.append(Elementwise("sub", (Ref(len(ops) - 1), moved[self.middle]), dtype))
            ops.append(Elementwise("mul", (Ref(len(ops) - 1),) * 2, dtype))
            ops.append(Elementwise("mul", (Ref(len(ops) - 1), points), dtype))
            ops.append(Load(names[1], there, None, dtype))
            ops.append(Elementwise("add", (Ref(len(ops) - 2), Ref(len(ops) - 1)), dtype))
            ops.append(Reduce("sum", Ref(len(ops) - 1), dtype))
            return Ref(len(ops) - 1)

        return (
            _with_sum(self.mean.body, self.sum, of_sum, part),
            _with_sum(self.squares.body, self.square_sum, of_squares, part),
        )


def variances(operations: Sequence[Operation]) -> dict[int, tuple[int, Variance]]:
    """By the position of a loop that makes a mean: that of the loop of the squares, and both. What they read no loop makes: it would be
    part of the loop that makes it, but for the element that differences are from."""
    made = {name for op in operations if isinstance(op, LoopOp) for name in op.writes}
    means: dict[str, int] = {}
    found: dict[int, tuple[int, Variance]] = {}
    for at, op in enumerate(operations):
        if not isinstance(op, LoopOp) or not op.inner_sizes or op.initial:
            continue
        for name in {load.buffer for load in op.body.loads()} & means.keys():
            one = means[name]
            mean = operations[one]
            assert isinstance(mean, LoopOp)
            variance = None if one in found else _variance(mean, op, name, made)
            if variance is not None:
                found[one] = at, variance
                break
        means |= dict.fromkeys(op.writes, at)
    return found


def _variance(mean: LoopOp, squares: LoopOp, name: str, made: Container[str]) -> Variance | None:
    """Of two loops, the second of which reads `name` of the first."""
    if (mean.device, mean.outer_sizes, mean.inner_sizes) != (squares.device, squares.outer_sizes, squares.inner_sizes):
        return None
    own = mean.body
    variables = (*own.outer_vars, *own.inner_vars)
    there = (*squares.body.outer_vars, *squares.body.inner_vars)
    other = squares.body.substitute(dict(zip(there, variables, strict=True)), own.outer_vars, own.inner_vars)
    sums = [[at for at, op in enumerate(body.ops) if isinstance(op, Reduce)] for body in (own, other)]
    if any(len(each) != 1 or len(split(body).passes) != 1 for each, body in zip(sums, (own, other), strict=True)):
        return None
    ((at,), (square_at,)) = sums
    total, square_total = own.reduction(at), other.reduction(square_at)
    match other.ops[square_total.value.at]:
        case Elementwise("mul", (one, two)) if one == two:
            difference = other.ops[one.at]
        case _:
            return None
    if total.kind != "sum" or square_total.kind != "sum" or not isinstance(difference, Elementwise):
        return None
    if difference.primitive != "sub" or total.dtype != difference.dtype or square_total.dtype != difference.dtype:
        return None
    value, middle = difference.operands
    read = other.ops[middle.at]
    if not isinstance(read, Load) or read.buffer != name or read.mask is not None:
        return None
    if not any(
        isinstance(op, Store) and (op.buffer, op.index) == (name, read.index) and _is_mean(own, op.value, at, mean)
        for op in own.ops
    ):
        return None
    values, _ = only(own, {total.value.at})
    if values != only(other, {value.at})[0] or any(isinstance(op, Load) and op.buffer in made for op in values):
        return None
    return Variance(mean, squares, at, total.value.at, square_at, middle.at)


def _is_mean(body: Body, value: Ref, total: int, loop: LoopOp) -> bool:
    """Whether a value is a sum by the number of points."""
    match body.ops[value.at]:
        case Elementwise("truediv", (dividend, divisor)) if dividend.at == total:
            number = body.ops[divisor.at]
            points = sympy.prod(loop.inner_sizes)
            return isinstance(number, Constant) and bool(points.is_Integer) and int(points) == number.value
    return False


def _with_sum(body: Body, total: int, made: Callable[[list[Op], Mapping[int, Ref]], Ref], part: Symbol) -> Body:
    """A body over the parts: its sum is `made` another way, and what follows from it stays."""
    moved: dict[int, Ref] = {}
    ops: list[Op] = []
    outer = {at for level in split(body).outer for at in level}
    for at, op in enumerate(body.ops):
        if at == total:
            moved[at] = made(ops, moved)
        elif at in outer:
            ops.append(op.with_operands(lambda ref: moved[ref.at]))
            moved[at] = Ref(len(ops) - 1)
    return Body(body.outer_vars, (part,), tuple(ops))
