"""Decompositions by family, and the public registry."""

from aotgrad.decompositions import (  # noqa: F401  (importing a family registers it)
    activations,
    attention,
    distances,
    factories,
    foreach,
    indexing,
    losses,
    movement,
    normalization,
    pointwise,
    recurrent,
    reductions,
    softmax,
)
from aotgrad.decompositions.registry import core_decompositions, decomposition, decompositions

__all__ = ["core_decompositions", "decomposition", "decompositions"]
