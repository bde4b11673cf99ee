"""Copies of tensors that have their layout, and how they are filled again.

Flows in: tensors. Flows out: twins, each of memory of its own, which one call fills from others of the same layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from inductor._torch import copy_all
from symshapes import is_dense


def extent(tensor: torch.Tensor) -> int:
    """How many elements lie between a tensor's first and its last, both included."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def overlaps(tensor: torch.Tensor) -> bool:
    """Whether two elements may lie at one place: then nothing is written to it as it is."""
    steps = sorted((stride, size) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1)
    reached = 0
    for stride, size in steps:
        if stride <= reached:
            return True
        reached += stride * (size - 1)
    return False


def twins(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Uninitialised tensors of the same sizes, strides and dtypes, each with memory of its own."""
    return [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device) for t in tensors]


def maker(tensors: Sequence[torch.Tensor]) -> Callable[[], list[torch.Tensor]]:
    """What makes twins of these, in less time than `twins`."""
    if all(is_dense(t) for t in tensors):  # then these have the same strides
        return lambda: [*map(torch.empty_like, tensors)]
    return lambda: twins(tensors)


class Filler:
    """Fills twins of certain tensors, those of one dtype by as few launches as torch needs for it."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        kinds: dict[torch.dtype, list[int]] = {}
        for at, tensor in enumerate(tensors):
            if tensor.numel():
                kinds.setdefault(tensor.dtype, []).append(at)
        self._flat = {at for at, tensor in enumerate(tensors) if overlaps(tensor)}
        self._kinds = list(kinds.values())

    def __call__(self, into: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> None:
        """Copy `tensors`, which have the sizes and strides that the first ones had."""
        if self._flat:
            into, tensors = self._flattened(into), self._flattened(tensors)
        for kind in self._kinds:
            if len(kind) == 1:
                (at,) = kind
                into[at].copy_(tensors[at])
            else:
                copy_all([into[at] for at in kind], [tensors[at] for at in kind])

    def _flattened(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [
            t.as_strided((extent(t),), (1,), t.storage_offset()) if at in self._flat else t
            for at, t in enumerate(tensors)
        ]
