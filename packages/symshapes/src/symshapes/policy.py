"""How a dimension becomes a symbol, and the marks by which a user says so.

Flows in: tensors and `torch.SymInt`s from user code. Flows out: marks that capture reads with `policy_of`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch

_ATTRIBUTE = "_symshapes_dims"


class DimPolicy(Enum):
    """What `ShapeEnv.create_size` makes of a size."""

    STATIC = "static"
    """A plain int: the size is part of the guard on the tensor."""
    DUCK = "duck"
    """A symbol shared by all sizes with the same hint; 0 and 1 stay plain ints."""
    DYNAMIC = "dynamic"
    """A symbol of its own; 0 and 1 stay plain ints."""
    UNBACKED = "unbacked"
    """A symbol without a hint: nothing may be decided by its value."""


@dataclass(frozen=True, slots=True)
class DimMark:
    """A policy for one dimension, with the sizes the user promises (inclusive; None where there is no end)."""

    policy: DimPolicy
    min: int | None = None
    max: int | None = None


def _mark(tensor: torch.Tensor, dim: int | tuple[int, ...], mark: DimMark) -> None:
    marks = dict(policy_of(tensor))
    for one in dim if isinstance(dim, tuple) else (dim,):
        if not -tensor.dim() <= one < tensor.dim():
            raise IndexError(f"dimension {one} of a tensor with {tensor.dim()} dimensions")
        marks[one % tensor.dim()] = mark
    setattr(tensor, _ATTRIBUTE, marks)


def mark_dynamic(
    tensor: torch.Tensor, dim: int | tuple[int, ...], min: int | None = None, max: int | None = None
) -> None:
    """Compile for any size of dimension `dim`, or for those from `min` to `max` (both inclusive).

    Raises:
        IndexError: no such dimension.
        ValueError: the tensor's own size is outside, or the range is empty.
    """
    if min is not None and max is not None and min > max:
        raise ValueError(f"empty range: {min} to {max}")
    for one in dim if isinstance(dim, tuple) else (dim,):
        size = tensor.size(one)
        if (min is not None and size < min) or (max is not None and size > max):
            raise ValueError(f"size {size} of dimension {one} is not within {min} to {max}")
    _mark(tensor, dim, DimMark(DimPolicy.DYNAMIC, min, max))


def mark_static(tensor: torch.Tensor, dim: int | tuple[int, ...] | None = None) -> None:
    """Compile for this size of dimension `dim` (of all dimensions by default) only. Raises IndexError."""
    _mark(tensor, tuple(range(tensor.dim())) if dim is None else dim, DimMark(DimPolicy.STATIC))


def mark_unbacked(tensor: torch.Tensor, dim: int | tuple[int, ...]) -> None:
    """Compile for any size of dimension `dim`, 0 and 1 included, and let nothing depend on it. Raises IndexError."""
    _mark(tensor, dim, DimMark(DimPolicy.UNBACKED))


def policy_of(tensor: torch.Tensor) -> dict[int, DimMark]:
    """The marks of a tensor by dimension (not negative); empty where there are none."""
    return getattr(tensor, _ATTRIBUTE, {})


def constrain_range(value: Any, min: int | None = None, max: int | None = None) -> None:
    """Promise that an int, as the program computes it, is within `min` to `max` (both inclusive).

    A symbolic value with a hint gets a guard, one without a check at run time; a plain int is checked here.

    Raises:
        ValueError: the value, or its hint, is outside.
    """
    if isinstance(value, torch.SymInt):
        value.node.env.constrain_range(value.node.expr, min, max)
    elif (min is not None and value < min) or (max is not None and value > max):
        raise ValueError(f"{value} is not within {min} to {max}")
