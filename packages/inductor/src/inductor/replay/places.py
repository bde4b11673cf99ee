"""Where inputs lie: reading it in Python, and whether those that are written to share memory with others.

Flows in: lists of inputs, and positions in them. Flows out: what is equal as long as the tensors there stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from operator import itemgetter
from typing import Any

import torch

from symshapes import share_memory

Reader = Callable[[list[Any]], Hashable]
"""Reads of a list of inputs where some of them lie: addresses of their data, and offsets in their storages."""

_address = torch.Tensor.data_ptr
_offset = torch.Tensor.storage_offset


def reader(at: tuple[int, ...]) -> Reader:
    """What reads where the tensors at these positions lie."""
    chosen = getter(at)

    def read(inputs: list[Any]) -> Hashable:
        tensors = chosen(inputs)
        return *map(_address, tensors), *map(_offset, tensors)

    return read


def getter(positions: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """What takes the items at these positions."""
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda values: tuple(values[at] for at in positions)


def storage_of(tensor: torch.Tensor) -> int:
    """Where a tensor's storage begins; 0 if it holds nothing."""
    return tensor.untyped_storage().data_ptr()


def shared(inputs: Sequence[Any], written: Collection[int]) -> bool:
    """Whether one of the inputs at positions `written` has memory in common with another (`symshapes.share_memory`)."""
    if not written:
        return False
    tensors = {at: value for at, value in enumerate(inputs) if isinstance(value, torch.Tensor)}
    places = [place for place, at in enumerate(tensors) if at in written]
    return share_memory([*tensors.values()], places, [*map(storage_of, tensors.values())])
