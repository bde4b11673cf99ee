"""`Scalar`: one value inside a body while it is recorded, with Python's operators and Python numbers lifted to constants.

Flows in: what a lowering writes, e.g. `x * 0.5 * (1 + prim.erf(x))`. Flows out: calls of `ops`, so a body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch

from inductor.ir.operations import Constant, Expr, Ref
from inductor.ops import compute_dtype, ops
from inductor.primitives import PRIMITIVES, REDUCTIONS
from symshapes import HALF_DTYPES, expr_of

Number = float | int | bool


class Scalar:
    """A recorded value. Operators take another Scalar of the same dtype or a Python number, which takes that dtype.

    `unrounded`: a float16 or bfloat16 tensor that this float32 value is an element of, though no memory rounded it; casts
    see it rounded. `settle` records what eager has instead of `ref`, each link of the chain to here rounded as in eager's
    memory: discrete primitives see that. None: `ref` is it."""

    __slots__ = ("_settled", "ref", "settle", "unrounded")

    def __init__(self, ref: Ref, unrounded: torch.dtype | None = None, settle: Callable[[], Ref] | None = None) -> None:
        self.ref = ref
        self.unrounded = unrounded
        self.settle = settle
        self._settled: Ref | None = None

    @property
    def settled_ref(self) -> Ref:
        """Recorded at the first question, and only then."""
        if self._settled is None:
            self._settled = self.ref if self.settle is None else self.settle()
        return self._settled

    @property
    def dtype(self) -> torch.dtype:
        """The dtype that it is computed in."""
        return ops.dtype(self.ref)

    @property
    def is_one(self) -> bool:
        """Whether it is the constant 1."""
        made = ops.recorded[self.ref.at]
        return isinstance(made, Constant) and made.value == 1

    def _with(self, name: str, other: Any, swapped: bool = False) -> Scalar:
        pair = (lift(other, self.dtype), self) if swapped else (self, lift(other, self.dtype))
        return apply(name, *pair)

    def __add__(self, other: Any) -> Scalar:
        return self._with("add", other)

    def __radd__(self, other: Any) -> Scalar:
        return self._with("add", other, swapped=True)

    def __sub__(self, other: Any) -> Scalar:
        return self._with("sub", other)

    def __rsub__(self, other: Any) -> Scalar:
        return self._with("sub", other, swapped=True)

    def __mul__(self, other: Any) -> Scalar:
        return self._with("mul", other)

    def __rmul__(self, other: Any) -> Scalar:
        return self._with("mul", other, swapped=True)

    def __truediv__(self, other: Any) -> Scalar:
        return self._with("truediv", other)

    def __rtruediv__(self, other: Any) -> Scalar:
        return self._with("truediv", other, swapped=True)

    def __neg__(self) -> Scalar:
        return apply("neg", self)

    def __lt__(self, other: Any) -> Scalar:
        return self._with("lt", other)

    def __le__(self, other: Any) -> Scalar:
        return self._with("le", other)

    def __gt__(self, other: Any) -> Scalar:
        return self._with("gt", other)

    def __ge__(self, other: Any) -> Scalar:
        return self._with("ge", other)

    def __and__(self, other: Any) -> Scalar:
        return self._with("bitwise_and", other)

    def __or__(self, other: Any) -> Scalar:
        return self._with("bitwise_or", other)


class _Primitives:
    """`prim.exp(x)`: a primitive of `ops` over Scalars; Python numbers take the dtype of the first Scalar operand."""

    def __getattr__(self, name: str) -> Callable[..., Scalar]:
        def call(*operands: Any) -> Scalar:
            dtype = next(x.dtype for x in operands if isinstance(x, Scalar))
            return apply(name, *(lift(x, dtype) for x in operands))

        return call


prim = _Primitives()


def apply(name: str, *operands: Scalar) -> Scalar:
    """A primitive of Scalars of one dtype."""
    primitive = PRIMITIVES[name]
    if primitive.discrete:
        operands = tuple(settled(x) for x in operands)
    unrounded = next((x.unrounded for x in operands if x.unrounded), None) if primitive.keeps_rounding else None
    return _made(getattr(ops, name), operands, unrounded)


def _made(operation: Callable[..., Ref], operands: Sequence[Scalar], unrounded: torch.dtype | None = None) -> Scalar:
    """What the operation makes of its operands; what eager has is what it makes of theirs."""
    settle = None
    if any(x.settle is not None for x in operands):

        def settle() -> Ref:
            return operation(*(x.settled_ref for x in operands))

    return Scalar(operation(*(x.ref for x in operands)), unrounded, settle)


def settled(value: Scalar) -> Scalar:
    """`value` as eager has it."""
    return value if value.settle is None else Scalar(value.settled_ref)


def element_of(value: Scalar, dtype: torch.dtype) -> Scalar:
    """`value` as an element of a tensor of `dtype` that has not been in memory."""
    unrounded = None if dtype not in HALF_DTYPES or ops.is_rounded(value.ref, dtype) else dtype
    if value.unrounded is unrounded and (value.settle is not None) == (unrounded is not None):
        return value  # such as a view, or an operation that passes rounding on
    if unrounded is None:
        return Scalar(value.ref, None, value.settle)
    return Scalar(value.ref, unrounded, lambda: ops.round_to(value.settled_ref, dtype))


def lift(value: Scalar | Number | Expr, dtype: torch.dtype) -> Scalar:
    """A Python number or an expression of numbers known when the program runs as a value of `dtype`; a Scalar unchanged."""
    if isinstance(value, Scalar):
        return value
    if isinstance(value, bool | int | float):
        return Scalar(ops.constant(value, dtype))
    expr = value if isinstance(value, sympy.Basic) else expr_of(value)
    made = ops.index_expr(expr, torch.int64 if expr.is_integer else torch.float64)
    return convert(Scalar(made), dtype)


def index_value(expr: Any, dtype: torch.dtype = torch.int64) -> Scalar:
    """An integer expression over loop variables and sizes as a value."""
    return Scalar(ops.index_expr(expr, dtype))


def convert(value: Scalar, dtype: torch.dtype) -> Scalar:
    """To the compute dtype of `dtype`: float16 and bfloat16 become float32 without rounding. Another dtype than the value's
    own is a cast, which reads what eager has in memory."""
    if value.unrounded is not None and dtype is not value.unrounded:
        value = Scalar(ops.round_to(value.ref, value.unrounded), None, value.settle)
    want = compute_dtype(dtype)
    if value.dtype is want:
        return value
    if not want.is_floating_point:
        value = settled(value)
    return _made(lambda ref: ops.to_dtype(ref, want), [value])


def rounded(value: Scalar, dtype: torch.dtype) -> Scalar:
    """`value` as memory of `dtype` would hold it: float16 and bfloat16 round, unless the value is already that."""
    if dtype not in HALF_DTYPES:
        return convert(value, dtype)
    return _made(lambda ref: ops.round_to(ref, dtype), [value])


def where(condition: Scalar, a: Scalar | Number, b: Scalar | Number) -> Scalar:
    """Select; a Python number takes the other branch's dtype."""
    dtype = next(x.dtype for x in (a, b) if isinstance(x, Scalar))
    branches = lift(a, dtype), lift(b, dtype)
    unrounded = next((x.unrounded for x in branches if x.unrounded), None)
    return _made(lambda a, b: ops.where(condition.ref, a, b), branches, unrounded)


def truth(value: Scalar) -> Scalar:
    """bool: the value is not zero."""
    return value if value.dtype is torch.bool else prim.ne(value, 0)


def masked(mask: Scalar, body: Callable[[], Scalar], other: Number) -> Scalar:
    """`body()` where `mask` holds, else `other`; loads inside touch no memory where it does not."""
    inside: list[Scalar] = []

    def run() -> Ref:
        inside.append(body())
        return inside[0].ref

    ref = ops.masked(mask.ref, run, other)
    value, settle = inside[0], None
    if value.settle is not None:

        def settle() -> Ref:
            return ops.where(mask.ref, value.settled_ref, ops.constant(other, value.dtype))

    return Scalar(ref, value.unrounded, settle)


def reduce(kind: str, value: Scalar) -> Scalar:
    """Combine over all inner loop variables. The largest and smallest of bools are any and all."""
    if value.dtype is torch.bool:
        kind = {"max": "any", "min": "all"}.get(kind, kind)
    if REDUCTIONS[kind].discrete:
        value = settled(value)
    return Scalar(ops.reduce(kind, value.ref))


def scan(kind: str, value: Scalar, backward: bool = False) -> Scalar:
    """Combine over the inner points up to this one, or from this one on."""
    return Scalar(ops.scan(kind, value.ref, backward))


def indirect(position: Scalar, size: Any, rule: str) -> Expr:
    """An int64 value as an index symbol below `size`; `rule` names an `ops.IndexRule`."""
    return ops.indirect(position.ref, size, rule)


def checked(value: Scalar, place: Expr) -> Scalar:
    """`value`, which was read at `place`, so that the check of `place` is not lost where nothing depends on it (a broadcast
    dimension, a constant)."""
    if not place.is_Symbol or ops.reads(place):
        return value
    return where(prim.ge(index_value(place), 0), value, value * 0 if value.dtype is not torch.bool else False)
