"""The primitive operations of the loop IR.

An IR body is a Python function over `ops`: calling `ops.add(a, b)` hands the call to the installed handler, so the same
body records itself (`body.record`), runs on torch tensors (`handlers.interpreter`) or becomes kernel text.
Flows in: lowerings. Flows out: `body.Body`, a flat list of primitive operations with dtypes.

Values have one of the compute dtypes: bool, uint8, int8, int16, int32, int64, float32, float64. bfloat16 and float16
exist only in memory: a load widens to float32, a store rounds; `round_to` rounds a float32 value where the program does.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import torch


class ResultType(enum.Enum):
    """How an operation's result dtype follows from its operands, which share one dtype."""

    SAME = "same"
    BOOL = "bool"


@dataclass(frozen=True)
class Primitive:
    """One elementwise primitive: `arity` value operands, all of one dtype, and the result's dtype rule."""

    name: str
    arity: int
    result: ResultType
    discrete: bool
    """Whether a small change of an operand can make the result jump: then an operand of bfloat16 or float16 that was kept
    in float32 is rounded first, so that the answer is the one that eager finds in memory."""
    doc: str


def _table(text: str) -> dict[str, str]:
    """Names and descriptions from lines `name: description`."""
    rows = (line.strip().partition(": ") for line in text.strip().splitlines())
    return {name: description for name, _, description in rows}


_UNARY_SAME = _table(
    """
    neg: -x
    abs: |x|
    exp: e**x
    exp2: 2**x
    expm1: e**x - 1
    log: natural logarithm
    log1p: log(1 + x)
    log2: logarithm to base 2
    log10: logarithm to base 10
    sqrt: square root
    rsqrt: 1 / sqrt(x)
    reciprocal: 1 / x
    sin: sine
    cos: cosine
    tan: tangent
    asin: inverse sine
    acos: inverse cosine
    atan: inverse tangent
    sinh: hyperbolic sine
    cosh: hyperbolic cosine
    tanh: hyperbolic tangent
    asinh: inverse hyperbolic sine
    acosh: inverse hyperbolic cosine
    atanh: inverse hyperbolic tangent
    erf: error function
    erfc: 1 - erf(x)
    lgamma: log of |gamma(x)|
    sigmoid: 1 / (1 + e**-x)
    bitwise_not: ~x; for bool the negation
    """
)
_UNARY_SAME_DISCRETE = _table(
    """
    floor: largest integer not above x
    ceil: smallest integer not below x
    trunc: integer part, toward zero
    round: nearest integer, ties to even
    sign: -1, 0 or 1; 0 for NaN, as in torch
    """
)
_UNARY_BOOL_DISCRETE = _table(
    """
    isnan: x is not a number
    isinf: x is plus or minus infinity
    signbit: the sign bit is set
    logical_not: x == 0
    """
)
_BINARY_SAME = _table(
    """
    add: x + y
    sub: x - y
    mul: x * y
    truediv: x / y of floats
    pow: x ** y
    maximum: the larger; NaN if either is NaN
    minimum: the smaller; NaN if either is NaN
    atan2: angle of the point (y, x): atan2(x_operand, y_operand)
    copysign: |x| with the sign of y
    bitwise_and: x & y
    bitwise_or: x | y
    bitwise_xor: x ^ y
    lshift: x << y
    rshift: x >> y, arithmetic
    """
)
_BINARY_SAME_DISCRETE = _table(
    """
    floordiv: x // y rounding toward minus infinity (integers: division by zero is undefined)
    truncdiv: x / y rounding toward zero, integers
    fmod: remainder with the sign of x (C's fmod and %)
    remainder: remainder with the sign of y (Python's %)
    """
)
_BINARY_BOOL_DISCRETE = _table(
    """
    eq: x == y
    ne: x != y
    lt: x < y
    le: x <= y
    gt: x > y
    ge: x >= y
    logical_and: x != 0 and y != 0
    logical_or: x != 0 or y != 0
    """
)

PRIMITIVES: dict[str, Primitive] = {
    name: Primitive(name, arity, result, discrete, doc)
    for arity, result, discrete, table in (
        (1, ResultType.SAME, False, _UNARY_SAME),
        (1, ResultType.SAME, True, _UNARY_SAME_DISCRETE),
        (1, ResultType.BOOL, True, _UNARY_BOOL_DISCRETE),
        (2, ResultType.SAME, False, _BINARY_SAME),
        (2, ResultType.SAME, True, _BINARY_SAME_DISCRETE),
        (2, ResultType.BOOL, True, _BINARY_BOOL_DISCRETE),
    )
    for name, doc in table.items()
}
"""Every elementwise primitive by name. Operands of one call share one dtype: lowerings insert `to_dtype`."""

REDUCTIONS: dict[str, str] = _table(
    """
    sum: sum of the values, in the dtype given
    prod: product of the values
    max: largest value; NaN if any is NaN
    min: smallest value; NaN if any is NaN
    argmax: int64 position in the flattened reduction space of the first largest value (a NaN counts as largest)
    argmin: int64 position in the flattened reduction space of the first smallest value (a NaN counts as smallest)
    any: bool: some value is nonzero
    all: bool: no value is zero
    """
)
"""Reduction kinds, for `ops.reduce(kind, value)`."""

DISCRETE_REDUCTIONS: frozenset[str] = frozenset({"argmax", "argmin", "any", "all"})
"""Reductions whose result jumps, as that of a discrete primitive does."""


@dataclass(frozen=True)
class IndexRule:
    """What a position read from data may be, for `ops.indirect`."""

    wraps: bool
    """Whether -1 is the last position, as in `x[index]`; else a negative position is out of range."""
    error: type[Exception]
    """What the kernel raises for a position out of range."""


INDEX_RULES: dict[str, IndexRule] = {
    "wrap": IndexRule(True, IndexError),
    "index": IndexRule(False, IndexError),
    "runtime": IndexRule(False, RuntimeError),
}
"""By name, as the third operand of `ops.indirect` says: eager's `x[index]`, `embedding` and `gather` stand for the three."""

COMPUTE_DTYPES: frozenset[torch.dtype] = frozenset(
    {
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float32,
        torch.float64,
    }
)


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of a value loaded from memory of `dtype`: float16 and bfloat16 widen to float32.

    Raises:
        NotImplementedError: for a dtype the IR does not hold (complex, quantised, float8).
    """
    if dtype in (torch.float16, torch.bfloat16):
        return torch.float32
    if dtype in COMPUTE_DTYPES:
        return dtype
    raise NotImplementedError(f"the loop IR has no values of dtype {dtype}")


class _Dispatcher:
    """`ops.name(...)` calls the same method of the handler installed last (see `install`)."""

    def __init__(self) -> None:
        self._handlers: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if not self._handlers:
            raise RuntimeError(f"ops.{name} called with no handler installed")
        return getattr(self._handlers[-1], name)


ops: Any = _Dispatcher()
"""What IR bodies call. Besides one method per entry of PRIMITIVES (values in, value out), a handler has:

- `constant(value, dtype)`: a Python scalar as a value.
- `index_expr(expr, dtype)`: an integer expression over loop variables and sizes as a value.
- `load(buffer, index)`: the element of `buffer` (a name) at linear offset `index` (elements, sympy); widened.
- `store(buffer, index, value, mode=None)`: write, rounded to the buffer's dtype; mode "add" accumulates (scatter).
- `to_dtype(value, dtype)`: convert to a compute dtype, as torch's `.to` does. To float16/bfloat16: use `round_to`.
- `round_to(value, dtype)`: a float32 value rounded to float16/bfloat16 precision and widened again.
- `bitcast(value, dtype)`: the same bits read as another dtype of the same width.
- `where(condition, a, b)`: select; a and b share one dtype.
- `reduce(kind, value)`: combine `value` over all inner loop variables; see REDUCTIONS.
- `indirect(value, size, rule="wrap")`: an int64 value as a symbol usable in index expressions, within [0, size); what else
  is allowed and what the kernel raises says INDEX_RULES[rule]. No memory is touched at a position out of range.
- `masked(mask, body, other)`: `body()` where the bool value `mask` holds, else `other`; loads in `body` touch no memory
  where the mask is false.
"""


class install:
    """Context manager: `ops` calls go to `handler` inside."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler

    def __enter__(self) -> Any:
        ops._handlers.append(self._handler)
        return self._handler

    def __exit__(self, *exc: object) -> None:
        ops._handlers.pop()
