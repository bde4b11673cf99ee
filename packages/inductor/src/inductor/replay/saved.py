"""What a recorded forward leaves for its backward: results that stay in the recording's memory, lent to autograd until the backward ran.

Flows in: such results. Flows out: whether anybody still holds one, and which recording a tensor that a backward reads belongs to.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from inductor._torch import storage_uses, tensor_uses
from inductor.replay.places import storage_of


class Lent:
    """Results of one recording that its next replay overwrites; until nobody holds them there must be none.

    Args:
        tensors: the results, each once; none is a view to autograd, and nobody else keeps them.
        beside: other tensors that the recording keeps, each once, which may share storages with them.
        outside: addresses of storages that replays leave alone: who holds those does not matter.
    """

    def __init__(
        self, tensors: Sequence[torch.Tensor], beside: Sequence[torch.Tensor], outside: frozenset[int]
    ) -> None:
        self.tensors = tuple(tensors)
        self.token = object()
        """Stands for this one where it must not be kept alive."""
        self._watched = tuple(t for t in tensors if storage_of(t) not in outside)
        holders = Counter(t.untyped_storage()._cdata for t in (*tensors, *beside))
        self._storages = tuple({s._cdata: s for s in (t.untyped_storage() for t in self._watched)}.values())
        """Python's objects: torch keeps one a storage, so that it does not count in the storage's uses who holds that."""
        self._places = [storage._cdata for storage in self._storages]
        # As many as hold a tensor that is in two tuples, its storage's object that is in one, and the storage for each tensor in it.
        probe = (torch.empty(1),)
        both = (*probe,)
        beneath = (probe[0].untyped_storage(),)
        (objects,) = map(sys.getrefcount, both)
        (tensors_,) = map(tensor_uses, both)
        (wrappers,) = map(sys.getrefcount, beneath)
        (storages,) = map(storage_uses, [beneath[0]._cdata])
        self._free = (
            [objects] * len(self._watched),
            [tensors_] * len(self._watched),
            [wrappers] * len(self._storages),
            [storages + holders[place] - 1 for place in self._places],
            [*map(torch.Tensor.data_ptr, self._watched)],
        )

    def held(self) -> bool:
        """Whether anybody but the recording holds one of them (by the object, the tensor beneath, its storage, or another tensor in that),
        or has given one other memory than what is replayed writes to."""
        objects, tensors, wrappers, storages, addresses = self._free
        return (
            [*map(sys.getrefcount, self._watched)] != objects
            or [*map(tensor_uses, self._watched)] != tensors
            or [*map(sys.getrefcount, self._storages)] != wrappers
            or [*map(storage_uses, self._places)] != storages
            or [*map(torch.Tensor.data_ptr, self._watched)] != addresses
        )

    def addresses(self) -> list[int]:
        """Where they begin, those that hold anything."""
        return [tensor.data_ptr() for tensor in self._watched if tensor.numel()]


class SavedMemory:
    """Whose memory it is that a backward reads: shared by a forward and its backwards, whoever compiles them."""

    def __init__(self) -> None:
        self._owners: dict[int, weakref.ref[Lent]] = {}

    def add(self, lent: Lent) -> None:
        """Know the tensors of a recording from now on, as long as it lives."""
        self._owners.update(dict.fromkeys(lent.addresses(), weakref.ref(lent)))

    def owner_of(self, inputs: Sequence[Any], positions: Iterable[int]) -> object | None:
        """The token of the recording that the first of these inputs which is any recording's belongs to; None if none is."""
        for at in positions:
            owner = self._owners.get(inputs[at].data_ptr())
            lent = None if owner is None else owner()
            if lent is not None:
                return lent.token
        return None

    def forget_dead(self) -> set[object]:
        """The tokens of the recordings that live; what is known of others is forgotten."""
        self._owners = {address: owner for address, owner in self._owners.items() if owner() is not None}
        return {lent.token for owner in self._owners.values() if (lent := owner()) is not None}
