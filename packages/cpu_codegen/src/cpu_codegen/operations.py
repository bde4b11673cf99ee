"""C++ of every primitive operation, as a format over its operands; the same text serves scalars and vectors.

What is in no table here, the backend does not support for that dtype.
"""

from __future__ import annotations

import torch

from cpu_codegen.text import words
from inductor import Elementwise, Load, Op, Store


def _infix(text: str, pattern: str = "{0} %s {1}") -> dict[str, str]:
    """Formats of operators, from a text of names and symbols in turn."""
    names_and_symbols = words(text)
    return {
        name: pattern % symbol for name, symbol in zip(names_and_symbols[::2], names_and_symbols[1::2], strict=True)
    }


def _calls(text: str, arity: int) -> dict[str, str]:
    """Formats of functions that the headers name as the IR does."""
    operands = ", ".join(f"{{{k}}}" for k in range(arity))
    return {name: f"{name}({operands})" for name in words(text)}


_ORDERED = _infix("eq == ne != lt < le <= gt > ge >=")
_ANY_NUMBER: dict[str, str] = {
    "neg": "-{0}",
    **_infix("add + sub - mul *"),
    **_calls("abs sign", 1),
    **_calls("floordiv truncdiv fmod remainder pow maximum minimum", 2),
    **_ORDERED,
    **_infix("logical_and & logical_or |", "truth({0}) %s truth({1})"),
    "logical_not": "!truth({0})",
}
_FLOAT: dict[str, str] = {
    **_ANY_NUMBER,
    "truediv": "{0} / {1}",
    **_calls(
        "exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh"
        " atanh erf erfc lgamma sigmoid floor ceil trunc round isnan isinf signbit",
        1,
    ),
    **_calls("atan2 copysign", 2),
}
_BITWISE = _infix("bitwise_and & bitwise_or |")
_INTEGER: dict[str, str] = {
    **_ANY_NUMBER,
    **_BITWISE,
    "bitwise_xor": "{0} ^ {1}",
    "bitwise_not": "~{0}",
    **_calls("lshift rshift", 2),
    # Integers have neither fractions nor special values.
    **dict.fromkeys(words("floor ceil trunc round"), "{0}"),
}
_BOOL: dict[str, str] = {
    **_BITWISE,
    **_infix("logical_and & logical_or | mul & add | minimum & maximum |"),
    **_infix("eq == ne != bitwise_xor !="),
    # false < true
    **_infix("lt & le |", "(!{0}) %s {1}"),
    **_infix("gt & ge |", "{0} %s (!{1})"),
    **dict.fromkeys(words("logical_not bitwise_not"), "!{0}"),
    **dict.fromkeys(words("abs sign"), "{0}"),
}


def format_of(name: str, dtype: torch.dtype) -> str | None:
    """The format of primitive `name` over operands of `dtype`; None where there is none."""
    table = _BOOL if dtype is torch.bool else _FLOAT if dtype.is_floating_point else _INTEGER
    return table.get(name)


SLOW: frozenset[str] = frozenset(
    words("log10 tan asin acos atan sinh cosh asinh acosh atanh erfc lgamma floordiv fmod remainder truncdiv atan2")
)
"""Primitives computed lane by lane, by libm or a division."""
MODERATE: frozenset[str] = frozenset(words("exp exp2 expm1 log log1p log2 sin cos tanh erf sigmoid pow"))
"""Primitives that are vectorised polynomials."""


def is_slow(op: Op) -> bool:
    """Whether an operation is worth keeping the result of."""
    return isinstance(op, Elementwise) and op.primitive in MODERATE | SLOW


def cost_of(op: Op) -> float:
    """Rough cost of one element, in quarter nanoseconds of one core."""
    match op:
        case Elementwise(primitive, dtype=dtype):
            if primitive in SLOW or (primitive in MODERATE and dtype is torch.float64):
                return 40.0
            return 4.0 if primitive in MODERATE else 0.3
        case Load() | Store():
            return 1.5
        case _:
            return 0.3
