"""Guards: what a capture assumed, merged into one native program. See `kinds`, `tree`, `lower`."""

from capture.guards.kinds import (
    GlobalState,
    Guard,
    GuardKind,
    Predicate,
    ShapePredicate,
    Size,
    TensorMeta,
)
from capture.guards.tree import GuardTree, build_tree

__all__ = [
    "GlobalState",
    "Guard",
    "GuardKind",
    "GuardTree",
    "Predicate",
    "ShapePredicate",
    "Size",
    "TensorMeta",
    "build_tree",
]
