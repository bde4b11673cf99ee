"""Writes to elements that are one in memory, or that the same call reads at another place.

In: fakes that an op writes to and reads. Out: whether their elements meet, so that what eager does is not what values say:
it raises an error, or the order counts in which the kernel goes.
"""

from __future__ import annotations

from typing import Any

import torch

from symshapes import FakeTensor, hint_of, is_dense, same_layout, same_size, same_sizes


def repeats(tensor: torch.Tensor) -> bool:
    """Whether elements of a tensor may be one in memory: it was expanded, or its windows overlap by the sizes of now."""
    if any(
        same_size(step, 0) and not same_size(length, 1)
        for step, length in zip(tensor.stride(), tensor.shape, strict=True)
    ):
        return True
    known = [(hint_of(step), hint_of(length)) for step, length in zip(tensor.stride(), tensor.shape, strict=True)]
    reach = 0
    for step, length in sorted(known):
        if length > 1:
            if step <= reach:
                return not any(length == 0 for _, length in known)
            reach += step * (length - 1)
    return False


def crosses(target: FakeTensor, source: FakeTensor) -> bool:
    """Whether the tensor that is written lies partly in one that is read, not as one and the same. Unsure is False, as in eager."""
    if target is source or target.storage_key is not source.storage_key:
        return False
    (first, end), (other, other_end) = map(_extent, (target, source))
    if same_size(first, other) and same_sizes(target, source) and same_layout(target, source):
        return False
    if is_dense(target) and is_dense(source):
        return not (other_end <= first or end <= other)
    return _meet(target, source)


def _extent(tensor: torch.Tensor) -> tuple[Any, Any]:
    """Where a block of memory begins and ends, in elements."""
    return tensor.storage_offset(), tensor.storage_offset() + tensor.numel()


def _meet(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Whether two tensors of the same strides have elements in common, by the sizes that there are now."""
    strides = [hint_of(step) for step in one.stride()]
    if strides != [hint_of(step) for step in two.stride()] or 0 in strides:
        return False
    distance = hint_of(two.storage_offset()) - hint_of(one.storage_offset())
    if distance < 0:
        one, two, distance = two, one, -distance
    for dim in sorted(range(one.dim()), key=lambda dim: -strides[dim]):
        places, distance = divmod(distance, strides[dim])
        if places >= hint_of(one.shape[dim]):
            return False
    return bool(distance == 0)
