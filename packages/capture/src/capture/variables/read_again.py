"""What the backward of a checkpoint reads again: written to before that it holds something else, and eager refuses it, or computes with it.

In: the calls of checkpoints, writes to memory, backwards. Out: another attempt, which leaves the checkpoint to eager.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import fx

from capture._torch import inside
from capture.errors import EvaluateAgain, Unsupported

_WRITTEN = "what a checkpoint reads again is written to"


class ReadAgain:
    """The memory that the checkpoints of one attempt have read. ``ran_ahead`` keeps, for the attempts after it, that some was written to."""

    def __init__(self, ran_ahead: set[Any]) -> None:
        self._ran_ahead = ran_ahead
        #: How often each was written to when it was read.
        self._read: dict[object, int] = {}

    def require(self) -> None:
        """Raise ``Unsupported`` where an earlier attempt met a write to what a checkpoint had read."""
        if _WRITTEN in self._ran_ahead:
            raise Unsupported("a checkpoint whose function reads what is written to before its backward")

    def note(self, calls: Iterable[fx.Node], written: Mapping[Any, int]) -> None:
        """These are the calls of a checkpoint, which gradients are to be had of."""
        own = set(calls)
        for node in {part for call in own for part in call.all_input_nodes} - own:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                key = inside(value).storage_key
                self._read[key] = written.get(key, 0)

    def written(self, written: Mapping[Any, int]) -> None:
        """There was a write: evaluate again if it was to memory that a backward to come reads."""
        if any(written.get(key, 0) != count for key, count in self._read.items()):
            self._ran_ahead.add(_WRITTEN)
            raise EvaluateAgain(_WRITTEN)

    def done(self) -> None:
        """A backward has run and kept nothing: what is written from now on, as by an optimizer, nobody reads again."""
        self._read.clear()
