"""Whether tensors have memory in common, by where they begin and end.

Flows in: tensors. Flows out: answers, at no cost of guards.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Sequence
from typing import Any

import torch


def share_memory(tensors: Sequence[torch.Tensor], written: Iterable[int], storages: Sequence[Hashable]) -> bool:
    """Whether one of the tensors at the places `written` has memory in common with another, as `spans_meet` tells it. Side by side in one
    storage they have none, as the weights of a GPU's recurrent layers and the parameters of a flat buffer lie.

    Args:
        storages: of each tensor, what is the same of two in one storage; 0 or None of one that has no memory.
    """
    written = frozenset(written)
    sharers: dict[Hashable, list[int]] = {}
    for at, storage in enumerate(storages):
        sharers.setdefault(storage, []).append(at)
    return any(
        spans_meet([tensors[at] for at in places], {place for place, at in enumerate(places) if at in written})
        for storage, places in sharers.items()
        if storage and len(places) > 1 and not written.isdisjoint(places)
    )


def shares_memory_lines(tensors: Sequence[str], written: Iterable[int]) -> tuple[str, str]:
    """Two lines of generated code, the second of which begins a block for where one of these tensors, at a place in `written`, shares memory
    with another. The code needs `share_memory` by that name, and calls it where two are in one storage."""
    storages = ", ".join(f"{tensor}.untyped_storage().data_ptr()" for tensor in tensors)
    given = "".join(f"{tensor}, " for tensor in tensors)
    test = f"len({{*storages}}) < {len(tensors)} and share_memory(({given}), {tuple(written)}, storages)"
    return f"storages = [{storages}]", f"if {test}:"


def spans_meet(tensors: Sequence[torch.Tensor], written: Container[int]) -> bool:
    """Whether, of tensors in one storage, one at a place in `written` spans memory that another spans, too. Their elements may lie between
    each other's all the same; where a span begins or ends by a symbol, it meets the others."""
    spans: list[tuple[int, int, bool]] = []
    for at, tensor in enumerate(tensors):
        first: Any = tensor.storage_offset()
        size, stride = tensor.shape, tensor.stride()
        if not all(type(number) is int for number in (first, *size, *stride)):
            return True
        if 0 not in size:
            last = first + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
            spans.append((first * tensor.itemsize, (last + 1) * tensor.itemsize, at in written))
    spans.sort()
    reach = reach_of_written = 0
    for first, end, changes in spans:
        if first < reach_of_written or (changes and first < reach):
            return True
        reach = max(reach, end)
        if changes:
            reach_of_written = max(reach_of_written, end)
    return False
