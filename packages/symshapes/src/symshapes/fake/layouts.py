"""What torch's C++ asks of a tensor that has sizes which may be 1 as well as more: how it is laid out, whichever they are.

In: sizes, strides, and what is asked besides. Out: the answer; no where a size would have to be 1,
unless the program asks for channels-last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from symshapes.rules.layout import Sizes, is_channels_last, is_contiguous, is_dense, looks_channels_last

_PLAIN = (torch.contiguous_format, torch.preserve_format)


def _is_contiguous(size: Sizes, stride: Sizes, memory_format: torch.memory_format = torch.contiguous_format) -> bool:
    # A copy in channels-last has another format than the tensor of one row that needs none: what comes of it would, too.
    return is_contiguous(size, stride) if memory_format in _PLAIN else is_channels_last(size, stride, exact=True)


def _looks(size: Sizes, stride: Sizes, memory_format: torch.memory_format) -> bool:
    return looks_channels_last(size, stride)


_QUESTIONS: dict[str, Callable[..., Any]] = {
    "sym_stride": lambda size, stride: stride,
    "is_contiguous": _is_contiguous,
    "sym_is_contiguous": _is_contiguous,
    "is_strides_like_format": _looks,
    "is_non_overlapping_and_dense": is_dense,
}

LAYOUTS: dict[Any, Callable[..., Any]] = {
    getattr(packet, overload): answer
    for name, answer in _QUESTIONS.items()
    if (packet := getattr(torch.ops.aten, name, None)) is not None
    for overload in packet.overloads()
}
"""The answers by operator."""
