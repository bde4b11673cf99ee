"""Adaptive averages over a whole image, whose C++ gives channels-last results by `as_strided`: its backward asks for each size.

In: calls on fakes with symbolic sizes. Out: the same values and strides by views whose backward asks nothing.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from symshapes import _torch
from symshapes.rules.layout import looks_channels_last

_ADAPTIVE = _torch.image_function("adaptive_avg_pool2d")


def adaptive_avg_pool2d(input: Tensor, output_size: Any, *more: Any) -> Tensor:
    """`torch.nn.functional.adaptive_avg_pool2d`."""
    sizes = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size, output_size)
    whole = all(type(size) is int and size == 1 for size in sizes)
    if more or not whole or input.dim() != 4 or not looks_channels_last(input.shape, input.stride()):
        return _ADAPTIVE(input, output_size, *more)
    # Strides as of (n, 1, 1, c) with the channels moved to their place.
    return input.mean((-1, -2)).unsqueeze(1).unsqueeze(1).permute(0, 3, 1, 2)


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """`torch.nn.functional.adaptive_avg_pool1d`: one row of a plane, as the C++ does it."""
    sizes = output_size if isinstance(output_size, (tuple, list)) else [output_size]
    if len(sizes) != 1 or input.dim() not in (2, 3):
        return torch.adaptive_avg_pool1d(input, output_size)
    return adaptive_avg_pool2d(input.unsqueeze(-2), (1, sizes[0])).squeeze(-2)


ROWS: dict[Any, Callable[..., Any]] = {
    _ADAPTIVE: adaptive_avg_pool2d,
    torch.adaptive_avg_pool1d: adaptive_avg_pool1d,
}
