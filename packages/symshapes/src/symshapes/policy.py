"""How a dimension becomes a symbol, and the marks by which a user says so.

Flows in: tensors and `torch.SymInt`s from user code. Flows out: marks that capture reads with `policy_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

import torch

from symshapes.records import dataclass

_ATTRIBUTE = "_symshapes_dims"


class DimPolicy(Enum):
    """What `ShapeEnv.create_size` makes of a size."""

    STATIC = "static"
    """A plain int: the size is part of the guard on the tensor."""
    DUCK = "duck"
    """A symbol shared by all sizes with the same hint; 0 and 1 stay plain ints."""
    OPEN = "open"
    """As `DUCK`, of 1 as well: how a single element is laid out decides nothing; 0 stays a plain int."""
    DYNAMIC = "dynamic"
    """A symbol of its own; 0 and 1 stay plain ints."""
    UNBACKED = "unbacked"
    """A symbol without a hint: nothing may be decided by its value."""


@dataclass(frozen=True, slots=True)
class Dim:
    """A size with a name: dimensions marked with equal names are one size, whichever tensors they are of.

    `min` and `max` are the sizes promised, both inclusive; None where there is no end.

    Raises:
        ValueError: an empty name or range.
    """

    name: str
    min: int | None = None
    max: int | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a dimension's name is empty")
        _check_range(self.min, self.max)


@dataclass(frozen=True, slots=True)
class DimMark:
    """A policy for one dimension, with the sizes the user promises (inclusive; None where there is no end).

    `name` is shared by dimensions of one size. `binding`: a capture that is for one size only, or for fewer than
    promised, is an error (`MarkError`).
    """

    policy: DimPolicy
    min: int | None = None
    max: int | None = None
    name: str | None = None
    binding: bool = True


class MarkError(ValueError):
    """A mark does not hold: the program was captured for fewer sizes than it promises, or the sizes given contradict it."""


def _check_range(least: int | None, most: int | None) -> None:
    if least is not None and most is not None and least > most:
        raise ValueError(f"empty range: {least} to {most}")


def _named(policy: DimPolicy, name: Dim | str | None, least: int | None, most: int | None) -> DimMark:
    if isinstance(name, Dim):
        if least is not None or most is not None:
            raise TypeError("the range is the Dim's: min and max go there")
        return DimMark(policy, name.min, name.max, name.name)
    _check_range(least, most)
    return DimMark(policy, least, most, name)


def _mark(tensor: torch.Tensor, dim: int | Iterable[int], mark: DimMark) -> None:
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    for one in dims:
        if not -tensor.dim() <= one < tensor.dim():
            raise IndexError(f"dimension {one} of a tensor with {tensor.dim()} dimensions")
        size = tensor.size(one)
        if (mark.min is not None and size < mark.min) or (mark.max is not None and size > mark.max):
            raise ValueError(f"size {size} of dimension {one} is not {_span_text(mark.min, mark.max)}")
    own: dict[int, _Plain] = getattr(tensor, _ATTRIBUTE, {})
    setattr(tensor, _ATTRIBUTE, {**own, **{one % tensor.dim(): _plain(mark) for one in dims}})


# On a tensor lies plain data, so that a marked one can be saved and loaded again as any other.
_Plain = tuple[str, int | None, int | None, str | None, bool]


def _plain(mark: DimMark) -> _Plain:
    return mark.policy.value, mark.min, mark.max, mark.name, mark.binding


def _span_text(least: int | None, most: int | None) -> str:
    if least is None:
        return f"at most {most}"
    return f"at least {least}" if most is None else f"within {least} to {most}"


def mark_dynamic(
    tensor: torch.Tensor,
    dim: int | Iterable[int],
    name: Dim | str | None = None,
    *,
    min: int | None = None,
    max: int | None = None,
) -> None:
    """Compile for any size of dimension `dim`, or for those from `min` to `max` (both inclusive).

    Whatever `dynamic=` says. Sizes 0 and 1 are compiled for by themselves, once each: broadcasting depends on them. A
    compile for one size only, or for fewer than from `min` to `max`, raises `MarkError`, which tells the line that
    made it so. The mark is the tensor's, not its copies'; where something compiled before fits the tensor it is used.

    Args:
        dim: one dimension or several; negative ones count from the end.
        name: dimensions with equal names have one size; a `Dim` brings `min` and `max` with it.

    Raises:
        IndexError: no such dimension.
        ValueError: the tensor's own size is outside, or the range is empty.
        TypeError: a `Dim` and a range besides.
    """
    _mark(tensor, dim, _named(DimPolicy.DYNAMIC, name, min, max))


def maybe_mark_dynamic(tensor: torch.Tensor, dim: int | Iterable[int]) -> None:
    """Compile for any size of dimension `dim` if the program allows it; for this one if it does not. Raises IndexError."""
    _mark(tensor, dim, DimMark(DimPolicy.DYNAMIC, binding=False))


def mark_static(tensor: torch.Tensor, dim: int | Iterable[int] | None = None) -> None:
    """Compile for this size of dimension `dim` (of all dimensions by default) only, whatever `dynamic=` says.

    Raises:
        IndexError: no such dimension.
    """
    _mark(tensor, range(tensor.dim()) if dim is None else dim, DimMark(DimPolicy.STATIC))


def mark_unbacked(
    tensor: torch.Tensor,
    dim: int | Iterable[int],
    name: Dim | str | None = None,
    *,
    min: int | None = None,
    max: int | None = None,
) -> None:
    """Compile once for any size of dimension `dim`, 0 and 1 included, with nothing decided by it.

    Where the program decides by the size, the graph ends, or has both ways in it. Arguments and errors are those of `mark_dynamic`.
    """
    _mark(tensor, dim, _named(DimPolicy.UNBACKED, name, min, max))


def policy_of(tensor: torch.Tensor) -> dict[int, DimMark]:
    """The marks of a tensor by dimension (not negative); empty where there are none.

    Marks that `torch._dynamo` sets are read too, each meaning what it means there; ours go before them.
    """
    attributes = getattr(tensor, "__dict__", None)
    if not attributes:
        return {}
    plain: dict[int, _Plain] = attributes.get(_ATTRIBUTE, {})
    own = {
        dim: DimMark(DimPolicy(policy), least, most, name, binding)
        for dim, (policy, least, most, name, binding) in plain.items()
    }
    return {**_foreign(attributes, tensor.dim()), **own} if _FOREIGN.intersection(attributes) else own


# What torch's own marks are on a tensor: sets of dimensions, and what is said of them. The last goes before the others.
_WEAK, _STRICT, _LOOSE = "_dynamo_weak_dynamic_indices", "_dynamo_strict_unbacked_indices", "_dynamo_unbacked_indices"
_STATIC, _DYNAMIC = "_dynamo_static_indices", "_dynamo_dynamic_indices"
_RANGES, _BOUNDS, _NAMES = "_dynamo_dynamic_range", "_dynamo_unbacked_bounds", "_dynamo_shape_ids"
_FOREIGN = frozenset({_STATIC, _WEAK, _DYNAMIC, _STRICT, _LOOSE})


def _foreign(attributes: dict[str, Any], rank: int) -> dict[int, DimMark]:
    ranges = {each.dim: (each.min, each.max) for each in attributes.get(_RANGES, ())}
    bounds, names = attributes.get(_BOUNDS, {}), attributes.get(_NAMES, {})

    def unbacked(dim: int, binding: bool) -> DimMark:
        least, most = bounds.get(dim, (None, None))
        return DimMark(DimPolicy.UNBACKED, least, most, names.get(dim), binding)

    meanings: tuple[tuple[str, Callable[[int], DimMark]], ...] = (
        (_STATIC, lambda dim: DimMark(DimPolicy.STATIC)),
        (_WEAK, lambda dim: DimMark(DimPolicy.DYNAMIC, binding=False)),
        (_DYNAMIC, lambda dim: DimMark(DimPolicy.DYNAMIC, *ranges.get(dim, (None, None)))),
        (_STRICT, lambda dim: unbacked(dim, True)),
        (_LOOSE, lambda dim: unbacked(dim, False)),
    )
    return {
        dim % rank: meaning(dim)
        for name, meaning in meanings
        for dim in attributes.get(name, ())
        if -rank <= dim < rank
    }


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
