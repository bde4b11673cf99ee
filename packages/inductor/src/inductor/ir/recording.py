"""The recorder of lowerings: `body.Recorder` plus what lazy values need to know while they are inlined.

Flows in: loop variables with their sizes. Flows out: a `Body` and the fx nodes it computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy
import torch
from torch import fx

from inductor.body import Expr, Recorder, Ref, Symbol


class LoopRecorder(Recorder):
    """Records one loop's body.

    `ranges`: sizes of the index symbols, also of those that `indirect` defines. `inlined`: elements of pending sources
    computed so far, under the mask now in force. `origins`: the fx nodes whose sources were inlined, in order."""

    def __init__(self, dtype_of: Callable[[str], torch.dtype], ranges: Mapping[Symbol, Expr]) -> None:
        super().__init__(dtype_of)
        self.ranges: dict[Symbol, Expr] = dict(ranges)
        self.inlined: dict[Any, Any] = {}
        self.origins: dict[fx.Node, None] = {}
        self._layers: dict[Any, dict[Any, Any]] = {}

    def indirect(self, value: Ref, size: Any) -> Symbol:
        symbol = super().indirect(value, size)
        self.ranges[symbol] = sympy.sympify(size)
        return symbol

    def masked(self, mask: Ref, body: Callable[[], Ref], other: float | int | bool) -> Ref:
        # What is loaded under a mask is zero outside it, so it must not be taken for the unmasked value.
        before = self.inlined

        def inside() -> Ref:
            self.inlined = self._layers.setdefault(self._mask, {})
            return body()

        try:
            return super().masked(mask, inside, other)
        finally:
            self.inlined = before
