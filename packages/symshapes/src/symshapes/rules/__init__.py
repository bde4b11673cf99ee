"""Shape rules by family; importing this package registers those that nearly all programs need, and where the others are."""

from __future__ import annotations

from symshapes.rules import (  # noqa: F401
    attention,
    copies,
    demands,
    factories,
    indexing,
    matmul,
    normalization,
    numbers,
    pointwise,
    pooling,
    views,
)
from symshapes.rules.layout import TensorMeta, View, contiguous_strides, looks_channels_last
from symshapes.rules.registry import RULES, DataDependentError, missing_rules, register_rule, reset_rules

#: Each takes what it uses of others' rules from those before it.
FURTHER = tuple(
    f"{__name__}.{family}"
    for family in ("reductions", "joining", "convolution", "losses", "linalg", "foreach", "rnn", "spectral")
)
RULES.further += FURTHER
_SHIPPED = dict(RULES.given)


def rules_changed() -> bool:
    """Whether a program has other rules for operators that come with one."""
    given = RULES.given
    return any(given.get(op) is not rule for op, rule in _SHIPPED.items()) or any(
        RULES.by_name(op) not in (None, rule) for op, rule in given.items() if op not in _SHIPPED
    )


__all__ = [
    "DataDependentError",
    "TensorMeta",
    "View",
    "contiguous_strides",
    "looks_channels_last",
    "missing_rules",
    "register_rule",
    "reset_rules",
    "rules_changed",
]
