"""The one file that touches private parts of torch; each name says why nothing public serves."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

import torch

# The class of what `torch.ops` holds: public code has the objects, not the name.
OpOverload = torch._ops.OpOverload

# Metadata read inside does not come to a subclass's override, which takes ten times as long as the answer.
no_torch_function = torch._C.DisableTorchFunctionSubclass

# Switches autocast off for every device at once; the public context manager does one.
no_autocast = torch._C._DisableAutocast

# Leaves the program's modes that see functions, and subclasses' overrides; the public context manager leaves the latter alone.
no_function_modes = torch._C.DisableTorchFunction


# A tensor out of the handle that torch's stable C shim gives: the way from there to Python that torch has for itself.
tensor_of_handle = torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr


def native_call(path: str, op: OpOverload) -> str:
    """The text of what runs `op`, whose own text is `path`: its `__call__` is a frame of Python that passes all on to C."""
    return f"{path}._op" if type(op) is OpOverload else path


# The current CUDA stream's handle; the public function makes an object, ten times as slow.
current_raw_stream: Any = getattr(torch._C, "_cuda_getCurrentRawStream", None)

# The current CUDA device's index; the public function asks first, by three frames of Python, whether CUDA is up.
current_cuda_device: Any = getattr(torch._C, "_cuda_getDevice", None)

# The same as text; None where torch was built without CUDA.
CURRENT_CUDA_DEVICE = None if current_cuda_device is None else "torch._C._cuda_getDevice"

# Copies many tensors by few launches; nothing public does.
copy_all = torch._foreach_copy_

# Gives the libraries' workspaces back to the allocator: a graph that is recorded must have one of its own.
forget_workspaces: Any = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)

# Where a recording failed, torch's graphs do not do it themselves.
end_allocating_to_pool: Any = getattr(torch._C, "_cuda_endAllocateToPool", None)
release_pool: Any = getattr(torch._C, "_cuda_releasePool", None)


@functools.cache
def tensor_offset() -> int | None:
    """Where in the Python tensor object its `at::Tensor` lies, in bytes; None if that can't be told.

    The stable C shim takes a pointer to the `at::Tensor`. `Tensor._cdata` (private: nothing public gives it) is the
    word stored there, so the offset is the one place that holds it in several tensors.
    """
    samples = [torch.empty(0), torch.empty(3, dtype=torch.int64), torch.nn.Parameter(torch.empty(2))]
    common: set[int] | None = None
    count = min(8, torch.Tensor.__basicsize__ // 8)
    for tensor in samples:
        words = (ctypes.c_size_t * count).from_address(id(tensor))
        found = {8 * k for k in range(2, count) if words[k] == tensor._cdata}
        common = found if common is None else common & found
    return common.pop() if common is not None and len(common) == 1 else None


# How many hold a tensor's memory, or the tensor, in torch and beneath: public code asks only who else holds the Python object.
storage_uses: Any = torch._C._storage_Use_Count
tensor_uses: Any = torch.Tensor._use_count  # type: ignore[attr-defined]


def data_ptr_function() -> int | None:
    """Address of the stable C shim's `aoti_torch_get_data_ptr`; None if this torch does not export it."""
    return _shim_function("aoti_torch_get_data_ptr")


def storage_offset_function() -> int | None:
    """Address of the stable C shim's `aoti_torch_get_storage_offset`; None if this torch does not export it."""
    return _shim_function("aoti_torch_get_storage_offset")


@functools.cache
def _shim_function(name: str) -> int | None:
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        function = getattr(ctypes.CDLL(str(library)), name)
    except (OSError, AttributeError):
        return None
    return ctypes.cast(function, ctypes.c_void_p).value
