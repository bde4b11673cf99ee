"""What fakes hold, as far as it can be known: masks that the same operations made of the same tensors hold the same.

In: each mask that an operation made. Out: one key for all that hold the same, so that what is counted in one is known of the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from symshapes.fake.tensor import FakeTensor

_SEQUENCES = (list, tuple, torch.Size)
_PLAIN = (int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


class Content:
    """What a tensor holds: equal for two that hold the same. It keeps the tensors that it is made of."""

    __slots__ = ("_key", "_made_of")

    def __init__(self, key: Any, made_of: Any) -> None:
        self._key = key
        self._made_of = made_of

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Content) and self._key == other._key


def content_of(tensor: Any) -> Content | None:
    """What a fake holds now; None where writes to it are not counted."""
    if not isinstance(tensor, FakeTensor) or tensor.is_inference():
        return None
    made = getattr(tensor, "made_by", None)
    if made is not None and made[0] == tensor._version:
        content: Content = made[1]
        return content
    return Content((id(tensor), tensor._version), tensor)


def note_content(mask: FakeTensor, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """An operation without randomness has made a mask of these arguments."""
    parts = (*_parts(args), *kwargs, *_parts(kwargs.values()))
    if not mask.is_inference() and None not in parts:
        mask.made_by = mask._version, Content((func, parts), parts)


def _parts(values: Iterable[Any]) -> tuple[Any, ...]:
    """What stands for each argument; None for one of which it is not known what it holds."""
    return tuple([_part(value) for value in values])


def _part(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return content_of(value)
    if isinstance(value, _PLAIN):
        return type(value), value
    if isinstance(value, _SEQUENCES):
        parts = _parts(value)
        return None if None in parts else parts
    return None
