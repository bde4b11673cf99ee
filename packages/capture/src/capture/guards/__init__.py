"""Guards: what a capture assumed, merged into one native program. See `kinds`, `tree`, `program`."""

from capture.guards.kinds import (
    GlobalState,
    Guard,
    GuardKind,
    Predicate,
    ShapePredicate,
    Size,
    TensorMeta,
)
from capture.guards.letting_go import LettingGo
from capture.guards.program import guard_program
from capture.guards.tree import LASTING, GuardTree, begins_lasting, build_tree

__all__ = [
    "LASTING",
    "GlobalState",
    "Guard",
    "GuardKind",
    "GuardTree",
    "LettingGo",
    "Predicate",
    "ShapePredicate",
    "Size",
    "TensorMeta",
    "begins_lasting",
    "build_tree",
    "guard_program",
]
