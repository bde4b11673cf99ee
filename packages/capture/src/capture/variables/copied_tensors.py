"""Copies of tensors: in the graph, where a clone is all that ``Tensor.__deepcopy__`` comes to, or the same memory all that ``copy.copy`` does."""

from __future__ import annotations

from typing import Any

import torch

from capture._torch import without_functions
from capture.errors import Unsupported

from .autograd_state import require_grad
from .base import Interpreter, Kwargs, Variable
from .constants import Constant
from .tensors import Tensor


def _stands_alone(tensor: torch.Tensor) -> bool:
    """Whether a copy of the memory is a copy of the tensor: it fills its memory, and nothing hangs from it."""
    return (
        type(tensor) is torch.Tensor
        and tensor.is_leaf
        and tensor.grad is None
        and not tensor.__dict__
        and _fills_memory(tensor)
    )


def _fills_memory(tensor: torch.Tensor) -> bool:
    with without_functions():
        return tensor.untyped_storage().nbytes() == _size_in_bytes(tensor)


def _size_in_bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _is_bare(tensor: torch.Tensor) -> bool:
    return not tensor.__dict__


def copy_of_tensor(m: Interpreter, value: Tensor) -> Variable:
    """``copy.copy``: a tensor over the same memory; raises ``Unsupported`` for those from which something hangs, that require gradients or have a class."""
    value.check_operator(m, "__reduce_ex__")
    if value.cls is not torch.Tensor or value.node is None or value.fake.requires_grad or m.modes.active:
        raise Unsupported("copy of a tensor that requires gradients, or has a class or a mode that is asked")
    if value.given:
        raise Unsupported("copy of a tensor that was given attributes")
    if value.value is not None:
        if not _is_bare(value.value):
            raise Unsupported("copy of a tensor with attributes")
        m.guards.predicate(value, _is_bare, "{} has no attributes")
    return m.calls.call(m.builder.known(getattr), [value, Constant("data")], {}).realize(m)


def _check_whole(m: Interpreter, value: Tensor) -> None:
    """Raise ``Unsupported`` for a view that was made in the frame of less than all of a memory: a deep copy has that as a whole."""
    key = value.fake.storage_key  # type: ignore[attr-defined]
    first = next(each for each in m.recorder.fakes.values() if getattr(each.fake, "storage_key", None) == key)
    if first is value:
        return
    if _size_in_bytes(first.fake) != _size_in_bytes(value.fake):
        raise Unsupported("deep copy of a part of a tensor")
    if first.value is not None:
        if not _fills_memory(first.value):
            raise Unsupported("deep copy of a part of a tensor")
        m.guards.predicate(first, _fills_memory, "{} fills its memory")


def deep_copy_of_tensor(m: Interpreter, value: Tensor, copied: list[Any]) -> Variable:
    """A clone; raises ``Unsupported`` for those that are parameters, have gradients, or may share memory with what is copied along.

    ``copied`` are the tensors that were copied before, in the same call.
    """
    if (
        value.cls is not torch.Tensor
        or not value.fake.is_leaf
        or not m.builder.is_none(value.attribute(m, "grad").realize(m))
    ):
        raise Unsupported("deep copy of a parameter, or of a tensor that has a gradient")
    if not value.fake.is_contiguous():
        raise Unsupported("deep copy of a tensor with gaps or an order of its own")
    if value.given:
        raise Unsupported("deep copy of a tensor that was given attributes")
    if value.value is not None:
        if any(other.value is not None for other in copied):
            raise Unsupported("deep copy of several tensors from outside, which may share memory")
        if not _stands_alone(value.value):
            raise Unsupported("deep copy of a part of a tensor, or of one with attributes")
        m.guards.predicate(value, _stands_alone, "{} fills its memory and has no attributes")
    else:
        _check_whole(m, value)
    key = value.fake.storage_key  # type: ignore[attr-defined]
    if any(other.fake.storage_key == key for other in copied):
        raise Unsupported("deep copy of several tensors that share memory")
    copied.append(value)
    options: Kwargs = {"memory_format": Constant(torch.preserve_format)}
    if not value.fake.requires_grad:
        return m.recorder.record("call_method", "clone", [value], options)
    apart = m.recorder.record("call_method", "detach", [value], {})
    made = m.recorder.record("call_method", "clone", [apart], options)
    require_grad(m, made, True)
    return made
