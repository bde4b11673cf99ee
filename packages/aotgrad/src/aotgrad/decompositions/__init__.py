"""Decompositions by family, and the public registry."""

from aotgrad.decompositions import (  # noqa: F401  (importing a family registers it)
    activations,
    attention,
    copies,
    cudnn_networks,
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
from aotgrad.decompositions.registry import TABLE, core_decompositions, decomposition, decompositions

_SHIPPED = dict(TABLE)


def changed() -> bool:
    """Whether a program has put decompositions of its own there, or taken some away."""
    return TABLE != _SHIPPED


__all__ = ["changed", "core_decompositions", "decomposition", "decompositions"]
