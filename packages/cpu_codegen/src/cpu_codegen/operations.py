"""C++ of every primitive operation, as a format over its operands; the same text serves scalars and vectors.

What is in no table here, the backend does not support for that dtype.
"""

from __future__ import annotations

import torch

from cpu_codegen.text import words

_CALL_1 = "{name}({0})"
_CALL_2 = "{name}({0}, {1})"

_ANY_NUMBER: dict[str, str] = {
    "neg": "-{0}",
    "abs": _CALL_1,
    "sign": _CALL_1,
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "floordiv": _CALL_2,
    "truncdiv": _CALL_2,
    "fmod": _CALL_2,
    "remainder": _CALL_2,
    "pow": _CALL_2,
    "maximum": _CALL_2,
    "minimum": _CALL_2,
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "logical_and": "truth({0}) & truth({1})",
    "logical_or": "truth({0}) | truth({1})",
    "logical_not": "!truth({0})",
}
_FLOAT: dict[str, str] = {
    **_ANY_NUMBER,
    "truediv": "{0} / {1}",
    **dict.fromkeys(
        words(
            "exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh"
            " atanh erf erfc lgamma sigmoid floor ceil trunc round isnan isinf signbit"
        ),
        _CALL_1,
    ),
    "atan2": _CALL_2,
    "copysign": _CALL_2,
}
_INTEGER: dict[str, str] = {
    **_ANY_NUMBER,
    "bitwise_not": "~{0}",
    "bitwise_and": "{0} & {1}",
    "bitwise_or": "{0} | {1}",
    "bitwise_xor": "{0} ^ {1}",
    "lshift": _CALL_2,
    "rshift": _CALL_2,
    # Integers have neither fractions nor special values.
    "floor": "{0}",
    "ceil": "{0}",
    "trunc": "{0}",
    "round": "{0}",
}
_BOOL: dict[str, str] = {
    "add": "{0} | {1}",
    "mul": "{0} & {1}",
    "maximum": "{0} | {1}",
    "minimum": "{0} & {1}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": "(!{0}) & {1}",
    "le": "(!{0}) | {1}",
    "gt": "{0} & (!{1})",
    "ge": "{0} | (!{1})",
    "logical_and": "{0} & {1}",
    "logical_or": "{0} | {1}",
    "logical_not": "!{0}",
    "bitwise_not": "!{0}",
    "bitwise_and": "{0} & {1}",
    "bitwise_or": "{0} | {1}",
    "bitwise_xor": "{0} != {1}",
    "abs": "{0}",
    "sign": "{0}",
}


def format_of(name: str, dtype: torch.dtype) -> str | None:
    """The format of primitive `name` over operands of `dtype`; None where there is none."""
    table = _BOOL if dtype is torch.bool else _FLOAT if dtype.is_floating_point else _INTEGER
    found = table.get(name)
    return None if found is None else found.replace("{name}", name)


SLOW: frozenset[str] = frozenset(
    words("log10 tan asin acos atan sinh cosh asinh acosh atanh erfc lgamma floordiv fmod remainder truncdiv atan2")
)
"""Primitives computed lane by lane, by libm or a division."""
MODERATE: frozenset[str] = frozenset(words("exp exp2 expm1 log log1p log2 sin cos tanh erf sigmoid pow"))
"""Primitives that are vectorised polynomials."""


def cost_of(name: str, dtype: torch.dtype | None) -> float:
    """Rough cost of one element, in quarter nanoseconds of one core."""
    if name in SLOW or (name in MODERATE and dtype is torch.float64):
        return 40.0
    if name in MODERATE:
        return 4.0
    if name in ("load", "store"):
        return 1.5
    return 0.3
