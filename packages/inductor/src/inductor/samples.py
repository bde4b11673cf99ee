"""Tensors made up to time graphs on, and waiting for devices that are still at work."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch

from inductor.backends import traits_of

Metadata = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, str | torch.device]


def random_input(meta: Metadata | int, generator: torch.Generator | None = None) -> Any:
    """A tensor of this size, stride, dtype and device: normal floats, small integers. Without a generator it draws from torch's own."""
    if isinstance(meta, int):
        return meta
    size, stride, dtype, device = meta
    tensor = torch.empty_strided(size, stride, dtype=dtype, device=device)
    if tensor.numel() == 0:
        return tensor
    extent = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    flat = tensor.as_strided((extent,), (1,))
    if dtype.is_floating_point or dtype.is_complex:
        flat.normal_(generator=generator)
    else:
        flat.random_(0, 2, generator=generator)
    return tensor


def waits_for(values: Iterable[Any]) -> list[Callable[[], None]]:
    """For each device type of the tensors whose kernels run on after their calls: what waits until they have ended."""
    modules = {traits_of(value.device).module for value in values if isinstance(value, torch.Tensor)}
    return [functools.reduce(getattr, module.split(".")[1:], torch).synchronize for module in modules if module]
