"""Shape rules by family; importing this package registers all of them."""

from symshapes.rules import (  # noqa: F401
    attention,
    convolution,
    copies,
    demands,
    factories,
    foreach,
    indexing,
    joining,
    linalg,
    losses,
    matmul,
    normalization,
    pointwise,
    pooling,
    reductions,
    rnn,
    spectral,
    views,
)
from symshapes.rules.layout import TensorMeta, View, contiguous_strides, looks_channels_last
from symshapes.rules.registry import DataDependentError, missing_rules, register_rule, reset_rules

__all__ = [
    "DataDependentError",
    "TensorMeta",
    "View",
    "contiguous_strides",
    "looks_channels_last",
    "missing_rules",
    "register_rule",
    "reset_rules",
]
