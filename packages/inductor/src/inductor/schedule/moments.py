"""Which steps of a schedule run at the same time: memory that one of them reads is free when all of them are done.

Flows in: steps, and ranges of them that one launch runs. Flows out: answers to those who plan memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from inductor.ir.program import Operation
from inductor.schedule.lives import reads


class Moments:
    """Args:
    together: ranges of steps that run at the same time; all others are alone.
    """

    def __init__(self, steps: Sequence[Operation], together: Sequence[range] = ()) -> None:
        self._steps = steps
        self._batch = {at: batch for batch in together for at in batch}
        self._readers: dict[range, Counter[str]] = {
            batch: Counter(name for at in batch for name in reads(steps[at])) for batch in together
        }

    def begin(self, at: int) -> int:
        """The first of the steps that run when the one at `at` does."""
        batch = self._batch.get(at)
        return at if batch is None else batch.start

    def end(self, at: int) -> int:
        """The last of them."""
        batch = self._batch.get(at)
        return at if batch is None else batch[-1]

    def read_elsewhere(self, at: int, name: str) -> bool:
        """Whether another step reads a buffer while the one at `at` runs."""
        batch = self._batch.get(at)
        return batch is not None and self._readers[batch][name] > (name in reads(self._steps[at]))
