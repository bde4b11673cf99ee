"""Views that are copied: the view, then a contiguous copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from aotgrad.decompositions.registry import decomposition

aten = torch.ops.aten

VIEWS = [
    "alias",
    "detach",
    "diagonal",
    "expand",
    "permute",
    "select.int",
    "slice.Tensor",
    "squeeze",
    "squeeze.dim",
    "squeeze.dims",
    "t",
    "transpose.int",
    "unfold",
    "unsqueeze",
    "view",
    "view.dtype",
    "split.Tensor",
    "split_with_sizes",
    "unbind.int",
]
"""Of each of these there is an op `..._copy`."""


def _copy(value: Any) -> Any:
    if isinstance(value, Tensor):
        return aten.clone.default(value, memory_format=torch.contiguous_format)
    return [_copy(one) for one in value]


def _copied(view: Callable[..., Any]) -> Callable[..., Any]:
    def copied(*args: Any, **kwargs: Any) -> Any:
        return _copy(view(*args, **kwargs))

    return copied


for _name in VIEWS:
    _packet, _, _overload = _name.partition(".")
    _overload = _overload or "default"
    decomposition(getattr(getattr(aten, f"{_packet}_copy"), _overload))(
        _copied(getattr(getattr(aten, _packet), _overload))
    )
