"""The one file that touches private parts of torch; each name says why nothing public serves.

A new torch release is this file's work: names in, plain functions out.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch

from symshapes import python_kernels


def next_autograd_number() -> int:
    """The number the next autograd node gets: how a backward node is matched with the forward line that made it."""
    return torch._C._autograd._get_sequence_nr()


def running_autograd_number() -> int | None:
    """The number of the autograd node whose backward runs on this thread, or None outside a backward."""
    node = torch._C._current_autograd_node()
    return None if node is None else node._sequence_nr()


# Saves and restores the autocast state of every device at once; the public context manager does one device.
DisableAutocast = torch._C._DisableAutocast


def any_autocast() -> bool:
    """Whether autocast is on for any device (the public query asks one device at a time)."""
    return torch._C._is_any_autocast_enabled()


# Ops go to their kernels with nothing recorded, while grad mode stays what it is.
BelowAutograd = torch._C._AutoDispatchBelowAutograd

# The setter that `torch.no_grad` uses; the public classes cost a microsecond more on the hot path.
set_grad_enabled = torch._C._set_grad_enabled


def set_layout(tensor: Any, like: Any) -> None:
    """Give a fake tensor the sizes, strides and offset of another, in place.

    The dispatcher's own kernel does it, on the wrapper, once Python no longer takes the call.
    """
    size, stride, offset = like.shape, like.stride(), like.storage_offset()
    with torch._C._DisableTorchDispatch():
        torch.ops.aten.as_strided_.default(tensor, size, stride, offset)
    tensor.laid_out(like)


# What watches tensors that are saved for backward, if anything: public code can only enter and leave its own hooks.
top_saved_tensor_hooks = torch._C._autograd._top_saved_tensors_default_hooks

# The node whose backward runs in this thread, if any: no public function says so.
current_node: Callable[[], Any] = torch._C._current_autograd_node

# Whether derivatives are taken forwards where somebody asks for them: only a context manager is public.
forward_derivatives: Callable[[], bool] = torch._C._is_fwd_grad_enabled

# Whether a function transform (vmap, grad ...) is in force: it would meet kernels that know nothing of it.
in_transform = torch._C._are_functorch_transforms_active


def modes_on() -> bool:
    """Whether Python code hears of torch's calls: a `TorchFunctionMode` or `TorchDispatchMode` (the public queries are of one kind)."""
    return bool(torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack())


def kernels_of_others() -> Iterator[tuple[str, str]]:
    """Kernels that Python code that does not come with torch has given to torch's own operators, by the operator's name and the
    dispatcher's key, but for those of tensors without memory. No public function says whose they are: the dispatcher's dump has the
    file that made the library they are of, which is `torch.library`'s own for those who go by its functions."""
    folder = os.path.dirname(torch.__file__) + os.sep
    for operator, key in itertools.chain.from_iterable(python_kernels().values()):
        dump = torch._C._dispatch_dump(f"aten::{operator}").splitlines()
        homes = [line.partition(": registered at ")[2] for line in dump if line.startswith((f"{key}: ", f"{key}["))]
        if not any(home.startswith(folder) and not home.startswith(torch.library.__file__) for home in homes):
            yield f"aten::{operator}", key


def key_of(device: torch.device) -> str:
    """The dispatcher's key of kernels for a type of device."""
    return torch._C._dispatch_key_for_device(device.type)


# Whether a tensor is one of such a transform's.
is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor

# Operations made of others are so in Python where torch has that: beneath transforms its C++ takes no symbolic sizes.
composed_in_python = torch._C._EnablePythonDispatcher

# Whether the backward that is running leaves saved values for another one; public code does not hear of it.
keeps_graph = torch._C._autograd._get_current_graph_task_keep_graph

# A backward of several tangents at once (`is_grads_batched`, vmap) has tensors without memory that a kernel could read.
has_storage = torch._C._has_storage


def apply_of(function: Any) -> Any:
    """A `torch.autograd.Function`'s `apply` as C knows it: the public one adds frames of Python for what no compiled
    graph meets (transforms, which C refuses, and wrappers that outlived theirs). A lone result comes as `forward` gave it.
    """
    return super(torch.autograd.Function, function).apply


# From torch 2.13 on a backward may be given its tangents as a list, all that holds them then; before, autograd holds them until it ends.
BOXES_TANGENTS = hasattr(torch.autograd.Function, "boxed_grads_call")


def let_run(function: Any, backward: Any) -> None:
    """Have autograd's engine call `backward` itself, where torch puts two frames of Python in between. It takes a list if `BOXES_TANGENTS`."""
    setattr(function._backward_cls, "apply_boxed" if BOXES_TANGENTS else "apply", backward)


def native(op: Any) -> Any:
    """What runs an operator: its own `__call__` is a frame of Python that passes all on to C."""
    return op._op if type(op) is torch._ops.OpOverload else op


# One call that copies a list of tensors; public code copies one by one.
copy_all = torch._foreach_copy_

# Counts a write to each of a list of tensors; the public function is a frame around it.
increment_versions = torch._C._increment_version

# What a program promises of numbers in data, checked when it runs.
promise: Callable[[Any, Callable[[], str]], None] = torch._check

# What the public methods of an autograd.Function's context set: assigned, they cost no frame.
TO_SAVE, NON_DIFFERENTIABLE, MATERIALIZES = "to_save", "non_differentiable", "materialize_grads"

# What has that context let go of what it saved, unless the graph is kept: the public way lets go for good, also of what another
# backward comes for.
LET_GO = "maybe_clear_saved_tensors"


def is_asked_for(node: Any) -> bool:
    """Within a backward: whether it comes to a node of autograd, or gives its gradient. No public function tells."""
    try:
        return torch._C._will_engine_execute_node(node)
    except RuntimeError:  # of a leaf whose gradient `torch.autograd.grad` gives
        return True


# The types of operators: public code has instances only.
OpOverload, OpOverloadPacket = torch._ops.OpOverload, torch._ops.OpOverloadPacket


def has_formula(op: Any) -> bool:
    """Whether autograd was given something to do of its own for an operator, as `torch.library.register_autograd` does."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "Autograd")


def autocasts(op: Any, device: torch.device) -> bool:
    """Whether autocast, which is on, does something of its own for an operator on a device."""
    key = f"Autocast{device.type.upper()}"
    return any_autocast() and torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key)


# The softmax of attention, of which rows of -inf alone give zeros: a program's graph may call it.
safe_softmax = torch._safe_softmax
