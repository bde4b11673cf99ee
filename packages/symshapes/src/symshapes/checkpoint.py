"""Parts of a graph whose values its backward had better compute again than keep: `torch.utils.checkpoint`.

In: `meta["checkpoint"]` of a graph's calls. Out: which values of such a part are kept all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symshapes.records import dataclass


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """One call of `checkpoint`: what its function computes, the backward computes again, from what the function was given.

    `saves`: asked about each operator that runs, with its arguments; what one gives for which it is true is kept. `around`: the
    checkpoint that this one is a part of.
    """

    saves: Callable[[Any, tuple[Any, ...], dict[str, Any]], bool] | None = None
    around: Checkpoint | None = None

    @property
    def outermost(self) -> Checkpoint:
        """The checkpoint that this one is in, and no other around it; itself if there is none."""
        return self if self.around is None else self.around.outermost
