"""Subscripts of arrays: parts that are views, and elements by arrays of places or of truths.

A key here is a tuple of integers, slices, None, one Ellipsis at most, and tensors of integers or truths.
"""

from __future__ import annotations

from typing import Any

import torch

from .dtypes import CPU, fitted, told_alike

Tensor = torch.Tensor


def _spread(a: Tensor, key: tuple[Any, ...]) -> list[Any]:
    """The key with an entry for each dimension, besides those for new ones."""
    taken = sum(
        each.dim() if isinstance(each, Tensor) and each.dtype is torch.bool else each is not None
        for each in key
        if each is not Ellipsis
    )
    if taken > a.dim():
        raise IndexError("too many indices for array")
    missing = [slice(None)] * (a.dim() - taken)
    at = next((i for i, each in enumerate(key) if each is Ellipsis), len(key))
    return [*key[:at], *missing, *key[at + 1 :]]


def _is_whole(part: Any) -> bool:
    return isinstance(part, (int, torch.SymInt)) and not isinstance(part, bool)


def is_view(key: tuple[Any, ...]) -> bool:
    """Whether a key selects a view: it has no arrays."""
    return not any(isinstance(each, Tensor) for each in key)


def _viewed(a: Tensor, parts: list[Any]) -> Tensor:
    """By integers, slices and new dimensions."""
    dim = 0
    for part in parts:
        if part is None:
            a, dim = a.unsqueeze(dim), dim + 1
        elif isinstance(part, slice):
            if part != slice(None):
                a = a[(slice(None),) * dim + (part,)]
            dim += 1
        else:
            a = a.select(dim, part)
    return a


def _places(a: Tensor, key: tuple[Any, ...]) -> tuple[Tensor, list[Tensor | None]]:
    """A view, and for each of its dimensions the places in it, where they are given by arrays.

    Integers beside arrays are arrays, too: with a slice between them the dimensions of the places come first.
    """
    parts: list[Any] = []
    places: list[Tensor | None] = []
    for part in _spread(a, key):
        if isinstance(part, Tensor) and part.dtype is torch.bool:
            if not part.dim():
                raise NotImplementedError("a single truth as a subscript")
            parts += [slice(None)] * part.dim()
            places += [part] + [None] * (part.dim() - 1)
        elif isinstance(part, Tensor):
            if part.dtype.is_floating_point or part.dtype.is_complex:
                raise IndexError("arrays used as indices must be of integer (or boolean) type")
            parts.append(slice(None))
            places.append(part.to(torch.int64))
        elif _is_whole(part):
            parts.append(slice(None))
            places.append(torch.full((), part, dtype=torch.int64, device=CPU))
        else:
            parts.append(part)
            places.append(None)
    viewed = _viewed(a, parts)
    # Those of truths are about several dimensions with one array.
    found: list[Tensor | None] = []
    skip = 0
    for place in places:
        if skip:
            skip -= 1
            continue
        found.append(place)
        if place is not None and place.dtype is torch.bool:
            skip = place.dim() - 1
    return viewed, found


def get(a: Tensor, key: tuple[Any, ...]) -> Tensor:
    """``a[key]``; a copy where that has no dimensions left and no Ellipsis, or elements are chosen by arrays."""
    if is_view(key):
        found = _viewed(a, _spread(a, key))
        return found if found.dim() or Ellipsis in key else found.clone()
    viewed, places = _places(a, key)
    return torch.ops.aten.index(viewed, places)


def put(a: Tensor, key: tuple[Any, ...], value: Any) -> None:
    """``a[key] = value``, converted to the array's dtype whatever it is."""
    given = fitted(value, a.dtype) if not isinstance(value, Tensor) else value
    if given.dtype.is_complex and not a.dtype.is_complex:
        raise NotImplementedError("complex numbers written to an array of real ones")
    given = given.to(a.dtype)
    given = given.clone()  # it may lie where it is written to
    if is_view(key):
        target = _viewed(a, _spread(a, key))
        if given.dim() and not target.dim() and Ellipsis not in key and key:
            raise NotImplementedError("an element set to an array")
        told_alike([target, given])
        target.copy_(_fitting(given, target.dim()))
        return
    viewed, places = _places(a, key)
    torch.ops.aten.index_put_(viewed, places, given)


def _fitting(value: Tensor, rank: int) -> Tensor:
    """Without dimensions of 1 in front that the place does not have."""
    while value.dim() > rank and value.shape[0] == 1:
        value = value.squeeze(0)
    return value
