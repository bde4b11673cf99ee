"""Tensors of zeros without memory, which forward-mode differentiation makes of tangents that are not there.

In: calls of operators while a program is traced. Out: which of them give such tensors. A graph has filled ones in their place, also of
what eager does not compute: their products are zeros, with infinity too.
"""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten

_MAKER = aten._efficientzerotensor.default
_PRODUCTS = {aten.mul.Tensor, aten.mul.Scalar, aten.dot.default}
_QUOTIENTS = {aten.div.Tensor, aten.div.Scalar}
_SUMS = {aten.add.Tensor, aten.sub.Tensor}


class Zeros:
    """Which of a trace's tensors are such zeros, by identity: the trace keeps them alive."""

    def __init__(self) -> None:
        self._known: set[int] = set()

    def gives(self, func: Any, args: tuple[Any, ...]) -> bool:
        """Whether a call gives one."""
        if func is _MAKER:
            return True
        if not self._known:
            return False
        given = [id(arg) in self._known for arg in args[:2]]
        if func in _PRODUCTS:
            return any(given)
        if func in _QUOTIENTS:
            return given[0] and not given[-1]
        return func in _SUMS and all(given)

    def note(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor is one."""
        self._known.add(id(tensor))
        return tensor

    def note_view(self, base: Any, view: Any) -> None:
        """What shows a part of one is one."""
        if id(base) in self._known and isinstance(view, torch.Tensor):
            self._known.add(id(view))
