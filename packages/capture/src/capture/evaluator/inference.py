"""Inference mode, as a frame enters and leaves it: for real while it is evaluated, so that fakes are what torch makes there.

In: calls that enter and leave. Out: calls in the graph that switch gradients off and on, which compute the same. What was made within
is an inference tensor, which the graph's result is not: `departures` makes one of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from capture._torch import inference_guard, inside, is_inference
from capture.errors import Unsupported

_NOTHING = nullcontext()


class InferenceBlocks:
    """Those of one attempt."""

    def __init__(self) -> None:
        self._entered: list[tuple[object, Any]] = []
        #: The step at which the outermost one was entered.
        self.since = 0
        #: Whether any was entered.
        self.met = False
        #: Whether the mode was in force where the frame begins.
        self.before = torch.is_inference_mode_enabled()
        #: How often the memory of inference tensors from outside had been written to when they were met.
        self._given: dict[object, int] = {}

    @property
    def inside(self) -> bool:
        """Whether any is entered: the graph cannot end here."""
        return bool(self._entered)

    @property
    def outside(self) -> AbstractContextManager[Any]:
        """What a tensor from outside becomes a fake in."""
        return torch.inference_mode(self.before) if self._entered else _NOTHING

    def enter(self, block: object, mode: bool, step: int) -> bool:
        """Inference mode is on, or off, from here on; whether gradients are computed."""
        if self.before and not mode:
            raise Unsupported("leaving inference mode that is in force around the frame")
        if not self._entered:
            self.since = step
        self.met = True
        guard = inference_guard(mode)
        guard.__enter__()
        self._entered.append((block, guard))
        return torch.is_grad_enabled()

    def leave(self, block: object) -> bool:
        """It is as it was before a block; whether gradients are computed."""
        if not self._entered or self._entered[-1][0] is not block:
            raise Unsupported("leaving inference mode that was not entered last")
        self._entered.pop()[1].__exit__(None, None, None)
        return torch.is_grad_enabled()

    def given(self, value: torch.Tensor, fake: Any, written: Mapping[Any, int]) -> None:
        """A tensor from outside has this fake. `written`: how often each memory was written to."""
        if not self.before and is_inference(value):
            key = inside(fake).storage_key
            self._given.setdefault(key, written.get(key, 0))

    def written(self, written: Mapping[Any, int]) -> None:
        """Something was written. The graph, which is outside of all blocks, may write to no inference tensor that it is given."""
        if any(written.get(key, 0) != count for key, count in self._given.items()):
            if self._entered:
                raise Unsupported("a write, in inference mode, to an inference tensor from outside")
            raise Unsupported("a write, outside of inference mode, to an inference tensor, which torch refuses")

    def undo(self) -> None:
        """Leave all."""
        while self._entered:
            self._entered.pop()[1].__exit__(None, None, None)
