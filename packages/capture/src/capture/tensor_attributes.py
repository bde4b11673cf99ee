"""The attributes by which torch's C says what tensors are: all that computes with tensors, or traces them, reads these."""

from __future__ import annotations

from collections.abc import Callable
from types import GetSetDescriptorType
from typing import Any

import torch

_BASE = torch.Tensor.__base__ or torch.Tensor
_TOLD = frozenset(n for n, v in vars(_BASE).items() if isinstance(v, GetSetDescriptorType)) - vars(torch.Tensor).keys()

# What torch itself has under these names, whatever a tensor's class says.
dtype_of: Callable[[torch.Tensor], torch.dtype] = vars(_BASE)["dtype"].__get__
device_of: Callable[[torch.Tensor], torch.device] = vars(_BASE)["device"].__get__
layout_of: Callable[[torch.Tensor], torch.layout] = vars(_BASE)["layout"].__get__
requires_grad: Callable[[torch.Tensor], bool] = vars(_BASE)["requires_grad"].__get__
is_leaf: Callable[[torch.Tensor], bool] = vars(_BASE)["is_leaf"].__get__
is_nested: Callable[[torch.Tensor], bool] = vars(_BASE)["is_nested"].__get__
is_quantized: Callable[[torch.Tensor], bool] = vars(_BASE)["is_quantized"].__get__
gradient_of: Callable[[torch.Tensor], torch.Tensor | None] = vars(_BASE)["grad"].__get__
node_of: Callable[[torch.Tensor], Any] = vars(_BASE)["grad_fn"].__get__


def is_parameter(value: Any) -> bool:
    """Whether it is one of a module's parameters; no class is asked, as `isinstance` asks one for a mark that objects may have."""
    cls = type(value)
    return issubclass(cls, torch.nn.Parameter) or (
        issubclass(cls, torch.Tensor) and bool(getattr(value, "__dict__", {}).get("_is_param", False))
    )


def replaced_attribute() -> str | None:
    """The name of one of these that the program has put something else in the place of, in `torch.Tensor` itself."""
    return next(iter(_TOLD & vars(torch.Tensor).keys()), None)
