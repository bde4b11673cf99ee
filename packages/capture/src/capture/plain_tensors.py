"""Tensors of the program's classes and the plain ones of torch's that graphs have in their place: one over the memory of the other.

No class is asked about it, and the history goes along as it does in eager, whatever mode of autograd is in force.
"""

from __future__ import annotations

import torch

from ._torch import inference_guard, make_subclass, without_functions
from .tensor_attributes import is_leaf, node_of, requires_grad


def as_class(tensor: torch.Tensor, cls: type) -> torch.Tensor:
    """A tensor of this class over the memory of another, with its history or none, whatever mode is in force; no class is asked."""
    with without_functions():
        return _alias(tensor, cls, _has_history(tensor))


def plain_of(tensor: torch.Tensor, index: int) -> torch.Tensor:
    """The memory of a tensor of a class of the program's, as a tensor of torch's own class: what a graph takes in its place.

    Gradients go on to the tensor, whatever mode the graph begins in.
    """
    with without_functions():
        return _alias(tensor, torch.Tensor, requires_grad(tensor))


def _has_history(tensor: torch.Tensor) -> bool:
    try:
        return node_of(tensor) is not None
    except RuntimeError:  # a view whose base was written to in a way that leaves it none
        return False


def _alias(tensor: torch.Tensor, cls: type, differentiates: bool) -> torch.Tensor:
    if torch.is_grad_enabled() is differentiates or not requires_grad(tensor):
        return torch.Tensor.as_subclass(tensor, cls)
    if not differentiates:
        with torch.no_grad():
            return torch.Tensor.as_subclass(tensor, cls)
    with inference_guard(False), torch.enable_grad():
        return torch.Tensor.as_subclass(tensor, cls)


def size_of(tensor: torch.Tensor, dim: int) -> int:
    """A size of a tensor of such a class, as torch has it."""
    with without_functions():
        return torch.Tensor.size(tensor, dim)


def like_plain(tensor: torch.Tensor) -> torch.Tensor:
    """The same to make a fake of: a leaf where the tensor is one."""
    with without_functions():
        leaf = is_leaf(tensor)
        return make_subclass(torch.Tensor, tensor, requires_grad(tensor)) if leaf else plain_of(tensor, 0)
