"""`Scalar`: one value inside a body while it is recorded, with Python's operators and Python numbers lifted to constants.

Flows in: what a lowering writes, e.g. `x * 0.5 * (1 + prim.erf(x))`. Flows out: calls of `ops`, so a body.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from inductor.body import Expr, Ref, Symbol
from inductor.ops import compute_dtype, ops

Number = float | int | bool


class Scalar:
    """A recorded value. Operators take another Scalar of the same dtype or a Python number, which takes that dtype."""

    __slots__ = ("ref",)

    def __init__(self, ref: Ref) -> None:
        self.ref = ref

    @property
    def dtype(self) -> torch.dtype:
        return ops.dtype(self.ref)

    def _with(self, name: str, other: Any, swapped: bool = False) -> Scalar:
        pair = (lift(other, self.dtype), self) if swapped else (self, lift(other, self.dtype))
        return Scalar(getattr(ops, name)(pair[0].ref, pair[1].ref))

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
        return Scalar(ops.neg(self.ref))

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
            return Scalar(getattr(ops, name)(*(lift(x, dtype).ref for x in operands)))

        return call


prim = _Primitives()


def lift(value: Scalar | Number | Expr, dtype: torch.dtype) -> Scalar:
    """A Python number or size expression as a value of `dtype`; a Scalar unchanged."""
    if isinstance(value, Scalar):
        return value
    if isinstance(value, bool | int | float):
        return Scalar(ops.constant(value, dtype))
    return convert(Scalar(ops.index_expr(value, torch.int64)), dtype)


def index_value(expr: Any, dtype: torch.dtype = torch.int64) -> Scalar:
    """An integer expression over loop variables and sizes as a value."""
    return Scalar(ops.index_expr(expr, dtype))


def convert(value: Scalar, dtype: torch.dtype) -> Scalar:
    """To the compute dtype of `dtype`: float16 and bfloat16 become float32 without rounding."""
    want = compute_dtype(dtype)
    return value if value.dtype is want else Scalar(ops.to_dtype(value.ref, want))


def rounded(value: Scalar, dtype: torch.dtype) -> Scalar:
    """`value` as memory of `dtype` would hold it: float16 and bfloat16 round, unless the value is already that."""
    if dtype not in (torch.float16, torch.bfloat16):
        return convert(value, dtype)
    defined_by = ops.recorded[value.ref.at]
    if defined_by.name == "load" and ops.memory_dtype(defined_by.args[0]) is dtype:
        return value
    if defined_by.name == "round_to" and defined_by.args[1] is dtype:
        return value
    return Scalar(ops.round_to(value.ref, dtype))


def where(condition: Scalar, a: Scalar | Number, b: Scalar | Number) -> Scalar:
    """Select; a Python number takes the other branch's dtype."""
    dtype = next(x.dtype for x in (a, b) if isinstance(x, Scalar))
    return Scalar(ops.where(condition.ref, lift(a, dtype).ref, lift(b, dtype).ref))


def truth(value: Scalar) -> Scalar:
    """bool: the value is not zero."""
    return value if value.dtype is torch.bool else prim.ne(value, 0)


def masked(mask: Scalar, body: Callable[[], Scalar], other: Number) -> Scalar:
    """`body()` where `mask` holds, else `other`; loads inside touch no memory where it does not."""
    return Scalar(ops.masked(mask.ref, lambda: body().ref, other))


def reduce(kind: str, value: Scalar) -> Scalar:
    """Combine over all inner loop variables. The largest and smallest of bools are any and all."""
    if value.dtype is torch.bool:
        kind = {"max": "any", "min": "all"}.get(kind, kind)
    return Scalar(ops.reduce(kind, value.ref))


def indirect(position: Scalar, size: Any) -> Symbol:
    """An int64 value as an index symbol; negative positions wrap by `size`."""
    return ops.indirect(position.ref, size)
