"""What becomes of a recording's results when it is replayed: which are copied, which lent, which are inputs.

Flows in: what a recorded run gave, and its inputs. Flows out: `Results`, which puts together what each replay gives.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch

from inductor.replay.places import getter, storage_of
from inductor.replay.saved import Lent
from inductor.replay.twins import Filler, extent, maker

MOST_RESULTS = 1 << 30
"""Bytes of results that are copied after a replay, and have memory in the recording besides."""


class Unreplayable(Exception):
    """A graph's launches can't be recorded; the message says why."""


class Results:
    """Results of a recording: overwritten by each replay, and but for those that are lent by those of other graphs.

    Args:
        results: what the recorded run gave.
        places: its inputs: those that are results are so for each call's own.
        copies: of these the recording's.
        kept: the results that are lent.

    Raises:
        Unreplayable: one that is to be copied shares memory with an input or another result: copies would not; or there is too much
            to copy.
    """

    def __init__(
        self, results: Sequence[Any], places: Sequence[Any], copies: Sequence[torch.Tensor], kept: Collection[int]
    ) -> None:
        inputs = {id(value): at for at, value in enumerate(places) if isinstance(value, torch.Tensor)}
        static: dict[int, torch.Tensor] = {}
        lent: dict[int, torch.Tensor] = {}
        given: list[int] = []
        rest: list[Any] = []
        groups: list[tuple[int, int]] = []
        """For each result which kind it is of, and its number there."""
        for at, value in enumerate(results):
            if not isinstance(value, torch.Tensor):
                groups.append((3, len(rest)))
                rest.append(value)
            elif id(value) in inputs:
                groups.append((2, len(given)))
                given.append(inputs[id(value)])
            else:
                kind = lent if at in kept else static
                groups.append((kind is lent, [*kind, id(value)].index(id(value))))
                kind[id(value)] = value
        self._static = [value.detach() if key in lent else value for key, value in static.items()]
        tensors = [t for t in places if isinstance(t, torch.Tensor)]
        _require_own_memory(self._static, tensors)
        bytes = sum(extent(t) * t.element_size() for t in self._static)
        if bytes > MOST_RESULTS:
            raise Unreplayable(f"{bytes >> 20} MiB of results would be copied")
        self._twins, self._fill = maker(self._static), Filler(self._static)
        copied = {*map(id, copies)}
        outside = {storage_of(t) for t in tensors if id(t) not in copied} - {0}
        own = [value.detach() if value._is_view() else value for value in lent.values()]  # a view keeps its base
        self.lent = Lent(own, [*self._static, *copies], frozenset(outside))
        self._given = getter(given)
        self._rest = tuple(rest)
        starts = (0, len(static), len(static) + len(lent), len(static) + len(lent) + len(given))
        self._ordered = getter([starts[kind] + number for kind, number in groups])

    def given(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The inputs that are results."""
        return self._given(inputs)

    def taken(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """What a replay has left, in memory of its own where it is not lent; `given` are the inputs that are results."""
        fresh = self._twins()
        self._fill(fresh, self._static)
        return self._ordered((*fresh, *self.lent.tensors, *given, *self._rest))


def _require_own_memory(results: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> None:
    """
    Raises:
        Unreplayable: a result shares memory with an input or another result: copies would not.
    """
    owners = {storage_of(t) for t in inputs if t.numel()}
    for result in results:
        if result.numel():
            address = storage_of(result)
            if address in owners:
                raise Unreplayable("results share memory with inputs or with each other")
            owners.add(address)
