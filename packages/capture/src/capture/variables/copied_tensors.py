"""Deep copies of tensors: a clone in the graph, where that is all that ``Tensor.__deepcopy__`` comes to."""

from __future__ import annotations

from typing import Any

import torch

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
        and tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    )


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
