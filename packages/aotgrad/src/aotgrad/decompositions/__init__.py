"""Decompositions by family, and the public registry."""

from aotgrad.decompositions import (  # noqa: F401  (importing a family registers it)
    activations,
    attention,
    copies,
    diagonals,
    distances,
    factories,
    foreach,
    fused,
    indexing,
    losses,
    membership,
    movement,
    normalization,
    pointwise,
    recurrent,
    reductions,
    scattering,
    softmax,
    vectors,
)
from aotgrad.decompositions.registry import core_decompositions, decomposition, decompositions

__all__ = ["core_decompositions", "decomposition", "decompositions"]
