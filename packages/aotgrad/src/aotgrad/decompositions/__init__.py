"""Decompositions by family, and the public registry."""

from aotgrad.decompositions.registry import core_decompositions, decomposition, decompositions

__all__ = ["core_decompositions", "decomposition", "decompositions"]
