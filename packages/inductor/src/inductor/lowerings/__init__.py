"""How each ATen overload becomes loops: one registered function an overload, in files by family.

Flows in: a node's arguments with tensors as lazy values. Flows out: lazy values. What no lowering takes runs as an ATen
kernel (`lower.py`)."""

from inductor.lowerings import (
    arithmetic,
    attention,
    borders,
    columns,
    contractions,
    creation,
    draws,
    indexing,
    pooling,
    reductions,
    resampling,
    scans,
    scatter,
    views,
)
from inductor.lowerings.registry import LOWERINGS, VIEWS, lowering, pointwise

_SHIPPED = dict(LOWERINGS)


def changed() -> bool:
    """Whether a program has put lowerings of its own there, or taken some away."""
    return LOWERINGS != _SHIPPED


__all__ = [
    "LOWERINGS",
    "VIEWS",
    "arithmetic",
    "attention",
    "borders",
    "changed",
    "columns",
    "contractions",
    "creation",
    "draws",
    "indexing",
    "lowering",
    "pointwise",
    "pooling",
    "reductions",
    "resampling",
    "scans",
    "scatter",
    "views",
]
